/** Settings of the Sandbox Runtime and of deer, field by field: none is passed over. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { defaultsFields, networkFields as deerNetwork, rootFields, sandboxFields } from '../deer/fields.ts';
import { importDeer, parseDeer } from '../deer/map.ts';
import { checkPolicy } from '../policy/file-schema.ts';
import { isPolicyProblem } from '../policy-problem.ts';
import type { Fields } from './field.ts';
import { credentialFields, filesystemFields, networkFields, otherFields, tlsFields } from './fields.ts';
import { importSrt, mapSettings } from './map.ts';
import { parseSettings } from './settings.ts';

const words = (text: string): readonly string[] => text.split(' ');

/** Of version 0.0.83, as its documents list them. */
const listed: readonly (readonly [string, Fields, readonly string[]])[] = [
  [
    'network.',
    networkFields,
    words(
      'allowedDomains deniedDomains deniedDomainReasons strictAllowlist deniedResolvedAddresses allowUnixSockets allowAllUnixSockets allowLocalBinding allowMachLookup httpProxyPort socksProxyPort mitmProxy parentProxy tlsTerminate filterRequest allowPlaintextHeaderSet stripResponseHeaders refuseOpaqueTunnels requireHostMatch ambiguousRequestTarget',
    ),
  ],
  [
    'network.tlsTerminate.',
    tlsFields,
    words('caCertPath caKeyPath excludeDomains extraCaCertPaths maxTunnels handshakeTimeoutMs'),
  ],
  ['filesystem.', filesystemFields, words('disabled denyRead allowRead allowWrite denyWrite allowGitConfig')],
  ['credentials.', credentialFields, words('files envVars allowPlaintextInject awsPairs sigv4')],
  [
    '',
    otherFields,
    words(
      'ignoreViolations enableWeakerNestedSandbox allowNestedUserNamespaces enableWeakerNetworkIsolation allowAppleEvents allowPty mandatoryDenySearchDepth ripgrep seccomp bwrapPath socatPath javaAgentJarPath git windows',
    ),
  ],
];
const listedOfDeer: readonly (readonly [string, Fields, readonly string[]])[] = [
  ['', rootFields, words('base_branch setup_command')],
  ['defaults.', defaultsFields, words('agent base_branch timeout_ms setup_command')],
  ['network.', deerNetwork, words('allowlist allowlist_extra')],
  [
    'sandbox.',
    sandboxFields,
    words(
      'runtime env_passthrough env_passthrough_extra write_paths write_paths_extra read_paths read_paths_extra proxy_credentials proxy_credentials_extra ecosystems_disabled',
    ),
  ],
];

const grounds = { home: '/home/u', cwd: '/home/u/project', ownHome: '/home/u' };

interface Parts {
  readonly network?: object;
  readonly filesystem?: object;
  readonly [other: string]: unknown;
}

function settingsOf({ network, filesystem, ...others }: Parts) {
  return parseSettings(
    JSON.stringify({
      network: { allowedDomains: [], deniedDomains: [], ...network },
      filesystem: { denyRead: [], allowWrite: [], denyWrite: [], ...filesystem },
      ...others,
    }),
    'settings',
  );
}

function levels(filesystem: object): Readonly<Record<string, string>> {
  const { fs } = mapSettings(settingsOf({ filesystem }), grounds, []);
  return Object.fromEntries(fs.map(({ path, level }) => [path, level]));
}

const problemsOf = (work: () => unknown): string => {
  try {
    work();
  } catch (failure) {
    if (isPolicyProblem(failure)) return failure.message;
    throw failure;
  }
  return '';
};

