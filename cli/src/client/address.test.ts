/** Which daemon a call reaches, from options, environment and the data directory. */
import assert from 'node:assert/strict';
import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { CliFailure } from '../failure.ts';
import { describeAddress, findDaemon, localSocketPath, parseAddress } from './address.ts';

describe('findDaemon', () => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-address-'));
  after(() => rmSync(directory, { recursive: true }));

  it('takes the call before the environment, the socket before the port', () => {
    const env = { SQUASH_API: 'http://a:1', SQUASH_SOCKET: '/env.sock' };
    assert.deepEqual(findDaemon({ socket: '/s' }, env), { kind: 'unix', path: '/s' });
    assert.equal(describeAddress(findDaemon({ url: 'https://h/x/' }, env)), 'https://h:443/x');
    assert.deepEqual(findDaemon({}, env), { kind: 'unix', path: '/env.sock' });
    assert.equal(describeAddress(findDaemon({}, { SQUASH_API: 'http://[::1]:9' })), 'http://[::1]:9');
    assert.throws(() => findDaemon({ url: 'http://a', socket: '/s' }, {}), CliFailure);
  });

  it('finds the socket of the data directory where there is one, else the port', () => {
    const data = join(directory, 'data');
    assert.equal(describeAddress(findDaemon({}, { SQUASH_DATA: data })), 'http://127.0.0.1:8080');
    assert.equal(
      describeAddress(findDaemon({}, { SQUASH_DATA: data, SQUASH_PORT: '81' })),
      'http://127.0.0.1:81',
    );
    for (const port of ['abc', '65536', '-1'])
      assert.throws(
        () => findDaemon({}, { SQUASH_DATA: data, SQUASH_PORT: port }),
        /SQUASH_PORT is ".*": a port/,
      );
    mkdirSync(join(data, 'run'), { recursive: true });
    writeFileSync(join(data, 'run', 'api.sock'), '');
    assert.equal(describeAddress(findDaemon({}, { SQUASH_DATA: data })), join(data, 'run/api.sock'));
    assert.equal(localSocketPath({ SQUASH_RUN: '/elsewhere', SQUASH_DATA: data }), '/elsewhere/api.sock');
  });

  it('takes no place from a .env of another user', {
    skip: process.geteuid?.() !== 0 && 'only root can give a file away',
  }, () => {
    const before = process.cwd();
    process.chdir(directory);
    try {
      writeFileSync('.env', 'SQUASH_RUN=/theirs\n');
      assert.equal(localSocketPath({}), '/theirs/api.sock');
      chownSync('.env', 65_534, 65_534);
      assert.notEqual(localSocketPath({}), '/theirs/api.sock');
    } finally {
      process.chdir(before);
    }
  });

  it('refuses addresses that say something else than where', () => {
    for (const text of ['ftp://h', 'nonsense', 'http://', 'http://u@h', 'http://h/?q', 'http://h/#f']) {
      assert.throws(() => parseAddress(text, '--url'), CliFailure, text);
    }
    assert.deepEqual(parseAddress('unix:///x/y', '--url'), { kind: 'unix', path: '/x/y' });
  });
});
