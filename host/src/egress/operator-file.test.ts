/** What is said of an operator's file that can't be used: never a part of one that holds passwords. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { upstreamsSchema } from '@squash/contract/upstreams';
import { readOperatorFile } from './operator-file.ts';

const password = 'pw-of-a-proxy';
const url = `http://u:${password}@h:1`;

test('a file with passwords is believed only while it is private and whole, and nothing repeats them', (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'squash-operator-'));
  t.after(() => rmSync(dataDir, { recursive: true }));
  const name = 'egress-upstreams.json';
  const path = join(dataDir, name);
  const read = (): unknown => readOperatorFile({ dataDir, name, isPrivate: true }, upstreamsSchema);
  assert.equal(read(), undefined);
  const bad: [text: string, said: RegExp, mode?: number][] = [
    [`${password}`, /it is not JSON$/],
    [`{"a": "${url}"`, /it is not JSON$/],
    [`{"a": ${url}}`, /it is not JSON$/],
    [JSON.stringify({ [url]: 5 }), /it is malformed$/],
    [JSON.stringify({ [url]: 'corp' }), /malformed|upstream: small letters/],
    [JSON.stringify({ a: 5 }), /a must be a string$/],
    [JSON.stringify({ a: `${url}/path` }), /a proxy is/],
    [JSON.stringify({ a: url }), /chmod 600/, 0o644],
    [' '.repeat(9_000_000), /larger than/],
  ];
  for (const [text, said, mode = 0o600] of bad) {
    writeFileSync(path, text);
    chmodSync(path, mode);
    assert.throws(read, (error: Error) => {
      assert.match(error.message, said);
      assert.ok(!inspect(error, { depth: 9 }).includes(password.slice(0, 5)), inspect(error));
      return true;
    });
  }
  writeFileSync(path, JSON.stringify({ a: url }));
  assert.deepEqual(read(), { a: url });
  rmSync(path);
  execFileSync('mkfifo', ['-m', '600', path]);
  assert.throws(read, /not a regular file/);
});
