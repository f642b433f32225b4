/**
 * Caches of package managers in boxes, with the managers themselves and without a registry: what each of them finds, and what of a
 * box is left in this machine's.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { repository as checkout } from '../support/base-layer.ts';
import { squash } from '../support/cli.ts';
import { expectNoLeaks, processesOf } from '../support/leaks.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const isRoot = process.getuid?.() === 0;
const isLong = process.env['TEST_LONG'] === '1';
const { homedir: home } = userInfo();
/** Names that no cache has. */
const id = `x${process.pid}`;

/** Managers that machines of tests do not have, kept in the checkout. */
const fetched = join(checkout, '.cache/test-programs');

interface Manager {
  readonly name: string;
  readonly cache: string;
  readonly program: string;
  /** Slow, or fetched and unpacked before: some seconds and up to a hundred megabytes. */
  readonly isFor?: 'long' | 'long, fetched';
  /** Makes the cache hold a package of this name. */
  readonly add: (name: string) => string;
  /** Succeeds where the cache holds it, and never asks anybody else. */
  readonly use: (name: string) => string;
  /** Takes ours out of the cache of whoever runs this; undefined: there must have been none before. */
  readonly clean: string | readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** A variable of this machine that moves the cache there: the policy names both. */
  readonly moved?: { readonly variable: string; readonly place: string };
}

/** In a project of its own: what is fetched for it goes through the cache. */
const project = `d=$(mktemp -d) && cd "$d" && echo '{"name":"here","private":true}' > package.json && touch yarn.lock && `;

const managers: readonly Manager[] = [
  {
    name: 'npm',
    cache: 'npm',
    program: 'npm',
    add: (name) => `npm cache add ./${name}.tgz`,
    use: (name) => `npm cache ls | grep -q ${name}`,
    clean: `npm cache clean pacote:tarball:file:ours-${id}.tgz`,
  },
  {
    name: 'npm, elsewhere',
    cache: 'npm',
    program: 'npm',
    isFor: 'long',
    add: (name) => `npm cache add ./${name}.tgz`,
    use: (name) => `npm cache ls | grep -q ${name}`,
    clean: [`.cache/moved-${id}`],
    moved: { variable: 'npm_config_cache', place: join(home, `.cache/moved-${id}`) },
  },
  {
    name: 'pip',
    cache: 'pip',
    program: 'pip',
    add: (name) => `pip wheel -q --no-index --no-deps --find-links . -w "$(mktemp -d)" ${name}`,
    use: (name) => `pip cache list | grep -q ${name.replace('-', '_')}`,
    clean: `pip cache remove -q 'ours_${id}*'`,
  },
  {
    name: 'maven',
    cache: 'maven',
    program: 'mvn',
    isFor: 'long',
    add: (name) => `mvn -q -N validate -f ${name}/pom.xml`,
    use: (name) => `mvn -o -q -N validate -f ${name}/pom.xml`,
    clean: `rm -rf ~/.m2/repository/squash/${id}`,
  },
  {
    name: 'pnpm',
    cache: 'pnpm',
    program: 'pnpm',
    isFor: 'long, fetched',
    add: (name) => `pnpm add ./${name}.tgz`,
    use: (name) => `grep -rq ${name} ~/.local/share/pnpm/store && ! test -e .pnpm-store`,
    clean: ['.local/share/pnpm/store', '.cache/pnpm'],
  },
  {
    name: 'yarn 1',
    cache: 'yarn',
    program: 'yarn',
    isFor: 'long, fetched',
    add: (name) => `t=$PWD/${name}.tgz; ${project}yarn add "file:$t"`,
    use: (name) => `yarn cache list --pattern ${name} | grep -q '^${name} '`,
    clean: ['.cache/yarn'],
  },
  {
    name: 'yarn 4',
    cache: 'yarn',
    program: 'berry',
    isFor: 'long, fetched',
    add: (name) => `t=$PWD/${name}.tgz; ${project}berry add "${name}@file:$t"`,
    use: (name) => `ls "$(berry config get globalFolder)/cache" | grep -q ${name}`,
    clean: ['.yarn/berry'],
    env: { YARN_ENABLE_TELEMETRY: '0' },
  },
  {
    name: 'cargo',
    cache: 'cargo',
    program: 'cargo',
    isFor: 'long, fetched',
    add: (name) => `cd crates/needs-${name} && cargo fetch`,
    use: (name) => `cd crates/needs-${name} && cargo fetch --offline`,
    clean: ['.cargo/git', '.cargo/registry'],
  },
  {
    name: 'go',
    cache: 'go',
    program: 'go',
    isFor: 'long, fetched',
    add: (name) =>
      `cd modules/needs && GOPROXY=file://$PWD/../proxy go mod download example.com/${name}@v1.0.0`,
    use: (name) => `cd modules/needs && GOPROXY=off go mod download example.com/${name}@v1.0.0`,
    clean: ['go/pkg/mod', '.cache/go-build'],
    env: { GOFLAGS: '-modcacherw', GONOSUMDB: '*', GONOSUMCHECK: '1', GOTOOLCHAIN: 'local' },
  },
];

