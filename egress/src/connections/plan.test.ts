/** The table of decisions about one connection, with real policies: what is tunnelled, read, refused, waited for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { policySchema } from '@squash/contract/policy';
import { compilePolicy } from '@squash/policy/compile';
import type { Destination } from '@squash/policy/policy';
import type { SandboxSecrets } from '../ports.ts';
import { TrafficSecrets } from '../secrets/traffic-secrets.ts';
import type { FirstBytes } from './first-bytes.ts';
import { type Plan, planFirst, planOpen, planRefusal, refusedMsMax, type Rules } from './plan.ts';

function rules(allow: readonly unknown[], changes: { secret?: string; interceptsTls?: boolean } = {}): Rules {
  const policy = compilePolicy({
    policy: policySchema.parse({ allow }),
    ceiling: undefined,
    allowRanges: [],
  });
  // Only which hosts it concerns matters to a plan.
  const secrets: SandboxSecrets = {
    isEmpty: changes.secret === undefined,
    concerns: ({ host }) => host !== undefined && host === changes.secret,
    traffic: new TrafficSecrets([]),
  };
  return { policy, secrets, interceptsTls: changes.interceptsTls ?? true };
}

const host = 'api.example.com';
const at = (port = 443): Destination => ({ host, address: undefined, port });
const literal: Destination = { host: undefined, address: '1.2.3.4', port: 443 };
const tls = (serverName: string | undefined = host, hasEch = false): FirstBytes => ({
  kind: 'tls',
  serverName,
  hasEch,
});
const noName: FirstBytes = { kind: 'tls', serverName: undefined, hasEch: false };
const http: FirstBytes = { kind: 'http' };
const other: FirstBytes = { kind: 'other' };
const silent: FirstBytes = { kind: 'silent' };

/** The plan in a word, with what matters of it. */
function word(plan: Plan): string {
  switch (plan.kind) {
    case 'ask':
      return `ask ${plan.verdict.rule}`;
    case 'look':
      return `look ${plan.waits}`;
    case 'tunnel':
      return 'tunnel';
    case 'intercept':
      return `intercept ${plan.protocol}`;
    case 'refuse':
      return `refuse ${plan.protocol ?? 'reset'} ${plan.verdict.rule}`;
  }
}

const open = ['*'];
const named = [host];
const withPaths = [{ to: host, paths: ['/v1'] }];

test('what has to be asked for waits before anything of it is looked at', () => {
  const policy = compilePolicy({
    policy: policySchema.parse({ ask: [host] }),
    ceiling: undefined,
    allowRanges: [],
  });
  const asking: Rules = { ...rules(open), policy };
  assert.equal(word(planOpen(at(), asking)), `ask ask[0] ${host}`);
  // Rules that ask only now: who has begun already is told so.
  assert.equal(word(planFirst(at(), asking, tls())), `refuse tls ask[0] ${host}`);
});

test('before the first bytes', () => {
  const cases: readonly (readonly [string, Rules, Destination])[] = [
    // Everything is allowed and there is nothing to guard: no byte is looked at.
    ['tunnel', rules(open), at()],
    ['tunnel', rules(open), literal],
    ['tunnel', rules(['1.2.3.4']), literal],
    ['look for_either', rules(open, { secret: 'x.example' }), at()],
    ['look for_server', rules(open, { secret: 'x.example' }), at(25)],
    ['look for_either', rules(named), at()],
    ['look for_server', rules(named), at(22)],
    ['look for_program', rules(withPaths), at(22)],
    ['look to_refuse', rules(['other.example']), at()],
    ['look to_refuse', rules(['none']), literal],
  ];
  for (const [expected, given, destination] of cases) {
    assert.equal(word(planOpen(destination, given)), expected);
  }
});

test('with the first bytes', () => {
  const cases: readonly (readonly [string, Rules, FirstBytes, Destination?])[] = [
    // A name restricts: the hello must say exactly that name, and only that.
    ['tunnel', rules(named), tls()],
    ['refuse tls sni_mismatch', rules(named), tls('other.example.com')],
    ['refuse tls sni_missing', rules(named), noName],
    ['refuse tls encrypted_client_hello', rules(named), tls(host, true)],
    ['refuse reset sni_mismatch', rules(named, { interceptsTls: false }), tls('other.example.com')],
    // Nothing restricts: TLS is the program's own matter.
    ['tunnel', rules(open), tls('other.example.com', true)],
    ['tunnel', rules(open, { secret: 'x.example' }), noName],
    ['tunnel', rules(['1.2.3.4']), noName, literal],
    // A secret's host is read, and only that; where we end the TLS, an encrypted hello hides nothing.
    ['intercept tls', rules(open, { secret: host }), tls()],
    ['intercept tls', rules(open, { secret: host }), tls(host, true)],
    ['refuse tls sni_mismatch', rules(open, { secret: host }), tls('other.example.com')],
    ['refuse tls sni_missing', rules(open, { secret: host }), noName],
    ['tunnel', rules(open, { secret: host, interceptsTls: false }), tls()],
    // Plain HTTP is read where its Host line could choose another owner, or a secret could be put in.
    ['intercept http', rules(named), http, at(80)],
    ['intercept http', rules(open, { secret: 'x.example' }), http, at(80)],
    ['tunnel', rules(open), http, at(80)],
    // A method or path was demanded.
    ['intercept tls', rules(withPaths), tls()],
    ['intercept http', rules(withPaths), http, at(80)],
    ['refuse reset not_http', rules(withPaths), other],
    ['refuse reset not_http', rules(withPaths), silent],
    ['refuse reset tls_not_intercepted', rules(withPaths, { interceptsTls: false }), tls()],
    // What can't be read is tunnelled to whom it may go.
    ['tunnel', rules(named), other, at(22)],
    ['tunnel', rules(named, { secret: host }), other, at(22)],
    ['refuse reset first_bytes_unfinished', rules(named), { kind: 'unfinished' }, at(22)],
  ];
  for (const [expected, given, first, destination = at()] of cases) {
    assert.equal(word(planFirst(destination, given, first)), expected, JSON.stringify(first));
  }
});

test('a refused program that says nothing is waited for longer where it speaks first', () => {
  assert.ok(refusedMsMax(at(443)) === refusedMsMax(at(80)) && refusedMsMax(at(80)) > refusedMsMax(at(22)));
});

test('a refusal is readable in what the program speaks', () => {
  const given = rules(['other.example']);
  assert.match(word(planFirst(at(), given, tls())), /^refuse tls /);
  assert.match(word(planFirst(at(), given, noName)), /^refuse tls /);
  assert.match(word(planFirst(at(80), given, http)), /^refuse http /);
  assert.match(word(planFirst(at(22), given, other)), /^refuse reset /);
  assert.match(word(planFirst(at(), given, silent)), /^refuse reset /);
  const verdict = { isAllowed: false, rule: 'private_address' };
  assert.equal(word(planRefusal(verdict, rules(open), http)), 'refuse http private_address');
  assert.equal(word(planRefusal(verdict, rules(open), other)), 'refuse reset private_address');
});
