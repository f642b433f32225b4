/**
 * The tree checks itself: what reviewers need not look for. Each checker is also shown a broken subject, so
 * that none of them can pass by finding nothing at all.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { errorCatalog } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { globalFlags } from '../../cli/src/arguments.ts';
import { commandTable } from '../../cli/src/command-table.ts';
import { attempts } from '../../tests/egress/attempts/all.ts';
import { syncForm } from '../python/sync.ts';
import { hasRow } from '../test/allowed-skips.ts';
import { checkHeaders, checkLengths, checkOnlyIn, checkUsed, type OnlyIn, skipReasons } from './code.ts';
import {
  checkAttacks,
  checkAttempts,
  checkCommands,
  checkDependencies,
  checkLinks,
  checkPaths,
  checkPromises,
  checkShown,
  checkTitles,
  checkWords,
} from './documents.ts';
import { checkImports, importRules } from './imports.ts';
import { checkCircles, checkLayers, includesOf, nativeLayers, usesOf } from './native.ts';
import { files, read, root } from './tree.ts';

const sources = files('.ts', '.c', '.h');
const product = sources.filter(
  (source) =>
    /^(base|contract|policy|installation|groups|host|egress|codemode|certificate|cli|sdk|mcp|computesdk)\//.test(
      source.path,
    ) && !source.path.endsWith('.test.ts'),
);
/** `bench/notes.md` is a part of docs/performance.md, which brings the title. */
const documents = files('.md').filter((document) => document.path !== 'bench/notes.md');