const movedBy = ({ moved }: Manager): Readonly<Record<string, string>> =>
  moved === undefined ? {} : { [moved.variable]: moved.place };

function policyOf({ cache, moved }: Manager, mode: string): object {
  if (moved === undefined) return { version: 1, caches: { [cache]: mode } };
  const { variable, place } = moved;
  return { version: 1, env: { pass: [variable] }, fs: mode === 'cow' ? { [place]: 'cow' } : {} };
}

/** What the managers are asked for: `ours` by this machine, `boxes` by a box. */
const makePackages = `import io, json, os, subprocess, sys, tarfile, zipfile

def tar(path, files):
    with tarfile.open(path, 'w:gz') as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))

def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as file:
        file.write(text)

BACKEND = '''import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = '%(n)s-1.0-py3-none-any.whl'
    with zipfile.ZipFile(directory + '/' + name, 'w') as wheel:
        wheel.writestr('%(n)s-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\\\nName: %(n)s\\\\nVersion: 1.0\\\\n')
        wheel.writestr('%(n)s-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\\\nRoot-Is-Purelib: true\\\\nTag: py3-none-any\\\\n')
        wheel.writestr('%(n)s-1.0.dist-info/RECORD', '')
    return name
'''
POM = '<project><modelVersion>4.0.0</modelVersion>%s<packaging>pom</packaging>%s</project>'
GAV = '<groupId>squash.%s</groupId><artifactId>%s</artifactId><version>1</version>'
HERE = '<repositories><repository><id>here</id><url>file://%s/repo</url></repository></repositories>' % os.getcwd()

id = sys.argv[1]
for name in ('ours-' + id, 'boxes-' + id):
    tar(name + '.tgz', {'package/package.json': json.dumps({'name': name, 'version': '1.0.0'}), 'package/index.js': '// ' + name})
    tar(name + '-1.0.tar.gz', {
        name + '-1.0/PKG-INFO': 'Metadata-Version: 2.1\\nName: %s\\nVersion: 1.0\\n' % name,
        name + '-1.0/pyproject.toml': '[build-system]\\nrequires = []\\nbuild-backend = "backend"\\nbackend-path = ["."]\\n',
        name + '-1.0/backend.py': BACKEND % {'n': name.replace('-', '_')},
    })
    put('repo/squash/%s/%s/1/%s-1.pom' % (id, name, name), POM % (GAV % (id, name), ''))
    parent = '<parent>%s<relativePath/></parent><artifactId>child</artifactId>' % (GAV % (id, name))
    put(name + '/pom.xml', POM % (parent, HERE))
    crate = os.path.join(os.getcwd(), 'crates', name)
    put(crate + '/Cargo.toml', '[package]\\nname = "%s"\\nversion = "1.0.0"\\n' % name)
    put(crate + '/src/lib.rs', '')
    for words in (['init', '-q'], ['add', '.'], ['-c', 'user.name=x', '-c', 'user.email=x@example.com', 'commit', '-qm', 'x']):
        subprocess.run(['git', '-C', crate, *words], check=True)
    needs = '[package]\\nname = "needs"\\nversion = "1.0.0"\\n[dependencies]\\n"%s" = { git = "file://%s" }\\n' % (name, crate)
    put('crates/needs-%s/Cargo.toml' % name, needs)
    put('crates/needs-%s/src/lib.rs' % name, '')
    versions = 'modules/proxy/example.com/%s/@v/' % name
    put(versions + 'list', 'v1.0.0\\n')
    put(versions + 'v1.0.0.info', '{"Version":"v1.0.0"}')
    put(versions + 'v1.0.0.mod', 'module example.com/%s\\n' % name)
    with zipfile.ZipFile(versions + 'v1.0.0.zip', 'w') as module:
        module.writestr('example.com/%s@v1.0.0/go.mod' % name, 'module example.com/%s\\n' % name)
put('modules/needs/go.mod', 'module example.com/needs\\n')
`;