describe('settings of the Sandbox Runtime', () => {
  it('have a row for each field, and a word about each in the document', () => {
    const document = readFileSync(new URL('../../../docs/local-run.md', import.meta.url), 'utf8');
    for (const [prefix, table, names] of [...listed, ...listedOfDeer]) {
      assert.deepEqual(Object.keys(table).toSorted(), [...names].toSorted(), prefix);
      for (const name of names) assert.ok(document.includes(`\`${name}\``), `${prefix}${name}`);
    }
  });

  it('get for each path the level that they have there', () => {
    const rows: readonly (readonly [object, Readonly<Record<string, string>>])[] = [
      [{}, { '/': 'ro', '/home/u': 'ro', '/home/u/project': 'ro' }],
      [
        { denyRead: ['~'], allowRead: ['.'] },
        { '/home/u': 'hidden', '/home/u/project': 'ro' },
      ],
      [{ denyRead: ['~/a'], allowRead: ['~/a'] }, { '/home/u/a': 'ro' }],
      [
        { denyRead: ['~/a/b'], allowRead: ['~/a'] },
        { '/home/u/a': 'ro', '/home/u/a/b': 'hidden' },
      ],
      [
        { denyRead: ['~'], allowWrite: ['.'] },
        { '/home/u': 'hidden', '/home/u/project': 'rw' },
      ],
      [{ denyRead: ['out'], allowWrite: ['out'] }, { '/home/u/project/out': 'hidden' }],
      [
        { allowWrite: ['.'], denyWrite: ['./f', '..//x/./y'] },
        { '/home/u/project/f': 'ro', '/home/u/x/y': 'ro' },
      ],
      [{ allowWrite: ['./a/b'], denyWrite: ['./a'] }, { '/home/u/project/a/b': 'ro' }],
      [{ allowWrite: ['/srv/**'] }, { '/srv': 'rw' }],
      [{ denyRead: [{ path: '~/[x]', literal: true }] }, { '/home/u/[x]': 'hidden' }],
      [{ denyRead: ['./**/.env*'] }, { '/home/u/project/**/.env*': 'hidden' }],
    ];
    for (const [filesystem, expected] of rows) {
      const found = levels({ allowWrite: [], ...filesystem });
      for (const [path, level] of Object.entries(expected))
        assert.equal(found[path], level, `${JSON.stringify(filesystem)}: ${path}`);
    }
    const kept = mapSettings(settingsOf({ filesystem: { allowWrite: ['.'] } }), grounds, [
      '/home/u/project/.git/hooks',
    ]);
    assert.deepEqual(kept.fs.map(({ path, level }) => [path, level]).slice(2), [
      ['/home/u/project', 'rw'],
      ['/home/u/project/.git/hooks', 'ro'],
    ]);
  });

  it('are refused by name where they can’t be had, and told where they differ', () => {
    const rows: readonly (readonly [Parts, RegExp])[] = [
      [{ network: { httpProxyPort: 3128 } }, /^network\.httpProxyPort: /],
      [{ network: { mitmProxy: { socketPath: '/s', domains: ['a.example'] } } }, /^network\.mitmProxy: /],
      [{ network: { parentProxy: { http: 'http://p.example' } } }, /^network\.parentProxy: /],
      [{ network: { allowedDomains: ['localhost'] } }, /^network\.allowedDomains: "localhost"/],
      [{ network: { allowedDomains: ['https://a.example'] } }, /is a URL/],
      [{ network: { deniedResolvedAddresses: ['a.example'] } }, /deniedResolvedAddresses/],
      [{ network: { requireHostMatch: true } }, /requireHostMatch/],
      [{ network: { tlsTerminate: { caCertPath: '/c', caKeyPath: '/k' } } }, /tlsTerminate\.caCertPath/],
      [{ filesystem: { disabled: true } }, /^filesystem\.disabled: /],
      [{ filesystem: { allowWrite: ['./*.log'] } }, /"\.\/\*\.log": what may be written/],
      [{ filesystem: { allowRead: ['~/.ssh/config'] } }, /closed whatever is asked/],
      [{ filesystem: { denyRead: ['a\nb'] } }, /control characters/],
      [{ filesystem: { denyRead: ['x{a,b}'] } }, /literal/],
      [{ filesystem: { denyRead: [{ path: 'x*', literal: true }] } }, /can’t be written/],
      [{ credentials: { files: [{ path: '~/.npmrc', mode: 'mask' }] } }, /^credentials\.files\[0\]: /],
      [
        {
          network: { allowedDomains: ['a.example'] },
          credentials: { envVars: [{ name: 'A', mode: 'mask', decode: 'jwt' }] },
        },
        /envVars\[0\]\.decode/,
      ],
    ];
    for (const [parts, pattern] of rows) {
      const { refused } = mapSettings(settingsOf(parts), grounds, []);
      assert.equal(refused.length > 0, true, JSON.stringify(parts));
      assert.match(refused.map(({ field, text }) => `${field}: ${text}`).join('\n'), pattern);
    }
    const { refused, notes } = mapSettings(
      settingsOf({ allowPty: true, allowNestedUserNamespaces: false, network: { stripResponseHeaders: [] } }),
      grounds,
      [],
    );
    assert.deepEqual(refused, []);
    assert.equal(mapSettings(settingsOf({ allowNestedUserNamespaces: true }), grounds, []).nesting, true);
    assert.ok(notes.some(({ field }) => field === 'allowPty'));
  });

  it('deny hosts as far as they do there', () => {
    const { net } = mapSettings(
      settingsOf({
        network: {
          allowedDomains: ['a.example', '10.0.0.1', 'b.example:22'],
          deniedDomains: ['*:22', 'c.a.example'],
          deniedResolvedAddresses: ['192.0.2.0/24'],
        },
      }),
      grounds,
      [],
    );
    assert.deepEqual(net.deny, [
      '*:22',
      'a.example:22',
      '10.0.0.1:22',
      'b.example:22',
      'c.a.example',
      '192.0.2.0/24',
    ]);
    const nothing = mapSettings(
      settingsOf({ network: { allowedDomains: ['10.0.0.1', 'localhost:1'], deniedDomains: ['*'] } }),
      grounds,
      [],
    );
    assert.deepEqual([nothing.net.allow, nothing.hostPorts], [[], []]);
  });

  it('are an error where a key is unknown or stands twice, or the text is none', () => {
    const rows: readonly (readonly [string, RegExp])[] = [
      ['', /empty/],
      [' \n', /empty/],
      ['{', /no JSON/],
      ['[]', /must be an object/],
      ['null', /must be an object/],
      ['{}', /network is missing/],
      ['{"network":{},"filesystem":{}}', /allowedDomains is missing/],
      ['['.repeat(100_000), /brackets/],
      [
        JSON.stringify({ ...settingsOf({}), netwrk: {} }),
        /"netwrk" is unknown; the nearest known key is "network"/,
      ],
      [
        JSON.stringify(settingsOf({})).replace('"denyRead"', '"denyReads":["~"],"denyRead"'),
        /"denyReads" in "filesystem" is unknown; the nearest known key is "denyRead"/,
      ],
      [JSON.stringify(settingsOf({})).replace('"denyRead"', '"denyRead":[],"denyRead"'), /stands twice/],
      [JSON.stringify(settingsOf({})).replace('"denyRead"', '"__proto__":{},"denyRead"'), /__proto__/],
      [' '.repeat(1_100_000) + '{}', /bytes at most/],
    ];
    for (const [text, pattern] of rows)
      assert.match(
        problemsOf(() => parseSettings(text, 'f')),
        pattern,
        text.slice(0, 80),
      );
    for (const word of ['*', '*.com', '*:443'])
      assert.match(
        problemsOf(() => settingsOf({ network: { allowedDomains: [word] } })),
        /too wide/,
      );
    assert.match(
      problemsOf(() =>
        settingsOf({ credentials: { envVars: [{ name: 'A', mode: 'mask', injectHosts: ['x.example'] }] } }),
      ),
      /not in network\.allowedDomains/,
    );
  });

  it('become a policy that is one', () => {
    const { policy, refused } = importSrt(
      settingsOf({
        network: { allowedDomains: ['*.example.com', 'api.example.org:443', 'localhost:5432'] },
        filesystem: { denyRead: ['~', './**/.env'], allowRead: ['.'], allowWrite: ['.', 'sub/../x'] },
        credentials: {
          envVars: [
            { name: 'A_KEY', mode: 'mask', injectHosts: ['api.example.org'] },
            { name: 'B', mode: 'deny' },
          ],
        },
        git: { safeDirectories: ['*'] },
      }),
      grounds,
    );
    assert.deepEqual(refused, []);
    const checked = checkPolicy({ value: policy, lineOf: () => undefined }, 'it');
    assert.equal(checked.fs?.['.'], 'rw');
    assert.equal(checked.fs?.['./.git/hooks'], 'ro');
    assert.equal(checked.fs?.['/home/u/project/x'], 'rw');
    assert.deepEqual(checked.ports, { host: [5432] });
    assert.deepEqual(checked.secrets?.['A_KEY']?.hosts, ['api.example.org']);
  });
});

