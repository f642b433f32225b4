/** The words of policies: what each means, what is refused and with which sentence. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formatPattern, parsePattern } from './destination.ts';
import { allowNetSchema, policyLimits, policyOfAllowNet, policyRules, policySchema } from './policy.ts';
import { findPreset, presets } from './presets.ts';

const canonical = (text: string): string => {
  const parsed = parsePattern(text);
  assert.ok(parsed.ok, `${text}: ${parsed.ok ? '' : parsed.problem}`);
  return formatPattern(parsed.pattern);
};

test('parsePattern() brings every spelling of a destination to one', () => {
  const spellings = {
    'Example.COM': 'example.com',
    'example.com.': 'example.com',
    'example.com:443': 'example.com:443',
    'example.com:8000-8999': 'example.com:8000-8999',
    '*.Example.com': '*.example.com',
    '*.example.com:443': '*.example.com:443',
    'bücher.example': 'xn--bcher-kva.example',
    '*.BÜCHER.example': '*.xn--bcher-kva.example',
    '_dmarc.example.com': '_dmarc.example.com',
    '*': '*',
    '*:443': '*:443',
    '192.0.2.1': '192.0.2.1',
    '192.0.2.1:80': '192.0.2.1:80',
    '192.0.2.0/24': '192.0.2.0/24',
    '192.0.2.0/24:53': '192.0.2.0/24:53',
    '2001:DB8::0:1': '2001:db8::1',
    '[2001:db8::1]': '2001:db8::1',
    '[2001:db8::1]:443': '[2001:db8::1]:443',
    '2001:db8::/32': '2001:db8::/32',
    '[2001:db8::/32]:443': '[2001:db8::/32]:443',
    '::ffff:192.0.2.1': '192.0.2.1',
    '::ffff:192.0.2.0/120': '192.0.2.0/24',
    '::/0': '::/0',
    'preset:debian': 'preset:debian',
  };
  for (const [text, expected] of Object.entries(spellings)) {
    assert.equal(canonical(text), expected, text);
    assert.equal(canonical(expected), expected, expected);
  }
});

test('parsePattern() refuses what programs read differently, and says what to write', () => {
  const refused: Readonly<Record<string, RegExp>> = {
    '': /empty/,
    '127.1': /four numbers/,
    '2130706433': /four numbers/,
    '0x7f.1': /some programs read as 127\.0\.0\.1/,
    '0x7f000001': /some programs read as 127\.0\.0\.1/,
    '0177.0.0.1': /four numbers/,
    '192.0.2.01': /four numbers/,
    '256.1.1.1': /four numbers/,
    '１２７.０.０.１': /some programs read as 127\.0\.0\.1/,
    'https://example.com': /URL/,
    'example.com/path': /path/,
    'user@example.com': /no host name/,
    'exa mple.com': /space/,
    'a%61.com': /no host name/,
    '*example.com': /elsewhere/,
    'a.*.com': /elsewhere/,
    '**': /elsewhere/,
    'example..com': /labels/,
    '.example.com': /labels/,
    [`${'a'.repeat(64)}.com`]: /no host name/,
    'example.com:0': /port/,
    'example.com:65536': /port/,
    'example.com:': /port/,
    'example.com:90-80': /port/,
    '10.0.0.1/8': /write 10\.0\.0\.0\/8/,
    '10.0.0.0/33': /32 is the most/,
    'fe80::1%eth0': /no address/,
    '2001:db8::1::2': /IPv6/,
    '[example.com]:443': /brackets/,
    'preset:Debian!': /preset/,
    'preset:debian:443': /preset/,
  };
  for (const [text, problem] of Object.entries(refused)) {
    const parsed = parsePattern(text);
    assert.equal(parsed.ok, false, text);
    assert.match(parsed.problem, problem, text);
  }
});

test('parsePattern() never throws, and what it takes has one spelling', () => {
  const word = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.stringMatching(/^[a-z0-9.*:[\]/-]{0,24}$/),
    fc.ipV4Extended(),
    fc.ipV6(),
    fc.domain(),
  );
  fc.assert(
    fc.property(word, (text) => {
      const parsed = parsePattern(text);
      if (!parsed.ok) return;
      const once = formatPattern(parsed.pattern);
      assert.equal(canonical(once), once);
    }),
  );
});

test('allow_net names the entry that is wrong', () => {
  const message = (value: unknown): string =>
    allowNetSchema.safeParse(value).error?.issues[0]?.message ?? 'taken';
  assert.equal(
    message(['a.example', 'b example']),
    'allow_net[1] "b example" contains a space or a control character',
  );
  assert.match(message(['none', 'a.example']), /allow_net: "none" stands alone/);
  assert.match(message(['preset:nope']), /allow_net\[0\] "preset:nope" is unknown: the presets are debian/);
  assert.equal(message('a.example'), 'allow_net must be an array of strings');
  assert.equal(message([1]), 'allow_net must be an array of strings');
  assert.match(message(Array.from({ length: policyLimits.rulesMax + 1 }, () => 'a')), /256 entries at most/);
  assert.deepEqual(allowNetSchema.parse(['Example.com.', 'none.example']), ['example.com', 'none.example']);
});

test('an empty or absent allow_net is everything public, ["none"] nothing', () => {
  for (const value of [undefined, null, []]) assert.deepEqual(policyOfAllowNet(value).allow, ['*']);
  assert.deepEqual(policyRules(policyOfAllowNet(['none'])).allow, []);
});

test('a policy comes back canonical, and its own output is taken again', () => {
  const policy = policySchema.parse({
    allow: [
      'Example.com',
      { to: ['api.github.com:443'], methods: ['get'], paths: ['/repos/acme/'] },
      { to: '*.x.org', ports: [80, '8000-8999'] },
    ],
    deny: ['10.0.0.0/8'],
    dns: 'nxdomain',
  });
  assert.deepEqual(policy, {
    allow: [
      'example.com',
      { to: ['api.github.com:443'], methods: ['GET'], paths: ['/repos/acme/'] },
      { to: ['*.x.org'], ports: ['80', '8000-8999'] },
    ],
    deny: ['10.0.0.0/8'],
    dns: 'nxdomain',
  });
  assert.deepEqual(policySchema.parse(policy), policy);
  assert.deepEqual(policySchema.parse({}), { allow: ['*'], deny: [], dns: 'refuse' });
});

test('an empty list of a policy allows nothing', () => {
  assert.deepEqual(policySchema.parse({ allow: [] }), { allow: ['none'], deny: [], dns: 'refuse' });
});

test('a policy names the rule that is wrong', () => {
  const message = (value: unknown): string =>
    policySchema.safeParse(value).error?.issues[0]?.message ?? 'taken';
  assert.match(message({ allow: ['a', 'b c'] }), /^allow\[1\] "b c"/);
  assert.match(
    message({ deny: [{ to: 'a', methods: ['GE T'] }] }),
    /^deny\[0\]\.methods "GE T" is no HTTP method/,
  );
  for (const word of [
    '127.0.0.1',
    '127.0.0.0/8',
    '::1',
    '[::1]:80',
    '::ffff:127.0.0.1',
    '0.0.0.0',
    'LocalHost:80',
    'a.localhost',
  ]) {
    const hint =
      /the sandbox's own loopback, which needs no rule; a service of the host is "host\.squash\.internal:PORT"/;
    assert.match(message({ allow: [word] }), hint);
    assert.match(message({ allow: [{ to: ['a', word] }] }), hint);
    assert.match(allowNetSchema.safeParse([word]).error?.issues[0]?.message ?? 'taken', hint);
    assert.equal(message({ deny: [word] }), 'taken');
  }
  assert.match(
    message({ allow: ['Debian'] }),
    /^allow\[0\] "Debian" is a preset's name: write "preset:debian"/,
  );
  assert.match(message({ deny: ['debian'] }), /a preset's name/);
  assert.equal(message({ allow: ['debian:443', 'x.debian'] }), 'taken');
  assert.match(message({ allow: ['host.squash.internal'] }), /write its port/);
  assert.match(
    message({ ask: ['caller.squash.internal'] }),
    /write its port, "caller\.squash\.internal:5432"/,
  );
  assert.equal(message({ allow: [{ to: 'host.squash.internal', ports: [5432] }] }), 'taken');
  assert.match(message({ deny: ['none'] }), /stands alone/);
  assert.match(message({ allow: [{ to: ['a:443'], ports: [80] }] }), /brings its own port/);
  assert.match(message({ allow: [{ to: ['preset:npm'], ports: [80] }] }), /brings its own port/);
  assert.match(message({ allow: [{ to: 'a', ports: [0] }] }), /./);
  assert.match(message({ allow: [{ to: 'a', paths: ['v1'] }] }), /begins with "\/"/);
  assert.match(message({ allow: [{ to: 'a', paths: ['/a/../b'] }] }), /begins with "\/"/);
  assert.match(message({ deny: [{ to: '10.0.0.0/8', methods: ['GET'] }] }), /a name behind the range/);
  assert.match(
    message({ deny: [{ to: 'a', upgrades: ['websocket'] }] }),
    /^deny\[0\]\.upgrades stands in "allow"/,
  );
  assert.match(message({ allow: [{ to: 'a', upgrades: ['h2c'] }] }), /"h2c" is no protocol to change to/);
  assert.match(message({ allow: [{ host: 'a' }] }), /a rule has "to"/);
  assert.match(message({ alow: ['a'] }), /alow/);
  assert.equal(message({ allow: [{ to: 'a', paths: ['/', '/v1', '/v1/'] }] }), 'taken');
});

test('every preset has hosts that are patterns with ports, and a name that a policy can say', () => {
  assert.ok(presets.length >= 8);
  for (const preset of presets) {
    assert.equal(findPreset(preset.name), preset);
    assert.equal(canonical(`preset:${preset.name}`), `preset:${preset.name}`);
    const rules = policyRules(policyOfAllowNet([`preset:${preset.name}`]));
    assert.equal(rules.allow.length, preset.hosts.length);
    for (const host of preset.hosts) assert.match(canonical(host), /^[a-z0-9.*-]+:\d+$/);
  }
  assert.equal(
    policyRules(policyOfAllowNet(['x', 'preset:pypi'])).allow[1]?.name,
    'allow[1] preset:pypi pypi.org:443',
  );
});