const onlyIn: readonly OnlyIn[] = [
  {
    pattern: /\bprocess\.env\b/,
    allowed: [
      'host/src/config/',
      'host/src/sandbox/fault.ts',
      'base/src/compiled.ts',
      'host/src/main.ts',
      'host/src/run-daemon.ts',
      'host/src/serve',
      'host/src/stop',
      'host/src/offline',
      // Inside of a sandbox.
      'groups/src/nanoclaw',
      'codemode/src/suite/',
      'codemode/src/places/container.ts',
      'codemode/src/mcp/notes-server.ts',
      'cli/',
      'sdk/src/node-parts.ts',
      'sdk/src/srt/program.ts',
    ],
    why: 'reads the environment: configuration comes from host/src/config',
  },
  {
    pattern: /\bDate\.now\(|new Date\(\)/,
    allowed: [
      'base/src/clock.ts',
      'groups/src/nanoclaw',
      'codemode/src/kernel/',
      'codemode/src/suite/',
      'cli/',
      'sdk/src/srt/',
    ],
    why: 'reads the clock: base/src/clock.ts is the one place',
  },
  {
    pattern: /from 'node:child_process'/,
    // The egress process outlives the daemon and is none of the launcher's: it is started like a service. The gateway of SSH is a child that dies with it.
    allowed: [
      'certificate/src/dns-hook.ts',
      'cli/',
      'codemode/src/places/',
      'groups/src/nanoclaw',
      'host/src/serve',
      'host/src/stop',
      'host/src/offline',
      'host/src/egress/egress-process.ts',
      'host/src/ssh/gateway.ts',
      // A client’s: it asks the command line whether settings can be had.
      'sdk/src/srt/manager.ts',
    ],
    why: 'starts processes: the daemon leaves that to squash-launch',
  },
  { pattern: /\bTODO\b|\bFIXME\b|\bXXX\b/, allowed: [], why: 'leaves work undone in the source' },
];

const coded: readonly OnlyIn[] = [
  {
    pattern: /\bError\(/,
    allowed: [
      // Guest code: a program catches what every realm has.
      'codemode/src/kernel/',
      'codemode/src/cloudflare/enclosure.ts',
      // What a tool throws reaches the program with the name of its class, and programs know that as `Error`.
      'codemode/src/cloudflare/executor.ts',
      'codemode/src/host/broker.ts',
      'codemode/src/mcp/bounded-transport.ts',
      'codemode/src/mcp/unwrap.ts',
      // Programs of cases, and their tools.
      'codemode/src/suite/',
      // Read by a Node too old for whatever it could import.
      'codemode/src/node-version.ts',
    ],
    why: 'makes an error without a code: AppError, or Failure of base/src/failure.ts or cli/src/failure.ts',
  },
];

test('imports follow the table of ARCHITECTURE.md', () => {
  const rules = importRules(read('ARCHITECTURE.md'));
  assert.ok(rules.length >= 10, 'the import table was not found');
  assert.deepEqual(checkImports(files('.ts'), rules), []);
});

test('checkImports() reports an import that the table forbids', () => {
  const rules = importRules('## Who may import whom\n| a | b |\n| `host/src/http` | `contract`, `base` |\n');
  const bad = { path: 'host/src/http/x.ts', text: "import { y } from '../api/y.ts';\n" };
  const good = {
    path: 'host/src/http/x.ts',
    text: "import { y } from '@squash/base/y';\nimport z from '@squash/contract/errors';\n",
  };
  const intruder = { path: 'host/src/http/x.test.ts', text: "import { y } from '../../../base/src/y.ts';\n" };
  assert.equal(checkImports([bad], rules).length, 1);
  assert.equal(checkImports([intruder], rules).length, 1);
  assert.deepEqual(checkImports([good], rules), []);
});

test('C files know what the table of ARCHITECTURE.md lets them know', () => {
  const layers = nativeLayers(read('ARCHITECTURE.md'));
  const graphs = [includesOf(sources), usesOf(sources)];
  assert.ok(layers.length >= 10, 'the table of C files was not found');
  assert.deepEqual(checkLayers(graphs, layers), []);
});

test('checkLayers() reports what the table of C files forbids', () => {
  const table = (rows: string) =>
    nativeLayers(`## Which C file may know which\n| row | files | may know |\n${rows}`);
  const layers = table('| `low` | `launch/a` | |\n| `high` | `launch/b*` | `low` |\n');
  const files = (a: string, b: string) => [
    { path: 'native/launch/a.c', text: a },
    { path: 'native/launch/b.h', text: b },
    { path: 'native/launch/b_more.c', text: '#include "launch/a.h"\nint b_more(int x) {\n  return x;\n}\n' },
  ];
  const check = (sources: ReturnType<typeof files>) =>
    checkLayers([includesOf(sources), usesOf(sources)], layers);
  assert.deepEqual(check(files('', '#include "launch/a.h"\n')), []);
  assert.equal(check(files('#include "launch/b.h"\n', '')).length, 1);
  assert.equal(check(files('int b_more(int x);\nint a(void) {\n  return b_more(1);\n}\n', '')).length, 1);
  assert.equal(check([...files('', ''), { path: 'native/launch/c.c', text: '' }]).length, 1);
  const upwards = table('| `low` | `launch/a` | `high` |\n| `high` | `launch/b` | |\n');
  assert.equal(checkLayers([], upwards).length, 1);
});

test('no C file leads back to itself', () => {
  assert.ok(includesOf(sources).get('launch/main')?.has('launch/enter'));
  assert.deepEqual(checkCircles(includesOf(sources), 'includes'), []);
  assert.deepEqual(checkCircles(usesOf(sources), 'uses'), []);
});

test('checkCircles() reports each file of a circle, of x.c and x.h together', () => {
  const includes = [
    { path: 'native/init/a.c', text: '#include "init/a.h"\n#include "init/b.h"\n' },
    { path: 'native/init/a.h', text: '#include <stdint.h>\n' },
    { path: 'native/init/b.h', text: '#include "c.h"\n' },
    { path: 'native/init/c.c', text: '#include "init/a.h"\n' },
    { path: 'native/init/d.c', text: '#include "init/a.h"\n' },
  ];
  assert.deepEqual(checkCircles(includesOf(includes), 'includes'), [
    'native/init/a includes itself: init/a → init/b → init/c → init/a',
    'native/init/b includes itself: init/b → init/c → init/a → init/b',
    'native/init/c includes itself: init/c → init/a → init/b → init/c',
  ]);
  const uses = (more: string) => [
    { path: 'native/init/a.c', text: 'void a(void);\nvoid b(void);\nvoid a(void) {\n  b();\n}\n' },
    { path: 'native/init/b.c', text: `void b(void) {\n  /* a() comes later */\n  ${more}\n}\n` },
  ];
  assert.deepEqual(checkCircles(usesOf(uses('puts("a()"); s->a(); struct a x;')), 'uses'), []);
  assert.equal(checkCircles(usesOf(uses('a();')), 'uses').length, 2);
});

test('every source file begins by saying what it is for', () => {
  assert.deepEqual(checkHeaders(sources), []);
  assert.equal(checkHeaders([{ path: 'x.ts', text: 'import x from "y";\n' }]).length, 1);
});

test('no source file is longer than 500 lines', () => {
  assert.deepEqual(
    checkLengths(
      sources.filter((source) => !/\.gen\.(?:h|ts)$/.test(source.path)),
      500,
    ),
    [],
  );
  assert.equal(checkLengths([{ path: 'x.ts', text: '\n'.repeat(501) }], 500).length, 1);
});

test('what the product throws has a code', () => {
  const images = sources.filter(({ path }) => path.startsWith('images/') && !path.endsWith('.test.ts'));
  assert.deepEqual(checkOnlyIn([...product, ...images], coded), []);
  const bare = (text: string) => checkOnlyIn([{ path: 'host/src/api/x.ts', text }], coded);
  assert.equal(bare("  throw new Error('it is gone');\n").length, 1);
  assert.equal(bare("  reject(Error('it is gone'));\n").length, 1);
  assert.deepEqual(bare("  throw new AppError('not_found', 'it is gone');\n"), []);
});

test('environment, clock and processes are reached in one place each', () => {
  assert.deepEqual(checkOnlyIn(product, onlyIn), []);
  assert.equal(
    checkOnlyIn([{ path: 'host/src/api/x.ts', text: 'const x = process.env.HOME;\n' }], onlyIn).length,
    1,
  );
});

test('C sources keep to calls that can not overrun', () => {
  const native = sources.filter((source) => source.path.startsWith('native/'));
  const banned: readonly OnlyIn[] = [
    {
      pattern: /\b(strcpy|strcat|sprintf|vsprintf|gets|system|popen|alloca)\s*\(/,
      allowed: [],
      why: 'uses a call that can overrun or starts a shell',
    },
  ];
  assert.deepEqual(checkOnlyIn(native, banned), []);
  assert.equal(checkOnlyIn([{ path: 'native/init/x.c', text: '  strcpy(a, b);\n' }], banned).length, 1);
});

test('every error code is thrown somewhere and documented', () => {
  assert.deepEqual(checkUsed('contract/src/errors.ts', Object.keys(errorCatalog), product), []);
  const documented = read('docs/errors.md');
  assert.deepEqual(
    Object.keys(errorCatalog).filter((code) => !documented.includes(`\`${code}\``)),
    [],
  );
});

test('every limit is used', () => {
  assert.deepEqual(checkUsed('contract/src/limits.ts', Object.keys(limits), product), []);
  assert.equal(checkUsed('x.ts', ['aMax'], [{ path: 'y.ts', text: 'bMax' }]).length, 1);
});

test('generated files are fresh', () => {
  for (const tool of ['gen-frames', 'gen-vectors', 'gen-adapters', 'openapi', 'sdk-types', 'python-sdk']) {
    execFileSync(process.execPath, [path.join(root, `tools/${tool}.ts`), '--check'], { stdio: 'pipe' });
  }
});

test('the sync form of a Python module waits for nothing', () => {
  const waiting = /\b(?:async|await)\b|\bAsync[A-Z]|__a(?:enter|exit|iter|next)__|\baclose\b/;
  for (const { path: name, text } of files('.py').filter((file) =>
    file.path.startsWith('python/squash/_sync/'),
  ))
    assert.doesNotMatch(text, waiting, name);
  const source =
    'async def f(self) -> AsyncBox:\n    async with await AsyncBox.make() as box:\n        await box.aclose()\n';
  const form = 'def f(self) -> Box:\n    with Box.make() as box:\n        box.close()\n';
  assert.ok(syncForm(source, 'x.py').endsWith(`: do not change it here.\n${form}`));
});

test('documents have one title each and links that resolve', () => {
  assert.deepEqual(checkTitles(documents), []);
  assert.deepEqual(checkLinks(documents), []);
  assert.equal(checkTitles([{ path: 'x.md', text: '# A\n\n# B\n' }]).length, 1);
  assert.equal(checkLinks([{ path: 'x.md', text: '[a](gone.md)' }], () => false).length, 1);
});

/** Files and folders of readers, and the pattern that tests are named by. */
const examples = ['example/x.ts', 'example/x.test.ts', 'example/program.ts', 'tools/bin/', 'tools/usr/bin/'];

test('paths and sources that documents name are there', () => {
  const paths = [...files('').map((file) => file.path), ...examples];
  assert.deepEqual(checkPaths(files('.md'), paths), []);
  const named = { path: 'x.md', text: 'see `host/src/gone.ts`, `gone.c` and\n```\ncat docs/gone.md\n```\n' };
  assert.equal(checkPaths([named], ['host/src/here.ts']).length, 3);
});

test('commands and options that documents name are there', () => {
  // What the script `squash` answers itself.
  const own = [
    { name: 'setup', flags: [] },
    { name: 'node', flags: [] },
    { name: 'test', flags: ['only', 'long', 'no-user'] },
    { name: 'bench', flags: ['only'] },
  ];
  const ofAll = globalFlags.map((flag) => flag.name);
  const known = commandTable.map((spec) => ({
    name: spec.name,
    flags: [...spec.flags.map((flag) => flag.name), ...ofAll],
  }));
  // By both numbers of the first of two words.
  const both = known.map((spec) => ({
    ...spec,
    name: spec.name.replace(
      /^(\S+?)(s?) /,
      (_, word: string, plural: string) => `${word}${plural === '' ? 's' : ''} `,
    ),
  }));
  assert.deepEqual(checkCommands(files('.md'), [...own, ...known, ...both]), []);
  const bad = { path: 'x.md', text: '`squash gone dev`, `squash ls --gone`, `./squash ls --json`' };
  assert.equal(checkCommands([bad], known).length, 2);
});

function readTest(name: string): string | undefined {
  return existsSync(path.join(root, name)) ? readFileSync(path.join(root, name), 'utf8') : undefined;
}

test('every promise of SPECIFICATION.md names a test that exists', () => {
  assert.deepEqual(checkPromises(read('SPECIFICATION.md'), readTest), []);
  assert.equal(checkPromises('| P-1 | it holds | `gone.test.ts` |', () => undefined).length, 1);
  const row = '| P-1 | it holds | `x.test.ts` |';
  assert.equal(checkPromises(`${row}\n${row}`, () => '').length, 1);
});

test('every attack of docs/network.md names a test that exists', () => {
  const { rows, findings } = checkAttacks(read('docs/network.md'), readTest);
  assert.ok(rows >= 20, 'the table of attacks was not found');
  assert.deepEqual(findings, []);
  const broken =
    '\n## Attacks\n| attack | verdict | test |\n|---|---|---|\n| a | refused | `x.test.ts`: t |\n';
  assert.equal(checkAttacks(broken, () => "test('other', () => {})").findings.length, 1);
  assert.equal(checkAttacks(broken, () => "// 't' is gone").findings.length, 1);
  assert.equal(checkAttacks(broken, () => "test('t', () => {})").findings.length, 0);
});

test('every rule of docs/groups-rules.md names tests that exist', () => {
  const { rows, findings } = checkShown(read('docs/groups-rules.md'), (link) =>
    readTest(path.join('docs', link)),
  );
  assert.ok(rows >= 50, 'the tables were not found');
  assert.deepEqual(findings, []);
  const broken =
    '| rule | here | shown by |\n|---|---|---|\n| a | b | [c](x.test.ts) “done”, “gone” |\n| f | g | h |\n';
  assert.equal(checkShown(broken, () => "test('done')").findings.length, 2);
  assert.equal(checkShown(broken, () => undefined).findings.length, 4);
});

test('the table of attempts and the attempts are the same', () => {
  const ids = attempts.map(({ id }) => id);
  assert.deepEqual(checkAttempts(read('docs/network.md'), ids), []);
  const broken =
    '\n## Attempts\n| attack | verdict | attempts |\n|---|---|---|\n| a | refused | `x` |\n| b | refused | |\n| **C** | | |\n';
  assert.equal(checkAttempts(broken, ['x']).length, 1);
  assert.equal(checkAttempts(broken, ['y']).length, 3);
  assert.equal(checkAttempts(`${broken}| d | | |\n`, ['x']).length, 3);
});

test('every dependency has a sentence that says why it is there', () => {
  const manifests = files('package.json');
  assert.ok(manifests.length >= 5);
  assert.deepEqual(checkDependencies(read('deps.txt'), manifests), []);
  const manifest = { path: 'package.json', text: '{"dependencies":{"a":"1","@squash/b":"1"}}' };
  assert.equal(checkDependencies('c  because\n', [manifest]).length, 2);
});

test('every package has the license whose text is in LICENSE', () => {
  assert.match(read('LICENSE'), /^\s+Apache License\n\s+Version 2\.0, January 2004\n/);
  for (const { path: name, text } of files('package.json')) {
    assert.equal((JSON.parse(text) as { readonly license?: string }).license, 'Apache-2.0', name);
  }
});

test('every reason to skip has a row in tools/test/allowed-skips.ts', () => {
  // A run of `squash test` has built it, and tests no other.
  const never = [/is not built: make/, /^another program is tested$/];
  const found = sources.filter((source) => !source.path.startsWith('tools/tidy/')).flatMap(skipReasons);
  assert.ok(found.length >= 35, `${found.length} found`);
  const rowless = found.filter((reason) => !hasRow(reason) && !never.some((each) => each.test(reason)));
  assert.deepEqual(rowless, []);
  const text =
    "test('x', { skip: y && 'a' }); const z = y() ? false : `b ${y}`; t.skip('c'); y ? 'd' : false;";
  assert.deepEqual(skipReasons({ path: 'x.test.ts', text }), ['b ${y}', 'c', 'd']);
});

test('nothing names the workplace it was written at', () => {
  const banned = [/\/work\/(main|shared)/, /\.library\b/, /farm-(bench|studio)/];
  const all = files('.ts', '.c', '.h', '.md', '.sh', '.json', 'squash', 'run').filter(
    (source) => !source.path.startsWith('tools/tidy/'),
  );
  assert.deepEqual(checkWords(all, banned), []);
  assert.equal(checkWords([{ path: 'x', text: 'see /work/main' }], banned).length, 1);
});