describe('configuration of deer', () => {
  it('becomes a policy, and what can’t be had is told by name', () => {
    const { policy, refused, notes } = importDeer(
      parseDeer(
        `base_branch = "main"
setup_command = "make"
[network]
allowlist_extra = ["api.example.com"]
[sandbox]
env_passthrough_extra = ["NODE_ENV"]
write_paths_extra = ["out"]
read_paths_extra = ["~/notes", "~/.ssh"]
ecosystems_disabled = ["go", "bun"]
[[sandbox.proxy_credentials_extra]]
domain = "x.example"
[defaults]
timeout_ms = 1500
`,
        'deer.toml',
      ),
      grounds,
    );
    assert.deepEqual(
      refused.map(({ field }) => field),
      ['base_branch', 'setup_command', 'sandbox.proxy_credentials_extra', 'sandbox.read_paths'],
    );
    assert.ok(notes.some(({ field }) => field === 'sandbox.env_passthrough_extra'));
    const checked = checkPolicy({ value: policy, lineOf: () => undefined }, 'it');
    assert.deepEqual(checked.fs, { '~/notes': 'ro', './out': 'rw' });
    assert.deepEqual(checked.caches, { uv: 'cow', pnpm: 'cow', npm: 'cow' });
    assert.deepEqual(
      [checked.net?.allow, checked.env?.pass, checked.limits?.time_s],
      [['api.example.com'], ['NODE_ENV'], 2],
    );
    assert.match(
      problemsOf(() => parseDeer('[sandbx]\nx = 1', 'deer.toml')),
      /"sandbx" is unknown; the nearest known key is "sandbox"/,
    );
    assert.match(
      problemsOf(() => parseDeer('[network]\nallow_list = []', 'deer.toml')),
      /nearest known key is "allowlist"/,
    );
  });
});
