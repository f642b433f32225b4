/**
 * When a person is asked: against a model that tries every pair of rules, and the sentences of docs/approvals.md one by one.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { approvedSchema, ceilingSchema, policySchema } from '@squash/contract/policy';
import fc from 'fast-check';
import { compilePolicy } from './compile.ts';
import { explain } from './explain.ts';
import { type Destination, type Policy, questionKey } from './policy.ts';

type Words = Readonly<Partial<Record<'allow' | 'deny' | 'ask', readonly unknown[]>>> & {
  readonly ask_timeout_ms?: number;
};

function compiled(policy: Words, approved: readonly unknown[] = [], ceiling?: Words): Policy {
  return compilePolicy({
    policy: policySchema.parse(policy),
    ceiling: ceiling === undefined ? undefined : ceilingSchema.parse(ceiling),
    allowRanges: [],
    approved: approvedSchema.parse(approved),
  });
}

const named = (host: string, port = 443): Destination => ({ host, address: undefined, port });
const literal = (address: string, port = 443): Destination => ({ host: undefined, address, port });
const get = (path: string, method = 'GET') => ({ method, path });

/** `yes`, `no` or `ask`, with the rule. */
function word(verdict: ReturnType<Policy['decideConnection']>): string {
  const answer = verdict.isAllowed ? 'yes' : verdict.question === undefined ? 'no' : 'ask';
  return `${answer} ${verdict.rule}`;
}

const host = 'api.example.com';

test('a host that is asked for is asked for, whatever wider rule allows it', () => {
  const policy = compiled({ ask: [host] });
  assert.equal(word(policy.decideConnection(named(host))), `ask ask[0] ${host}`);
  assert.equal(word(policy.decideConnection(named('other.example.com'))), 'yes allow[0] *');
  assert.equal(policy.isOpen, false);
});

test('an allowed host is spared where everything is asked for', () => {
  const policy = compiled({ allow: [host], ask: ['*'], deny: ['evil.example.com'] });
  assert.equal(word(policy.decideConnection(named(host))), `yes allow[0] ${host}`);
  assert.equal(word(policy.decideConnection(named('other.example.com'))), 'ask ask[0] *');
  assert.equal(word(policy.decideConnection(named('evil.example.com'))), 'no deny[0] evil.example.com');
  // What is allowed where a policy says nothing spares nobody the question.
  const everything = compiled({ ask: ['*'] });
  assert.equal(word(everything.decideConnection(named(host))), 'ask ask[0] *');
  const reading = compiled({ allow: [{ to: '*', methods: ['GET'] }], ask: ['*'] });
  assert.equal(word(reading.decideRequest(named(host), get('/'))), 'yes allow[0] *');
  assert.equal(word(reading.decideRequest(named(host), get('/', 'POST'))), 'ask ask[0] *');
});

test('no name that is asked for is looked up before', () => {
  const policy = compiled({ allow: [], ask: ['*'] });
  assert.deepEqual(policy.decideName('data.evil.example'), {
    isAllowed: false,
    isAsked: true,
    rule: 'ask[0] *',
  });
  const ofOnePort = compiled({ ask: [`${host}:22`] });
  assert.equal(ofOnePort.decideName(host).isAllowed, true);
});

test('no address that is not public is asked for unless a rule of ask names it', () => {
  const everything = compiled({ allow: [], ask: ['*'] });
  assert.equal(word(everything.decideConnection(literal('10.1.2.3'))), 'no allow[0] none');
  assert.equal(word(everything.decideConnection(literal('1.2.3.4'))), 'ask ask[0] *');
  const one = compiled({ allow: [], ask: ['10.1.2.3:5432'] });
  assert.equal(word(one.decideConnection(literal('10.1.2.3', 5432))), 'ask ask[0] 10.1.2.3:5432');
  assert.equal(one.decideAddress(literal('10.1.2.3', 5432), '10.1.2.3').isAllowed, true);
  // The name was asked for, this place was not.
  const both = compiled({ allow: [], ask: [host, '10.0.0.0/8', '1.2.3.0/24'] });
  assert.equal(both.decideAddress(named(host), '10.1.2.3').isAllowed, false);
  assert.equal(both.decideAddress(named(host), '1.2.3.4').isAllowed, false);
  assert.equal(both.decideAddress(named(host), '5.6.7.8').isAllowed, true);
});