describe('caches of package managers in a box', {
  skip: isRoot ? 'only an ordinary user has boxes' : false,
}, () => {
  let data: string;
  let work: string;
  let repository: string;
  let env: Record<string, string>;

  before(() => {
    data = join(mkdtempSync(join(tmpdir(), ownedPrefix('box'))), 'data');
    work = mkdtempSync(join(home, 'squash-box-test-'));
    repository = join(work, 'project');
    mkdirSync(repository);
    execFileSync('git', ['init', '-q', repository]);
    writeFileSync(join(repository, 'make.py'), makePackages);
    writeFileSync(join(repository, 'package.json'), '{"name":"here","private":true}');
    execFileSync('python3', ['make.py', id], { cwd: repository });
    env = {
      SQUASH_BOX_DATA: data,
      SQUASH_DATA: join(data, 'none'),
      SQUASH_IDLE_EXIT_S: '2',
      SQUASH_MEMORY_RESERVE_MB: '0',
      HOME: home,
      PATH: [...(isLong ? fetchedPrograms() : []), process.env['PATH']].join(delimiter),
    };
  });

  after(async () => {
    rmSync(work, { recursive: true, force: true });
    await removeAbandoned(join(data, '..'));
  });

  /** On this machine, as a person would. */
  const here = (manager: Manager, text: string) =>
    spawnSync('bash', ['-c', text], {
      cwd: repository,
      env: { ...process.env, ...env, ...manager.env, ...movedBy(manager), TMPDIR: work },
      encoding: 'utf8',
    });

  /** @returns what the steps ended with, `ours:0 boxes:1` */
  const inBox = async (manager: Manager, mode: string, steps: Readonly<Record<string, string>>) => {
    const policy = join(work, `${manager.name}-${mode}.json`);
    writeFileSync(policy, JSON.stringify(policyOf(manager, mode)));
    const text = Object.entries(steps).map(([name, step]) => `(${step}) >&2; s=$?; echo ${name}:$((s > 0))`);
    const variables = Object.entries(manager.env ?? {}).flatMap(([name, value]) => [
      '-e',
      `${name}=${value}`,
    ]);
    const tools = manager.isFor === 'long, fetched' ? ['--ro', fetched] : [];
    const words = ['box', 'run', '--rm', '--policy', policy, ...tools, ...variables];
    const end = await squash(undefined, [...words, '--', 'bash', '-c', text.join('\n')], {
      cwd: repository,
      env: { ...env, ...movedBy(manager) },
    });
    assert.equal(end.code, 0, end.stderr);
    return { said: end.stdout.toString().trim().split('\n').join(' '), errors: end.stderr };
  };

  const [ours, boxes] = [`ours-${id}`, `boxes-${id}`];

  describe('each', { concurrency: 2 }, () => {
    for (const manager of managers) {
      const { name, program, clean, add, use } = manager;
      const run = async (): Promise<void> => {
        const added = here(manager, add(ours));
        assert.equal(added.status, 0, added.stderr + added.stdout);
        assert.equal(here(manager, use(ours)).status, 0, 'this machine’s cache has it');

        const shared = await inBox(manager, 'cow', { ours: use(ours), add: add(boxes), boxes: use(boxes) });
        assert.equal(shared.said, 'ours:0 add:0 boxes:0', shared.errors);
        assert.doesNotMatch(shared.errors, /^squash:/m);
        const next = await inBox(manager, 'cow', { boxes: use(boxes) });
        assert.equal(next.said, 'boxes:1', next.errors);

        const own = await inBox(manager, 'private', { ours: use(ours), add: add(boxes), boxes: use(boxes) });
        assert.equal(own.said, 'ours:1 add:0 boxes:0', own.errors);
        assert.notEqual(here(manager, use(boxes)).status, 0, 'nothing of a box is in this machine’s cache');
      };
      if (manager.isFor !== undefined && !isLong) continue;
      it(`${name}: what a box adds is its own; it sees this machine’s with cow, and nothing of it with private`, async (t) => {
        if (spawnSync('sh', ['-c', `command -v ${program}`], { env }).status !== 0)
          return t.skip(`this machine has no ${program}`);
        const places = typeof clean === 'string' ? [] : clean.map((path) => join(home, path));
        if (places.some((path) => existsSync(path)))
          return t.skip(`whoever runs this has a cache of ${name}`);
        try {
          await run();
        } finally {
          if (typeof clean === 'string') here(manager, clean);
          for (const path of places) rmSync(path, { recursive: true, force: true });
        }
        return undefined;
      });
    }
  });

  it('leaves nothing behind', async () => {
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 60_000);
    await expectNoLeaks(data);
  });
});

