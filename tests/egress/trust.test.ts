/**
 * How programs come to trust the installation's authority: every variable leads to a file that is good for a host that
 * is read, and those that replace a program's own list are good for any other host as well.
 *
 * That a program reads its variable is shown by a file that is not there, with which it must not be content.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { isOnVms } from '../support/backend.ts';
import { canary } from './world/events.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot } from './world/world.ts';

const world = useWorld(
  {
    // Of the other kinds nobody outside sees the files.
    env: { SQUASH_UPPER: 'directory' },
    secrets: {
      KEY: {
        placeholder: 'squash-key-placeholder',
        value: 'real-key-value-0123',
        allowed_hosts: ['secret.allowed.test'],
      },
    },
  },
  (one) => one.create('box', { allow_net: ['*.allowed.test'] }),
);

const read = 'https://secret.allowed.test/hello';
const tunnelled = 'https://www.allowed.test/hello';
/** Each may also name what only adds to a program's own list. */
const variables = {
  SSL_CERT_FILE: 'replaces',
  NODE_EXTRA_CA_CERTS: 'adds',
  REQUESTS_CA_BUNDLE: 'replaces',
  CURL_CA_BUNDLE: 'replaces',
  GIT_SSL_CAINFO: 'replaces',
  DENO_CERT: 'adds',
  PIP_CERT: 'replaces',
  AWS_CA_BUNDLE: 'replaces',
  CARGO_HTTP_CAINFO: 'replaces',
} as const;

for (const [name, kind] of Object.entries(variables)) {
  test(`${name} names a file that a program can trust`, { skip: needsRoot }, async () => {
    const get = (url: string): string => `curl -sS --fail --cacert "$${name}" ${url}`;
    assert.ok((await world().output('box', get(read))).includes(canary));
    const { stdout } = await world().exec('box', get(tunnelled));
    assert.equal(stdout.includes(canary), kind === 'replaces', stdout);
  });
}

const programs: readonly (readonly [variable: keyof typeof variables, command: string])[] = [
  ['SSL_CERT_FILE', `python3 /opt/tools/client_urllib.py ${read}`],
  ['NODE_EXTRA_CA_CERTS', `node --use-bundled-ca --no-warnings /opt/tools/fetch.mjs ${read}`],
  ['REQUESTS_CA_BUNDLE', `env -u CURL_CA_BUNDLE python3 /opt/tools/client_requests.py ${read}`],
  ['CURL_CA_BUNDLE', `env -u SSL_CERT_FILE curl -sS --fail ${read}`],
  [
    'GIT_SSL_CAINFO',
    'env -u SSL_CERT_FILE -u CURL_CA_BUNDLE git ls-remote https://secret.allowed.test/git/project.git',
  ],
  [
    'PIP_CERT',
    'env -u REQUESTS_CA_BUNDLE -u CURL_CA_BUNDLE pip download --quiet --no-deps --retries 0 -d /tmp/pip --index-url https://secret.allowed.test/simple/ greeting',
  ],
];

for (const [variable, command] of programs) {
  test(`${variable} is what its program reads`, { skip: needsRoot }, async () => {
    await world().output('box', command, 40);
    const { exit_code: code } = await world().exec('box', `${variable}=/tmp/missing ${command}`, 40);
    assert.notEqual(code, 0);
  });
}

test('Java trusts the authority in the store that it finds by itself', { skip: needsRoot }, async () => {
  const compiled = 'cd /tmp && ecj -17 -proc:none -d /tmp /opt/tools/Client.java';
  const said = await world().output('box', `${compiled} && java -cp /tmp Client ${read}`, 60);
  assert.ok(said.includes(canary), said);
  const other = '-Djavax.net.ssl.trustStore=/etc/hostname';
  const { exit_code: code } = await world().exec('box', `java ${other} -cp /tmp Client ${read}`, 60);
  assert.notEqual(code, 0);
});

const isTrust = (path: string): boolean => /squash\.crt|ca-certificates\.crt|cacerts/.test(path);

test('the authority is in no writable layer, whatever has used it', {
  skip: isOnVms ? 'a microVM has a disk that nobody looks into' : needsRoot,
}, async () => {
  await world().output('box', 'echo kept > /root/kept');
  const upper = join(world().daemon.dataDir, 'sandboxes/box/uppers/1/data');
  const written = (await readdir(upper, { recursive: true })).map(String);
  assert.ok(written.includes('root/kept'), written.join());
  assert.deepEqual(written.filter(isTrust), []);
});

test('the authority is in no snapshot, whatever has used it', { skip: needsRoot }, async () => {
  await world().output('box', 'echo kept > /root/kept');
  await world().daemon.call('POST', '/cgi-bin/api/sandboxes/box/snapshot', { label: 'one' });
  const image = join(world().daemon.dataDir, 'sandboxes/box/snapshots/one.squashfs');
  const { stdout } = await promisify(execFile)('unsquashfs', ['-l', image]);
  assert.match(stdout, /root\/kept/);
  assert.deepEqual(stdout.split('\n').filter(isTrust), []);
});

test('a bundle that the sandbox writes anew has the authority again', { skip: needsRoot }, async () => {
  await world().create('anew', { allow_net: ['*.allowed.test'] });
  await world().output('anew', 'update-ca-certificates', 60);
  assert.ok((await world().output('anew', `curl -sS --fail ${read}`)).includes(canary));
});
