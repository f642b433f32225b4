/**
 * The evaluator against a naive model that shares no code with it: strings split by hand, ranges by Node's BlockList,
 * every rule tried in order. And the sentences of docs/network.md, one by one.
 */
import assert from 'node:assert/strict';
import { BlockList, isIPv4, isIPv6 } from 'node:net';
import { test } from 'node:test';
import { callerServiceName, hostServiceName } from '@squash/contract/destination';
import { type PolicySource, policyOfAllowNet, policySchema } from '@squash/contract/policy';
import fc from 'fast-check';
import { formatAddress, parseAddress } from './address/address.ts';
import { type Cidr, parseCidr } from './address/cidr.ts';
import type { Destination, DiallingHost, Policy } from './policy.ts';
import { compilePolicy } from './compile.ts';

const ranges = (...texts: readonly string[]): readonly Cidr[] =>
  texts.map((text) => {
    const range = parseCidr(text);
    assert.ok(range !== undefined, text);
    return range;
  });

/** What the generators draw is checked by the schema, not by its type. */
function compiled(input: unknown, more: { ceiling?: unknown; allow?: readonly string[] } = {}): Policy {
  return compilePolicy({
    policy: policySchema.parse(input),
    ceiling: more.ceiling === undefined ? undefined : policySchema.parse(more.ceiling),
    allowRanges: ranges(...(more.allow ?? [])),
  });
}

const named = (host: string, port = 443): Destination => ({ host, address: undefined, port });
const literal = (address: string, port = 443): Destination => ({ host: undefined, address, port });

// The model.

type ModelRule = Exclude<PolicySource['allow'][number], string>;

interface Question {
  readonly destination: Destination;
  readonly request: { readonly method: string; readonly path: string };
  readonly resolved: string;
}

function modelRules(rules: PolicySource['allow']): readonly ModelRule[] {
  return rules
    .filter((rule) => rule !== 'none')
    .map((rule) => (typeof rule === 'string' ? { to: [rule] } : rule));
}

/** Splits `place[:ports]`; the words of the generator have no presets. */
function modelSplit(word: string): { place: string; ports: string | undefined } {
  const bracket = /^\[(.*)\]:(.*)$/.exec(word);
  if (bracket) return { place: bracket[1] ?? '', ports: bracket[2] };
  const parts = word.split(':');
  if (parts.length === 2) return { place: parts[0] ?? '', ports: parts[1] };
  return { place: word, ports: undefined };
}

function inRange(address: string, place: string): boolean {
  const [base = '', length] = place.split('/');
  const family = isIPv4(base) ? 'ipv4' : isIPv6(base) ? 'ipv6' : undefined;
  if (family === undefined || (family === 'ipv4') !== isIPv4(address)) return false;
  const list = new BlockList();
  list.addSubnet(base, length === undefined ? (family === 'ipv4' ? 32 : 128) : Number(length), family);
  return list.check(address, family);
}

function modelMatches(rule: ModelRule, destination: Destination, http?: Question['request']): boolean {
  const isThere = rule.to.some((word) => {
    const { place, ports } = modelSplit(word);
    const allPorts = ports === undefined ? rule.ports : [ports];
    const isPort =
      allPorts === undefined ||
      allPorts.some((range) => {
        const [first = '', last = first] = range.split('-');
        return Number(first) <= destination.port && destination.port <= Number(last);
      });
    if (!isPort) return false;
    if (place === '*') return true;
    if (destination.host === undefined) return inRange(destination.address ?? '', place);
    if (place.startsWith('*.')) return destination.host.endsWith(place.slice(1));
    return place === destination.host;
  });
  if (!isThere || http === undefined) return isThere;
  const isMethod = rule.methods?.includes(http.method) ?? true;
  const isPath =
    rule.paths?.some((path) =>
      path.endsWith('/') ? http.path.startsWith(path) : `${http.path}/`.startsWith(`${path}/`),
    ) ?? true;
  return isMethod && isPath;
}