/** Directories for PATH. None where they can't be fetched. */
function fetchedPrograms(): readonly string[] {
  const place = fetched;
  const bin = join(place, 'bin');
  if (!existsSync(join(bin, 'go'))) {
    const text = `set -e; mkdir -p ${place}/bin ${place}/deb; cd ${place}
      npm install --silent --no-audit --no-fund --prefix . pnpm@10 yarn@1 @yarnpkg/cli-dist@4
      ln -sf ../node_modules/pnpm/bin/pnpm.cjs bin/pnpm
      ln -sf ../node_modules/yarn/bin/yarn.js bin/yarn
      ln -sf ../node_modules/@yarnpkg/cli-dist/bin/yarn.js bin/berry; chmod +x node_modules/@yarnpkg/cli-dist/bin/yarn.js
      cd deb; apt-get download -q cargo rustc libstd-rust-1.63 libllvm14 libedit2 libbsd0 libz3-4 libxml2 golang-1.19-go golang-1.19-src libgit2-1.5 libssh2-1 libhttp-parser2.9 libmbedtls14 libmbedcrypto7 libmbedx509-1
      for file in *.deb; do dpkg-deb -x $file .; rm $file; done
      for program in cargo rustc; do
        printf '#!/bin/sh\\nLD_LIBRARY_PATH=${place}/deb/usr/lib/x86_64-linux-gnu exec ${place}/deb/usr/bin/%s "$@"\\n' $program > ../bin/$program
        chmod +x ../bin/$program
      done
      ln -sf ../deb/usr/lib/go-1.19/bin/go ../bin/go`;
    const { NODE_EXTRA_CA_CERTS: named } = process.env;
    const authorities = named ?? '/etc/ssl/certs/ca-certificates.crt';
    spawnSync('bash', ['-c', text], {
      env: { ...process.env, NODE_EXTRA_CA_CERTS: authorities },
      timeout: 180_000,
    });
  }
  return existsSync(bin) && readdirSync(bin).length > 0 ? [bin] : [];
}