test('a question is about the method and the path that its rule names', () => {
  const policy = compiled({ ask: [{ to: host, methods: ['POST', 'GET'], paths: ['/v1', '/v1/repos'] }] });
  const { question } = policy.decideRequest(named(host), get('/V1/repos/mine', 'HEAD'));
  assert.deepEqual(question, {
    ...named(host),
    method: 'GET',
    path: '/v1/repos',
    upgrades: undefined,
    waitMs: 60_000,
  });
  assert.equal(policy.needsRequests(named(host)), true);
  assert.equal(word(policy.decideConnection(named(host))), 'yes allow[0] *');
  assert.equal(word(policy.decideRequest(named(host), get('/other'))), 'yes allow[0] *');
  const without = compiled({ allow: [], ask: [{ to: host, methods: ['POST'] }], ask_timeout_ms: 5_000 });
  assert.equal(word(without.decideConnection(named(host))), `yes ask[0] ${host}`);
  assert.equal(without.decideRequest(named(host), get('/', 'POST')).question?.waitMs, 5_000);
  assert.equal(word(without.decideRequest(named(host), get('/'))), 'no allow[0] none');
});

test('what may change to another protocol is what the rule of ask names', () => {
  const policy = compiled({ ask: [{ to: host, methods: ['GET'], upgrades: ['websocket'] }] });
  const asked = (upgrade: string) => word(policy.decideRequest(named(host), { ...get('/'), upgrade }));
  assert.equal(asked('websocket'), `ask ask[0] ${host}`);
  assert.equal(asked('other'), 'no upgrade_not_allowed');
});

test('what is approved for all answers questions and allows nothing that nobody asks for', () => {
  const asking = compiled({ allow: [], ask: ['*.example.com'] }, [`${host}:443`, 'other.org:443']);
  assert.equal(word(asking.decideConnection(named(host))), `yes always[0] ${host}:443`);
  assert.equal(word(asking.decideConnection(named(host, 22))), 'ask ask[0] *.example.com');
  assert.equal(word(asking.decideConnection(named('other.org'))), 'no allow[0] none');
  const denying = compiled({ deny: [host], ask: ['*'] }, [`${host}:443`]);
  assert.equal(word(denying.decideConnection(named(host))), `no deny[0] ${host}`);
});

test('a ceiling refuses before anybody is asked, and asks nobody itself', () => {
  const policy = compiled({ ask: [host] }, [], { allow: ['*.org'] });
  assert.equal(word(policy.decideConnection(named(host))), 'no ceiling not_allowed');
  assert.equal(ceilingSchema.safeParse({ ask: ['*'] }).success, false);
});

test('explain() says where a person is asked', () => {
  const question = { host, address: undefined, port: 443, path: undefined };
  const answer = explain(compiled({ ask: [host] }), question, 'GET');
  assert.equal(answer.allowed, false);
  assert.equal(answer.asked, true);
  assert.deepEqual(answer.steps, [
    { step: 'name', allowed: false, rule: `ask[0] ${host}`, asked: true },
    { step: 'connection', allowed: false, rule: `ask[0] ${host}`, asked: true },
  ]);
  const denied = explain(compiled({ ask: [host], deny: [`${host}:443`] }), question, 'GET');
  assert.equal(denied.asked, undefined);
});

test('a policy says what is wrong with its rules of ask', () => {
  const problem = (policy: unknown) => policySchema.safeParse(policy).error?.issues[0]?.message;
  assert.match(problem({ ask: ['none'] }) ?? '', /stands alone, in "allow"/);
  assert.match(problem({ ask: ['localhost'] }) ?? '', /own loopback/);
  assert.match(problem({ ask: [{ to: '10.0.0.0/8', methods: ['GET'] }] }) ?? '', /can not be asked for/);
  assert.notEqual(problem({ ask_timeout_ms: 10 }), undefined);
  assert.deepEqual(policySchema.parse({ ask: [] }), { allow: ['*'], deny: [], dns: 'refuse' });
});

// The model: widths as numbers, every rule of one list against every rule of the other.

