/** What a recorded session teaches, and how a policy explains itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { policyTestBodySchema } from '@squash/contract/egress';
import { policySchema } from '@squash/contract/policy';
import { compilePolicy } from './compile.ts';
import { explain, withAddresses } from './explain.ts';
import { type LearnedFrom, learn } from './learn.ts';

const row = (change: Partial<LearnedFrom>): LearnedFrom => ({
  kind: 'connection',
  host: null,
  address: null,
  port: 443,
  verdict: 'allowed',
  rule: 'allow[0] *',
  count: 1,
  ...change,
});

test('learn() proposes one host and port for each place, and the proposal allows them all', () => {
  const answer = learn([
    row({ kind: 'dns', host: 'pypi.org', port: null }),
    row({ host: 'pypi.org' }),
    row({ host: 'pypi.org', verdict: 'denied', rule: 'not_allowed', count: 3 }),
    row({ kind: 'request', host: 'files.pythonhosted.org' }),
    row({ address: '8.8.8.8', port: 53 }),
    row({ address: '2001:4860::8888', port: 53 }),
  ]);
  assert.deepEqual(
    answer.seen.find(({ destination }) => destination === 'pypi.org:443'),
    {
      destination: 'pypi.org:443',
      count: 4,
      refused: 3,
    },
  );
  const policy = compilePolicy({
    policy: policySchema.parse(answer.policy),
    ceiling: undefined,
    allowRanges: [],
  });
  assert.equal(answer.policy.allow.length, 4);
  for (const host of ['pypi.org', 'files.pythonhosted.org']) {
    assert.equal(policy.decideConnection({ host, address: undefined, port: 443 }).isAllowed, true);
    assert.equal(policy.decideConnection({ host, address: undefined, port: 80 }).isAllowed, false);
  }
  assert.equal(
    policy.decideConnection({ host: undefined, address: '2001:4860::8888', port: 53 }).isAllowed,
    true,
  );
});

test('learn() proposes an address that is not public beside the name that led to it', () => {
  const answer = learn([
    row({ host: 'db.corp.example', address: '10.1.2.3', port: 5432 }),
    row({ host: 'six.corp.example', address: 'fd00::7', port: 5432, kind: 'request' }),
    row({ host: 'pypi.org', address: '151.101.0.223' }),
    row({ host: 'refused.example', address: '10.9.9.9', verdict: 'denied', rule: 'private_address' }),
  ]);
  assert.deepEqual(answer.policy.allow.map(String).sort(), [
    '10.1.2.3:5432',
    '[fd00::7]:5432',
    'db.corp.example:5432',
    'pypi.org:443',
    'six.corp.example:5432',
  ]);
  const policy = compilePolicy({
    policy: policySchema.parse(answer.policy),
    ceiling: undefined,
    allowRanges: [],
  });
  const destination = { host: 'db.corp.example', address: undefined, port: 5432 };
  assert.equal(policy.decideAddress(destination, '10.1.2.3').isAllowed, true);
  assert.equal(policy.decideAddress(destination, '10.1.2.4').isAllowed, false);
});

test('learn() takes a name without a connection only where it was refused', () => {
  const answer = learn([
    row({ kind: 'dns', host: 'asked.example', port: null }),
    row({ kind: 'dns', host: 'hidden.example', port: null, verdict: 'denied', rule: 'not_allowed' }),
  ]);
  assert.deepEqual(answer.policy.allow, ['hidden.example']);
});

test('learn() leaves out what no policy should be made of, and says why', () => {
  const answer = learn([
    row({ host: 'intern.example', verdict: 'denied', rule: 'private_address' }),
    row({ host: 'elsewhere.example', verdict: 'blocked', rule: 'placeholder_elsewhere' }),
    row({ host: 'evil.example', verdict: 'denied', rule: 'deny[0] evil.example' }),
    row({ host: 'above.example', verdict: 'denied', rule: 'ceiling not_allowed' }),
    row({
      kind: 'dns',
      host: '_http._tcp.deb.debian.org',
      port: null,
      verdict: 'denied',
      rule: 'not_allowed',
    }),
    row({ kind: 'dns', host: '1.0.0.127.in-addr.arpa', port: null, verdict: 'denied', rule: 'not_allowed' }),
  ]);
  assert.deepEqual(answer.policy.allow, ['none']);
  assert.equal(answer.left_out.length, 6);
  assert.match(answer.left_out[0]?.why ?? '', /private_address/);
});

test('explain() answers each step up to the refusal', () => {
  const policy = compilePolicy({
    policy: policySchema.parse({
      allow: ['pypi.org:443', { to: 'api.github.com', methods: ['GET'], paths: ['/repos'] }],
    }),
    ceiling: undefined,
    allowRanges: [],
  });
  const ask = (to: string, method = 'GET') => {
    const body = policyTestBodySchema.parse({ to, method });
    return explain(policy, body.to, body.method);
  };
  assert.deepEqual(ask('pypi.org:443'), {
    allowed: true,
    host: 'pypi.org',
    address: null,
    port: 443,
    steps: [
      { step: 'name', allowed: true, rule: 'allow[0] pypi.org:443' },
      { step: 'connection', allowed: true, rule: 'allow[0] pypi.org:443' },
    ],
    not_resolved: 'nobody was asked',
    reads_requests: false,
  });
  assert.deepEqual(ask('http://pypi.org/simple').steps.at(-1), {
    step: 'connection',
    allowed: false,
    rule: 'not_allowed',
  });
  assert.equal(ask('https://api.github.com/repos/a%2Fb').allowed, true);
  assert.deepEqual(ask('https://api.github.com/repos/a', 'post').steps.at(-1), {
    step: 'request',
    allowed: false,
    rule: 'not_allowed',
  });
  assert.deepEqual(ask('[2001:4860::1]:53').steps, [
    { step: 'connection', allowed: false, rule: 'not_allowed' },
  ]);
  const judged = [{ address: '10.0.0.1', allowed: false, rule: 'private_address' }];
  const refused = withAddresses(ask('pypi.org:443'), { addresses: judged, code: null });
  assert.deepEqual([refused.allowed, refused.not_resolved], [false, null]);
  assert.match(
    refused.steps.at(-1)?.remedy ?? '',
    /has to name 10\.0\.0\.1, or a range around it inside 10\.0\.0\.0\/8/,
  );
  const local = ask('localhost:80');
  assert.deepEqual([local.allowed, local.steps[0]?.rule], [false, 'loopback_address']);
  assert.match(local.steps[0]?.remedy ?? '', /the sandbox’s own and needs no rule/);
  const metadata = withAddresses(ask('pypi.org:443'), {
    addresses: [{ address: '169.254.169.254', allowed: false, rule: 'metadata_address' }],
    code: null,
  });
  assert.match(metadata.steps.at(-1)?.remedy ?? '', /has to name 169\.254\.169\.254\.$/);
  const missing = withAddresses(ask('pypi.org:443'), { addresses: [], code: 'ENOTFOUND' });
  assert.deepEqual([missing.allowed, missing.not_resolved], [true, 'the name has no address (ENOTFOUND)']);
  for (const to of ['', '*.example.com', '10.0.0.0/8', 'ftp://example.com', 'preset:debian', 'https://']) {
    assert.equal(policyTestBodySchema.safeParse({ to }).success, false, to);
  }
});
