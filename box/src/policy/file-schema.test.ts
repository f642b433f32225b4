/** What a policy file may say, in both forms, and how it is told what it may not. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { parseDocument } from './document.ts';
import { checkPolicy } from './file-schema.ts';
import { nameMatches } from './pattern.ts';

const read = (text: string, format: 'jsonc' | 'toml' = 'jsonc') =>
  checkPolicy(parseDocument(text, format, 'box'), 'box');

it('the same policy in JSONC and in TOML is the same', () => {
  const jsonc = read(`{
    // what this project needs
    "version": 1,
    "fs": { "~/a": "ro", "./secret": { "mask": "x" }, },
    "net": { "allow": ["a.example:443"] },
  }`);
  const toml = read(
    'version = 1\n[fs]\n"~/a" = "ro"\n"./secret" = { mask = "x" }\n[net]\nallow = ["a.example:443"]\n',
    'toml',
  );
  assert.deepEqual(jsonc, toml);
});

it('of a file that is all wrong some lines are told', () => {
  const keys = Array.from({ length: 900 }, (_, at) => `"x${at}": 1`).join(',');
  assert.throws(
    () => read(`{"version": 1, ${keys}}`),
    ({ message }: Error) =>
      message.split('\n').length === 21 && message.endsWith('and 880 more of that kind'),
  );
});

for (const [title, text, said] of [
  [
    'an unknown section',
    '{"version": 1,\n"nett": {}}',
    /^box:2: "nett" is unknown; the nearest known key is "net"$/,
  ],
  [
    'an unknown key of a section',
    '{"version": 1, "env": {"pas": []}}',
    /"pas" in "env" is unknown; the nearest known key is "pass"/,
  ],
  [
    'an unknown key of a secret',
    '{"version": 1, "secrets": {"S": {"host": []}}}',
    /"host" in "secrets\.S" is unknown; the nearest known key is "hosts"/,
  ],
  ['what is not yet supported', '{"version": 1, "tty": {}}', /"tty" \(the terminal\) is not yet supported/],
  [
    'a socket by a relative path',
    '{"version": 1, "sockets": {"allow": ["run/x.sock"]}}',
    /sockets\.allow: a path that begins with/,
  ],
  [
    'a device that is none',
    '{"version": 1, "devices": {"allow": ["/tmp/disk"]}}',
    /devices\.allow: "gpu", "kvm", "fuse" or a path/,
  ],
  ['no version', '{}', /version must be 1/],
  ['a level that is none', '{"version": 1, "fs": {"~/a": "read"}}', /a level is hidden, deny/],
  ['a relative path', '{"version": 1, "fs": {"a": "ro"}}', /a path begins with/],
  ['a path that climbs', '{"version": 1, "fs": {"./../x": "ro"}}', /no "\.\."/],
  [
    'a value as a secret',
    '{"version": 1, "secrets": {"S": {"from": "ghp_abc", "hosts": ["a.example"]}}}',
    /never the value itself/,
  ],
  [
    'a host that is none',
    '{"version": 1, "secrets": {"S": {"from": "env:S", "hosts": ["*"]}}}',
    /neither a host/,
  ],
  ['a rule of net', '{"version": 1, "net": {"allow": ["127.1"]}}', /^box:1: net\.allow\[0\]/],
  [
    'a key that stands twice',
    '{"version": 1, "fs": {"~/a": "hidden",\n "~/a": "rw"}}',
    /^box:2: "~\/a" stands twice/,
  ],
  ['__proto__', '{"version": 1, "fs": {"__proto__": "rw"}}', /"__proto__" is no key/],
  ['what is no JSON', '{"version": 1,\n x}', /^box:2: this is no JSON/],
  ['what is too deep', '['.repeat(100_000), /more than 32 brackets/],
] as const) {
  it(`a file with ${title} is refused by name`, () => {
    assert.throws(() => read(text), { message: said });
  });
}

it('TOML says its lines, and refuses what it has twice', () => {
  assert.throws(
    () => read('version = 1\n[limits]\ncpus = 1\n', 'toml'),
    /^PolicyProblem: box:3: "cpus" in "limits" is unknown; the nearest known key is "cpu"/,
  );
  assert.throws(() => read('version = 1\nversion = 1\n', 'toml'), /box:2/);
  assert.throws(() => read('version = 1\n[fs]\n"__proto__" = "rw"\n', 'toml'), /no key/);
  assert.throws(() => read(`version = 1\na = ${'['.repeat(5_000)}`, 'toml'), { name: 'PolicyProblem' });
});

it('property: no text makes the reader fail otherwise than with a sentence', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...'{}[]",:=\n#/*~. a1'.split('')), maxLength: 60 }),
      fc.constantFrom('jsonc' as const, 'toml' as const),
      (text, format) => {
        try {
          read(text, format);
        } catch (failure) {
          assert.equal((failure as Error).name, 'PolicyProblem');
        }
      },
    ),
    { numRuns: 2_000 },
  );
});

it('property: names match as a regular expression would say', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 8 });
  const plain = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 8 });
  fc.assert(
    fc.property(letters, plain, (pattern, name) => {
      const wanted = new RegExp(`^${pattern.replaceAll('*', '.*').replaceAll('?', '.')}$`).test(name);
      assert.equal(nameMatches(pattern, name), wanted);
    }),
    { numRuns: 2_000 },
  );
});

it('a hostile TOML document takes no long time, and no deep stack', () => {
  const began = performance.now();
  const text = `version = 1\n[env.set]\nX = """\n[${' '.repeat(4_000)}\n"""\n`;
  assert.deepEqual(read(text, 'toml').env?.set?.['X']?.length, 4_002);
  assert.ok(performance.now() - began < 5_000);
  assert.throws(() => read(`a${'.a'.repeat(20_000)} = 1`, 'toml'), /more than 32 names within each other/);
});