const hosts = ['api.example.com', 'example.com', 'x.org'] as const;
const places = ['*', '*.example.com', ...hosts] as const;
const rule = fc.record(
  {
    to: fc.constantFrom(...places),
    ports: fc.constantFrom<[string]>(['443'], ['400-500']),
    methods: fc.constantFrom<string[]>(['GET'], ['POST'], ['GET', 'POST']),
    paths: fc.constantFrom<string[]>(['/a'], ['/a/b'], ['/c']),
  },
  { requiredKeys: ['to'] },
);
type ModelRule = { to: string; ports?: string[]; methods?: string[]; paths?: string[] };
interface ModelRequest {
  readonly host: string;
  readonly port: number;
  readonly method: string;
  readonly path: string;
}

/** From narrow to wide in each respect, or undefined where the rule is about something else. */
function widths(one: ModelRule, asked: ModelRequest): readonly number[] | undefined {
  const place =
    one.to === '*'
      ? 3
      : one.to === asked.host
        ? 1
        : one.to === '*.example.com' && asked.host === hosts[0]
          ? 2
          : 0;
  const port = one.ports === undefined ? 3 : asked.port === 443 ? (one.ports[0] === '443' ? 1 : 2) : 0;
  const isIn = asked.port >= 400 && asked.port <= 500 && one.ports?.[0] === '400-500';
  const path =
    one.paths === undefined
      ? 9
      : Math.min(
          ...one.paths.map((prefix) => (`${asked.path}/`.startsWith(`${prefix}/`) ? 9 - prefix.length : 99)),
        );
  const method = one.methods === undefined ? 2 : one.methods.includes(asked.method) ? 1 : 0;
  const here = port === 0 && isIn ? 2 : port;
  return place === 0 || here === 0 || path === 99 || method === 0 ? undefined : [place, here, path, method];
}

function modelAsks(
  policy: { allow: readonly ModelRule[]; ask: readonly ModelRule[] },
  asked: ModelRequest,
): boolean {
  const allowing = policy.allow.map((one) => widths(one, asked)).filter((one) => one !== undefined);
  return policy.ask
    .map((one) => widths(one, asked))
    .filter((one) => one !== undefined)
    .some((one) => {
      const isSparing = (other: readonly number[]): boolean =>
        other.every((width, at) => width <= (one[at] ?? 0)) &&
        (other[0] !== 3 || other.some((width, at) => width < (one[at] ?? 0)));
      return !allowing.some(isSparing);
    });
}

const asked = fc.record({
  host: fc.constantFrom(...hosts),
  port: fc.constantFrom(443, 450, 80),
  method: fc.constantFrom('GET', 'POST'),
  path: fc.constantFrom('/a', '/a/b', '/a/b/c', '/c', '/d'),
});
const policies = fc.record({
  allow: fc.array(rule, { minLength: 1, maxLength: 4 }),
  ask: fc.array(rule, { maxLength: 4 }),
});

test('a request is asked for exactly where no rule of allow is as narrow as the one of ask', () => {
  fc.assert(
    fc.property(policies, asked, (policy, request) => {
      const verdict = compiled(policy).decideRequest(named(request.host, request.port), request);
      assert.equal(verdict.question !== undefined, modelAsks(policy, request), verdict.rule);
    }),
    { numRuns: 2_000 },
  );
});

test('a rule made of the question is never asked for again, for the sandbox and for all', () => {
  fc.assert(
    fc.property(policies, asked, (policy, request) => {
      const place = named(request.host, request.port);
      const { question } = compiled(policy).decideRequest(place, request);
      if (question === undefined) return;
      const grant = {
        to: `${request.host}:${request.port}`,
        ...(question.method !== undefined && { methods: [question.method] }),
        ...(question.path !== undefined && { paths: [question.path] }),
      };
      const next = [compiled({ ...policy, allow: [...policy.allow, grant] }), compiled(policy, [grant])].map(
        (each) => each.decideRequest(place, request).question,
      );
      for (const other of next) {
        assert.ok(other === undefined || questionKey(other) !== questionKey(question));
      }
    }),
    { numRuns: 2_000 },
  );
});

test('where no request needs to be read its connection is asked for, or none of its requests is', () => {
  fc.assert(
    fc.property(policies, asked, (policy, request) => {
      const all = compiled(policy);
      const place = named(request.host, request.port);
      if (all.needsRequests(place)) return;
      const connection = all.decideConnection(place).question;
      const { question } = all.decideRequest(place, request);
      assert.equal(question === undefined, connection === undefined);
    }),
    { numRuns: 2_000 },
  );
});