const isConditional = (rule: ModelRule): boolean => rule.methods !== undefined || rule.paths !== undefined;
/** The generator's addresses are of these only. */
const isPublic = (address: string): boolean => !/^(10|127|192\.168|169\.254)\.|^fd|^::1$/.test(address);
const namesRange = (rule: ModelRule, { address, port }: Destination): boolean =>
  rule.to.some(
    (word) => /^[\d[]|::/.test(word) && modelMatches({ ...rule, to: [word] }, literal(address ?? '', port)),
  );
/** How long a range has to be to lie inside the range that makes the address what it is. */
const purposeMin = (address: string): number =>
  isPublic(address)
    ? 0
    : address === '169.254.169.254'
      ? 32
      : ({ '10': 8, fd: 7 }[address.slice(0, 2)] ?? 999);
const namesOnPurpose = (rule: ModelRule, { address = '', port }: Destination): boolean =>
  rule.to.some((word) => {
    const [, length = isIPv4(address) ? '32' : '128'] = /\/(\d+)/.exec(word) ?? [];
    return (
      Number(length) >= purposeMin(address) && namesRange({ ...rule, to: [word] }, literal(address, port))
    );
  });

function modelConnection(policy: PolicySource, { destination }: Question): boolean {
  if (modelRules(policy.deny).some((rule) => !isConditional(rule) && modelMatches(rule, destination)))
    return false;
  return modelAllows(policy, destination);
}

function modelAllows(policy: PolicySource, destination: Destination, http?: Question['request']): boolean {
  const matching = modelRules(policy.allow).filter((rule) => modelMatches(rule, destination, http));
  if (destination.address === undefined || isPublic(destination.address)) return matching.length > 0;
  return matching.some((rule) => namesOnPurpose(rule, destination));
}

function modelRequest(policy: PolicySource, { destination, request }: Question): boolean {
  if (modelRules(policy.deny).some((rule) => modelMatches(rule, destination, request))) return false;
  return modelAllows(policy, destination, request);
}

function modelAddress(policy: PolicySource, { destination, resolved }: Question): boolean {
  const there = literal(resolved, destination.port);
  const denies = modelRules(policy.deny).some((rule) => !isConditional(rule) && namesRange(rule, there));
  if (denies) return false;
  return isPublic(resolved) || modelRules(policy.allow).some((rule) => namesOnPurpose(rule, there));
}

// What is drawn: few words, so that they meet.

const hosts = ['a.example', 'b.example', 'x.a.example', 'y.x.a.example', 'example', 'aa.example'];
const addresses = [
  '8.8.8.8',
  '8.8.4.4',
  '10.1.2.3',
  '10.200.0.1',
  '127.0.0.1',
  '169.254.169.254',
  '2606:4700::1',
  'fd00::1',
  '::1',
];
const places = [
  ...hosts,
  '*.a.example',
  '*.example',
  '*',
  '8.8.8.8',
  '8.8.0.0/16',
  '8.0.0.0/6',
  '10.0.0.0/8',
  '10.1.2.3',
  '126.0.0.0/7',
  '169.254.0.0/16',
  '169.254.169.254',
  '0.0.0.0/0',
];
const v6Places = ['2606:4700::/32', 'fd00::1', 'fc00::/7', 'f000::/4', '::/0'];
const paths = ['/', '/v1', '/v1/', '/v1/models'];

const word = fc.oneof(
  fc
    .tuple(fc.constantFrom(...places), fc.constantFrom('', ':443', ':80', ':400-500'))
    .map(([place, port]) => `${place}${port}`),
  fc.constantFrom(...v6Places, ...v6Places.map((place) => `[${place}]:443`)),
);
const bareWord = fc.constantFrom(...places, ...v6Places);
const bareName = fc.constantFrom(...hosts, '*.a.example', '*');
const conditions = {
  methods: fc.subarray(['GET', 'POST'], { minLength: 1 }),
  paths: fc.subarray(paths, { minLength: 1 }),
};
const ruleOf = (to: fc.Arbitrary<string>) =>
  fc.oneof(
    word,
    fc.record({ to: fc.array(word, { minLength: 1, maxLength: 3 }) }),
    fc.record({
      to: fc.array(bareWord, { minLength: 1, maxLength: 2 }),
      ports: fc.constant([80, '400-500']),
    }),
    fc.record({ to: fc.array(to, { minLength: 1, maxLength: 2 }), ...conditions }, { requiredKeys: ['to'] }),
  );
const policyInput = fc.record({
  allow: fc.oneof(fc.constant(['none']), fc.array(ruleOf(bareWord), { minLength: 1, maxLength: 6 })),
  deny: fc.array(ruleOf(bareName), { maxLength: 4 }),
});
const question: fc.Arbitrary<Question> = fc.record({
  destination: fc.oneof(
    fc.record({
      host: fc.constantFrom(...hosts),
      address: fc.constant(undefined),
      port: fc.constantFrom(443, 80, 22),
    }),
    fc.record({
      host: fc.constant(undefined),
      address: fc.constantFrom(...addresses),
      port: fc.constantFrom(443, 80),
    }),
  ),
  request: fc.record({
    method: fc.constantFrom('GET', 'POST', 'PUT'),
    path: fc.constantFrom('/', '/v1', '/v1/models', '/v1beta', '/other'),
  }),
  resolved: fc.constantFrom(...addresses),
});

test('compiled policies decide as the naive model does', () => {
  fc.assert(
    fc.property(policyInput, question, (input, asked) => {
      const source = policySchema.parse(input);
      const policy = compilePolicy({ policy: source, ceiling: undefined, allowRanges: [] });
      const { destination, request, resolved } = asked;
      assert.equal(policy.decideConnection(destination).isAllowed, modelConnection(source, asked));
      assert.equal(policy.decideRequest(destination, request).isAllowed, modelRequest(source, asked));
      assert.equal(policy.decideAddress(destination, resolved).isAllowed, modelAddress(source, asked));
    }),
    { numRuns: 3_000 },
  );
});

test('a destination whose requests need no reading is decided by its connection alone', () => {
  fc.assert(
    fc.property(policyInput, question, (input, { destination, request }) => {
      const policy = compiled(input);
      const connection = policy.decideConnection(destination).isAllowed;
      const asked = policy.decideRequest(destination, request).isAllowed;
      if (!connection) assert.equal(asked, false);
      else if (!policy.needsRequests(destination)) assert.equal(asked, true);
    }),
    { numRuns: 2_000 },
  );
});

test('under a ceiling what both allow is allowed, and one that is wider changes nothing', () => {
  fc.assert(
    fc.property(policyInput, policyInput, question, (own, ceiling, { destination, request, resolved }) => {
      const limited = compiled(own, { ceiling });
      const parts = [compiled(own), compiled(ceiling)];
      const every = (decide: (policy: Policy) => boolean): boolean => parts.every(decide);
      assert.equal(
        limited.decideConnection(destination).isAllowed,
        every((policy) => policy.decideConnection(destination).isAllowed),
      );
      assert.equal(
        limited.decideRequest(destination, request).isAllowed,
        every((policy) => policy.decideRequest(destination, request).isAllowed),
      );
      assert.equal(
        limited.decideAddress(destination, resolved).isAllowed,
        every((policy) => policy.decideAddress(destination, resolved).isAllowed),
      );
      if (limited.isOpen) assert.ok(every((policy) => policy.isOpen));
    }),
    { numRuns: 1_000 },
  );
});

// The promises, in words.

test('without allow_net every public host and address is reached, and nothing private', () => {
  const policy = compilePolicy({ policy: policyOfAllowNet(undefined), ceiling: undefined, allowRanges: [] });
  assert.equal(policy.isOpen, true);
  assert.equal(policy.decideName('example.com').isAllowed, true);
  assert.equal(policy.decideConnection(literal('8.8.8.8', 53)).isAllowed, true);
  for (const [address, rule] of [
    ['127.0.0.1', 'loopback_address'],
    ['10.0.0.1', 'private_address'],
    ['169.254.169.254', 'metadata_address'],
    ['::ffff:10.0.0.1', 'private_address'],
    ['64:ff9b::a00:1', 'private_address'],
    ['fd00::1', 'private_address'],
    ['224.0.0.1', 'multicast_address'],
  ] as const) {
    assert.deepEqual(policy.decideConnection(literal(address)), { isAllowed: false, rule }, address);
    assert.deepEqual(
      policy.decideAddress(named('rebound.example'), address),
      { isAllowed: false, rule },
      address,
    );
  }
});

test('["none"] allows nothing and says so', () => {
  const policy = compilePolicy({ policy: policyOfAllowNet(['none']), ceiling: undefined, allowRanges: [] });
  assert.deepEqual(policy.decideName('example.com'), { isAllowed: false, rule: 'allow[0] none' });
  assert.equal(policy.decideConnection(literal('8.8.8.8')).isAllowed, false);
  assert.equal(policy.isOpen, false);
});

test('a wildcard matches at any depth and not the apex', () => {
  const policy = compiled({ allow: ['*.example.com'] });
  assert.equal(policy.decideName('a.example.com').isAllowed, true);
  assert.equal(policy.decideName('a.b.c.example.com').isAllowed, true);
  assert.deepEqual(policy.decideName('example.com'), { isAllowed: false, rule: 'not_allowed' });
  assert.equal(policy.decideName('badexample.com').isAllowed, false);
});

test('deny wins, and the rule that is named is the first that decides', () => {
  const policy = compiled({
    allow: ['*', 'a.example'],
    deny: ['*.evil.example', 'a.example:25', 'a.example:20-30'],
  });
  assert.deepEqual(policy.decideName('x.evil.example'), { isAllowed: false, rule: 'deny[0] *.evil.example' });
  assert.deepEqual(policy.decideConnection(named('a.example', 25)), {
    isAllowed: false,
    rule: 'deny[1] a.example:25',
  });
  assert.deepEqual(policy.decideConnection(named('a.example', 22)), {
    isAllowed: false,
    rule: 'deny[2] a.example:20-30',
  });
  assert.deepEqual(policy.decideConnection(named('a.example')), { isAllowed: true, rule: 'allow[0] *' });
  assert.equal(policy.isOpen, false);
});

test('a denied range is refused behind a name as well', () => {
  const policy = compiled({ allow: ['*'], deny: ['203.0.112.0/24', '8.8.8.8'] });
  assert.equal(policy.decideAddress(named('cdn.example'), '8.8.8.8').rule, 'deny[1] 8.8.8.8');
  assert.equal(policy.decideAddress(named('cdn.example'), '64:ff9b::808:808').isAllowed, false);
});

test('a private range is reached where the operator or the policy names it, under a ceiling where that does, too', () => {
  const there = literal('10.1.2.3', 5432);
  assert.equal(compiled({ allow: ['*'] }, { allow: ['10.0.0.0/8'] }).decideConnection(there).isAllowed, true);
  assert.equal(compiled({ allow: ['10.0.0.0/8:5432'] }).decideConnection(there).isAllowed, true);
  assert.equal(
    compiled({ allow: ['db.internal', '10.1.2.3'] }).decideAddress(named('db.internal'), '10.1.2.3')
      .isAllowed,
    true,
  );
  assert.equal(
    compiled({ allow: ['db.internal'] }).decideAddress(named('db.internal'), '10.1.2.3').isAllowed,
    false,
  );
  const capped = { ceiling: { allow: ['*'] } };
  assert.deepEqual(compiled({ allow: ['10.0.0.0/8'] }, capped).decideConnection(there), {
    isAllowed: false,
    rule: 'ceiling private_address',
  });
});

test('a range names a place that is not public only where it lies inside that kind of place', () => {
  const everything = { allow: ['*', '0.0.0.0/0', '::/0', '8.0.0.0/5', '169.254.0.0/16', '64:ff9b::/96'] };
  const reached = (policy: Policy, address: string): boolean =>
    policy.decideConnection(literal(address)).isAllowed &&
    policy.decideAddress(literal(address), address).isAllowed &&
    policy.decideAddress(named('rebound.example'), address).isAllowed;
  const away = [
    '127.0.0.1',
    '0.0.0.0',
    '::',
    '::1',
    '10.1.2.3',
    '169.254.169.254',
    '100.64.0.1',
    'fd00::1',
    'ff02::1',
  ];
  for (const policy of [compiled(everything), compiled({ allow: ['*'] }, { allow: ['0.0.0.0/0', '::/0'] })]) {
    for (const address of [...away, '::ffff:127.0.0.1', '::ffff:10.1.2.3', '64:ff9b::a01:203']) {
      assert.equal(reached(policy, address), false, address);
    }
    assert.equal(reached(policy, '8.8.8.8'), true);
  }
  assert.equal(reached(compiled(everything), '169.254.1.1'), true);
  for (const [range, address] of [
    ['169.254.169.254', '169.254.169.254'],
    ['10.0.0.0/8', '64:ff9b::a01:203'],
    ['64:ff9b::a00:0/104', '64:ff9b::a01:203'],
    ['100.64.0.0/10', '100.64.0.1'],
    ['fd00::/8', 'fd00::1'],
  ] as const) {
    assert.equal(reached(compiled({ allow: ['rebound.example', range] }), address), true, range);
  }
  assert.equal(
    reached(compiled({ allow: ['rebound.example', '64:ff9b::7f00:1'] }), '64:ff9b::7f00:1'),
    false,
  );
  assert.equal(reached(compiled({ allow: ['*'] }, { allow: ['127.0.0.0/8'] }), '127.0.0.1'), true);
});

test('the host’s own addresses are reached by their number alone, the daemon never', () => {
  const daemon = parseAddress('10.1.2.3');
  const host: DiallingHost = {
    isOwn: (address) => ['10.1.2.3', '8.8.8.8'].includes(formatAddress(address)),
    isDaemon: (address, port) => port === 8080 && formatAddress(address) === formatAddress(daemon ?? address),
  };
  const decide = (allow: readonly string[], range: string, at: Destination): string =>
    compilePolicy({
      policy: policySchema.parse({ allow }),
      ceiling: undefined,
      allowRanges: ranges(range),
      host,
    }).decideAddress(at, at.address ?? '10.1.2.3').rule;
  for (const at of [literal('10.1.2.3'), literal('8.8.8.8'), named('own.example')]) {
    assert.equal(decide(['*', '10.0.0.0/8', '8.0.0.0/8'], '10.0.0.0/8', at), 'host_address');
  }
  assert.equal(decide(['10.1.2.3'], '1.2.3.4', literal('10.1.2.3')), 'allow[0] 10.1.2.3');
  assert.equal(decide(['*'], '10.1.2.3', named('own.example')), 'SQUASH_EGRESS_ALLOW_CIDRS');
  assert.equal(decide(['10.1.2.3'], '10.1.2.3', literal('10.1.2.3', 8080)), 'daemon_address');
});

test('a port of the caller is reached by its word and port alone, has no address, and needs the ceiling’s word where there is one', () => {
  const port = named(callerServiceName, 5432);
  const decide = (allow: readonly string[], more: Parameters<typeof compiled>[1], at = port): string => {
    const policy = compiled({ allow }, more);
    const name = policy.decideName(callerServiceName);
    return name.isAllowed ? policy.decideConnection(at).rule : name.rule;
  };
  const word = `${callerServiceName}:5432`;
  const permitted = { allow: ['127.0.0.1/32'] };
  assert.equal(decide([word], {}), `allow[0] ${word}`);
  assert.equal(decide(['*', '*.squash.internal', `${hostServiceName}:5432`], permitted), 'not_allowed');
  assert.equal(decide([word], {}, named(callerServiceName, 22)), 'not_allowed');
  assert.equal(decide([word], { ceiling: { allow: ['*', '*.internal'] } }), 'ceiling not_allowed');
  assert.equal(decide([word], { ceiling: { allow: [word] } }), `allow[0] ${word}`);
  const denied = compiled({ allow: [word], deny: ['*.squash.internal'] });
  assert.equal(denied.decideConnection(port).rule, 'deny[0] *.squash.internal');
  assert.equal(compiled({ allow: [word] }, permitted).decideAddress(port, '127.0.0.1').isAllowed, false);
  assert.equal(compiled({ ask: [word] }).decideConnection(port).question?.host, callerServiceName);
});

test('methods and paths concern requests, and paths end at their segments', () => {
  const policy = compiled({
    allow: [{ to: 'api.github.com:443', methods: ['GET'], paths: ['/repos/acme'] }, 'pypi.org'],
    deny: [{ to: '*', paths: ['/admin'] }],
  });
  const github = named('api.github.com');
  const decide = (method: string, path: string): boolean =>
    policy.decideRequest(github, { method, path }).isAllowed;
  assert.equal(policy.decideConnection(github).isAllowed, true);
  assert.equal(policy.needsRequests(github), true);
  assert.equal(policy.needsRequests(named('pypi.org')), true);
  assert.equal(decide('GET', '/repos/acme'), true);
  assert.equal(decide('GET', '/repos/acme/x'), true);
  assert.equal(decide('GET', '/repos/acme-evil'), false);
  assert.equal(decide('POST', '/repos/acme'), false);
  assert.deepEqual(policy.decideRequest(named('pypi.org'), { method: 'GET', path: '/admin/x' }), {
    isAllowed: false,
    rule: 'deny[0] *',
  });
  assert.equal(compiled({ allow: ['pypi.org'] }).needsRequests(named('pypi.org')), false);
});

test('presets are spelt out with their name', () => {
  const policy = compiled({ allow: ['preset:debian'] });
  assert.deepEqual(policy.decideConnection(named('deb.debian.org', 80)), {
    isAllowed: true,
    rule: 'allow[0] preset:debian deb.debian.org:80',
  });
  assert.equal(policy.decideConnection(named('deb.debian.org', 22)).isAllowed, false);
});

test('a denied path is denied in other letters, an allowed one is not allowed in them', () => {
  const source = policySchema.parse({
    allow: ['shop.test', { to: 'api.test', paths: ['/Public'] }],
    deny: [{ to: 'shop.test', paths: ['/Admin'], methods: ['POST'] }],
  });
  const policy = compilePolicy({ policy: source, ceiling: undefined, allowRanges: [] });
  const decide = (host: string, method: string, path: string): boolean =>
    policy.decideRequest({ host, address: undefined, port: 443 }, { method, path }).isAllowed;
  assert.equal(decide('shop.test', 'POST', '/aDMIN/x'), false);
  assert.equal(decide('shop.test', 'post', '/admin'), false);
  assert.equal(decide('shop.test', 'POST', '/administration'), true);
  assert.equal(decide('shop.test', 'GET', '/admin'), true);
  assert.equal(decide('api.test', 'GET', '/Public/x'), true);
  assert.equal(decide('api.test', 'GET', '/public/x'), false);
});
