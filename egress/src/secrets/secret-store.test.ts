/** `secrets.json` is believed only while it is private and whole, and an edit holds at once. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { keptLog } from '../../../tests/support/kept-log.ts';
import { systemClock } from '@squash/base/clock';
import type { Destination } from '@squash/policy/policy';
import { upstreamRoots } from '../intercept/upstream-socket.ts';
import { FileSecretStore } from './secret-store.ts';
import { readSecretsFile, SecretsFileError, writeSecretsFile } from '@squash/installation/secrets-file';

class Directory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'squash-secrets-'));
  readonly file = join(this.path, 'secrets.json');
  readonly #log = keptLog('info');
  readonly lines = this.#log.lines;
  readonly #stores: FileSecretStore[] = [];

  write(value: unknown, mode = 0o600): void {
    writeFileSync(this.file, typeof value === 'string' ? value : JSON.stringify(value), { mode });
    chmodSync(this.file, mode);
  }

  store(): FileSecretStore {
    const store = new FileSecretStore(this.file, this.#log.log, {
      roots: upstreamRoots(),
      clock: systemClock,
    });
    this.#stores.push(store);
    return store;
  }

  [Symbol.dispose](): void {
    for (const store of this.#stores) void store[Symbol.asyncDispose]();
    rmSync(this.path, { recursive: true });
  }
}

const key = (value: string, placeholder = 'sk-placeholder-anthropic') => ({
  secrets: { ANTHROPIC_API_KEY: { placeholder, value, allowed_hosts: ['api.anthropic.com'] } },
});
const api: Destination = { host: 'api.anthropic.com', address: undefined, port: 443 };

test('the original’s file is read as it is, and hosts are exact', () => {
  using directory = new Directory();
  directory.write(key('sk-ant-real-key-here'));
  const all = directory.store().subset('all');
  assert.equal(all.isEmpty, false);
  assert.equal(all.concerns(api), true);
  for (const host of [
    'anthropic.com',
    'm',
    'xapi.anthropic.com',
    'a.api.anthropic.com',
    'api.anthropic.com.evil.test',
  ]) {
    assert.equal(all.concerns({ ...api, host }), false, host);
  }
  assert.equal(all.concerns({ host: undefined, address: '192.0.2.1', port: 443 }), false);
});

test('a secret can name wildcards, ports and single addresses', () => {
  using directory = new Directory();
  directory.write({
    secrets: {
      K: {
        placeholder: 'placeholder-1',
        value: 'value-value',
        allowed_hosts: ['*.Example.com:443', '192.0.2.1', '[2001:db8::1]:8443'],
      },
    },
  });
  const all = directory.store().subset('all');
  const reaches = (host: string | undefined, address: string | undefined, port: number): boolean =>
    all.concerns({ host, address, port });
  assert.equal(reaches('a.b.example.com', undefined, 443), true);
  assert.equal(reaches('a.b.example.com', undefined, 80), false);
  assert.equal(reaches('example.com', undefined, 443), false);
  assert.equal(reaches(undefined, '192.0.2.1', 80), true);
  assert.equal(reaches(undefined, '192.0.2.2', 80), false);
  assert.equal(reaches(undefined, '2001:db8::1', 8443), true);
  assert.equal(reaches(undefined, '2001:db8::1', 443), false);
});

test('a sandbox has its subset, also of secrets that come later', () => {
  using directory = new Directory();
  const store = directory.store();
  const [some, none] = [store.subset(['ANTHROPIC_API_KEY']), store.subset(['OTHER'])];
  assert.deepEqual([some.isEmpty, none.isEmpty], [true, true]);
  directory.write(key('sk-ant-real-key-here'));
  assert.deepEqual([some.isEmpty, none.isEmpty], [false, true]);
  assert.deepEqual(
    some.traffic.secrets.map(({ name }) => name),
    ['ANTHROPIC_API_KEY'],
  );
});

test('an edit holds at the next question and listeners hear of it, in place and by rename', async () => {
  using directory = new Directory();
  await writeSecretsFile(directory.file, key('first-value'));
  assert.equal(statSync(directory.file).mode & 0o777, 0o600);
  const store = directory.store();
  const changes = new PassThrough();
  store.onChange(() => changes.write('.'));
  // The store's watch does not keep the process alive.
  const deadline = setTimeout(() => changes.destroy(new Error('no change was told')), 10_000);
  const told = changes[Symbol.asyncIterator]();
  const value = (): string | undefined => store.subset('all').traffic.secrets[0]?.reveal();
  assert.equal(value(), 'first-value');
  directory.write(key('second-value'));
  assert.equal(value(), 'second-value');
  await told.next();
  // Nobody asks: the watch alone has to notice.
  await writeSecretsFile(directory.file, key('third-value'));
  await told.next();
  assert.equal(value(), 'third-value');
  unlinkSync(directory.file);
  assert.equal(store.subset('all').isEmpty, true);
  await told.next();
  // Nobody asks, and there was nothing to watch.
  await writeSecretsFile(directory.file, key('fourth-value'));
  await told.next();
  assert.equal(value(), 'fourth-value');
  clearTimeout(deadline);
});

test('a bad edit keeps the last good secrets, says so without a value, and a good one mends it', () => {
  using directory = new Directory();
  directory.write(key('sk-ant-real-key-here'));
  const store = directory.store();
  const bad: [unknown, RegExp, number?][] = [
    ['{"secrets":{"A":{"value":"sk-ant-real-key-here', /not JSON/],
    [{ secrets: { A: { value: 'sk-ant-real-key-here' } } }, /placeholder/],
    [key('sk-ant-real-key-here'), /chmod 600/, 0o640],
    [{ ...key('sk-ant-real-key-here'), more: 1 }, /not valid/],
    [key('same-as-placeholder', 'same-as-placeholder'), /nothing would be hidden/],
    [key('sk-ant-real-key-here', 'short'), /not valid/],
  ];
  for (const [content, pattern, mode] of bad) {
    directory.write(content, mode);
    assert.equal(store.subset('all').concerns(api), true);
    const [warning = ''] = store.warnings;
    assert.match(warning, pattern);
    assert.match(warning, /stay in force/);
  }
  assert.doesNotMatch(directory.lines.join(''), /sk-ant-real/);
  assert.equal(directory.lines.filter((line) => line.includes('secrets.refused')).length, bad.length);
  directory.write(key('sk-ant-real-key-here'));
  assert.deepEqual(store.warnings, []);
});

test('a file that is bad from the start means no secrets, and reading it for the daemon throws', () => {
  using directory = new Directory();
  directory.write(key('sk-ant-real-key-here'), 0o644);
  const store = directory.store();
  assert.equal(store.subset('all').isEmpty, true);
  assert.match(store.warnings[0] ?? '', /no secrets are in force/);
  assert.throws(() => readSecretsFile(directory.file), SecretsFileError);
  unlinkSync(directory.file);
  symlinkSync('/dev/null', directory.file);
  assert.throws(() => readSecretsFile(directory.file), /not a regular file/);
});

test('what is written is what is read, and what could not be read is not written', async () => {
  using directory = new Directory();
  const file = key('sk-ant-real-key-here');
  await writeSecretsFile(directory.file, file);
  assert.deepEqual(readSecretsFile(directory.file).file, file);
  const before = readFileSync(directory.file, 'utf8');
  await assert.rejects(writeSecretsFile(directory.file, key('short')), SecretsFileError);
  assert.equal(readFileSync(directory.file, 'utf8'), before);
});

test('tables of sandboxes with secrets of their own are made once each, however many there are', async () => {
  using directory = new Directory();
  directory.write(key('sk-ant-real-key-here'));
  mkdirSync(join(directory.path, 'secrets'));
  const store = directory.store();
  const views = [];
  for (let at = 0; at < 300; at += 1) {
    const sandbox = `box-${at}`;
    const secret = { placeholder: `placeholder-${at}`, value: `value-${at}-0`, allowed_hosts: ['own.test'] };
    await writeSecretsFile(join(directory.path, 'secrets', `${sandbox}.json`), { secrets: { OWN: secret } });
    views.push(store.subset('all', { sandbox, names: ['OWN'] }));
  }
  const shared = store.subset('all');
  const sharedTables = shared.traffic;
  const tables = views.map(({ traffic }) => traffic);
  assert.ok(views.every(({ traffic }, at) => traffic === tables[at]));
  assert.equal(shared.traffic, sharedTables);
  directory.write({ secrets: {} });
  for (const view of views)
    assert.deepEqual(
      view.traffic.secrets.map(({ name }) => name),
      ['OWN'],
    );
  assert.equal(shared.isEmpty, true);
});
