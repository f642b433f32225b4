/**
 * `SQUASH_PROXY_HTTPS=0`, the original's HTTP mode: no TLS is read and no authority installed. Secrets go into clear text
 * only, policy by name holds as ever, and a rule that could not be held is refused.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canary } from './world/events.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot } from './world/world.ts';

const secret = { placeholder: 'squash-key-placeholder', value: 'real-key-value-0123' };
const world = useWorld(
  {
    env: { SQUASH_PROXY_HTTPS: '0' },
    secrets: { KEY: { ...secret, allowed_hosts: ['secret.allowed.test'] } },
  },
  (one) =>
    one.create('box', {
      policy: { allow: ['*.allowed.test', { to: 'rules.test', methods: ['GET'], paths: ['/public'] }] },
    }),
);
const get = (url: string): string => `curl -sS --max-time 10 '${url}'`;
const send = (url: string): string => `${get(url)} -H "Authorization: Bearer $KEY"`;

test('a value is put into clear text, and comes back as the placeholder', { skip: needsRoot }, async () => {
  const mark = await world().mark();
  const said = await world().output('box', send('http://secret.allowed.test/reflect'));
  assert.ok(said.includes(secret.placeholder) && !said.includes(secret.value), said);
  const [request] = await world().requestsSince(mark);
  assert.equal(request?.headers['authorization'], `Bearer ${secret.value}`);
  // The operator is told so.
  assert.match(world().daemon.output, /"egress\.plain_secrets".*values of secrets go out in plain HTTP/);
});

test('TLS to the host of a secret is a tunnel, in which the placeholder stays', {
  skip: needsRoot,
}, async () => {
  const mark = await world().mark();
  assert.ok((await world().output('box', send('https://secret.allowed.test/hello'))).includes(canary));
  const [request] = await world().requestsSince(mark);
  assert.equal(request?.headers['authorization'], `Bearer ${secret.placeholder}`);
  const verbose = await world().exec('box', 'curl -vsS https://secret.allowed.test/hello 2>&1 | grep issuer');
  assert.match(verbose.stdout, /CN=authority of the tests/);
});

test('a rule about paths holds in clear text, and TLS to its host is refused', {
  skip: needsRoot,
}, async () => {
  assert.ok((await world().output('box', get('http://rules.test/public/x'))).includes(canary));
  const mark = await world().mark();
  assert.match((await world().exec('box', get('http://rules.test/other'))).stdout, /not_allowed/);
  const { exit_code: code } = await world().exec('box', get('https://rules.test/public/x'));
  assert.notEqual(code, 0);
  const { exit_code: elsewhere } = await world().exec('box', get('https://evil.test/x'));
  assert.notEqual(elsewhere, 0);
  assert.deepEqual(await world().since(mark), []);
});

test('no authority is installed and no variable names one', { skip: needsRoot }, async () => {
  const look = 'env | grep -E "CERT|CAINFO|CA_BUNDLE"; ls /usr/local/share/ca-certificates';
  assert.equal((await world().exec('box', look)).stdout, '');
});
