/**
 * What set-up fetches: the libraries that a user needs, all of them for development, and without npm on the machine.
 * The registry is one of the test's own, npm a program that writes down its words.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '../..');
const lock = {
  packages: {
    '': {},
    'node_modules/zod': { version: '4.0.0' },
    'node_modules/typescript': { version: '7.0.0', dev: true },
    'tests/clients/node_modules/typescript': { version: '5.9.3', dev: true },
  },
};
/** Does to the folder what `npm ci` does, as far as set-up can see. */
const npm = `
const { appendFileSync, mkdirSync, rmSync, writeFileSync } = require('node:fs');
const words = process.argv.slice(2);
appendFileSync('npm.log', words.join(' ') + '\\n');
const { packages } = JSON.parse(require('node:fs').readFileSync('package-lock.json', 'utf8'));
for (const path of ['node_modules', 'tests']) rmSync(path, { recursive: true, force: true });
const kept = Object.entries(packages).filter(([, { dev }]) => !dev || !words.includes('--omit=dev'));
for (const [path] of kept) mkdirSync(path === '' ? 'node_modules' : path, { recursive: true });
writeFileSync('node_modules/.package-lock.json', JSON.stringify({ packages: Object.fromEntries(kept) }));
`;

class Project implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'squash-libraries-'));
  readonly #tools = join(this.folder, 'bin');

  constructor() {
    cpSync(join(root, 'tools/setup'), join(this.folder, 'tools/setup'), { recursive: true });
    mkdirSync(join(this.folder, 'packaging'));
    writeFileSync(join(this.folder, 'packaging/packages.json'), '{"packages":[]}');
    writeFileSync(join(this.folder, 'package.json'), '{}');
    this.writeLock(lock);
    mkdirSync(this.#tools);
    for (const name of readdirSync('/usr/bin')) {
      if (!['node', 'nodejs', 'npm', 'npx', 'sudo'].includes(name)) {
        symlinkSync(join('/usr/bin', name), join(this.#tools, name));
      }
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true });
  }

  writeLock(content: unknown): void {
    const path = join(this.folder, 'package-lock.json');
    writeFileSync(path, JSON.stringify(content));
    // The install is compared with it by time, in whole steps of the file system's clock.
    const later = new Date(Date.now() + 2_000);
    if (existsSync(join(this.folder, 'node_modules'))) utimesSync(path, later, later);
  }

  /** A machine's own npm, and this Node. */
  addNpm(): void {
    const program = join(this.#tools, 'npm');
    writeFileSync(program, `#!${process.execPath}\n${npm}`);
    chmodSync(program, 0o755);
    symlinkSync(process.execPath, join(this.#tools, 'node'));
  }

  /** @throws with its messages when it fails */
  async setUp(phases: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
    const { stderr } = await promisify(execFile)(join(this.folder, 'tools/setup/setup.sh'), phases, {
      env: { HOME: '/nonexistent', PATH: this.#tools, ...env },
    });
    return stderr;
  }

  /** The calls of npm since the last time. */
  calls(): string {
    const path = join(this.folder, 'npm.log');
    appendFileSync(path, '');
    const text = readFileSync(path, 'utf8');
    rmSync(path);
    return text.replaceAll(' --no-audit --no-fund --loglevel=error', '');
  }
}

test('set-up leaves the libraries of development out, brings them for tests, and then keeps them', async () => {
  using project = new Project();
  project.addNpm();
  await project.setUp([]);
  assert.equal(project.calls(), 'ci --omit=dev\n');
  await project.setUp(['run', 'layers']);
  assert.equal(project.calls(), '', 'a second time');
  await project.setUp(['test']);
  assert.equal(project.calls(), 'ci\n');
  await project.setUp([]);
  await project.setUp(['bench']);
  assert.equal(project.calls(), '', 'there and back');
  project.writeLock({
    packages: { ...lock.packages, 'tests/clients/node_modules/typescript': { version: '6.0.0', dev: true } },
  });
  await project.setUp([]);
  assert.equal(project.calls(), 'ci\n', 'a library of development has another version');
});

test('a lock file that is newer and says the same has nothing installed', async () => {
  using project = new Project();
  project.addNpm();
  await project.setUp([]);
  project.writeLock({ ...lock });
  project.calls();
  await project.setUp([]);
  assert.equal(project.calls(), '');
  rmSync(join(project.folder, 'node_modules/zod'), { recursive: true });
  project.writeLock({ ...lock });
  await project.setUp([]);
  assert.equal(project.calls(), 'ci --omit=dev\n', 'a library is gone');
});

/** A registry with the packages of these names, each with one file; their digests. */
async function serveRegistry(scratch: string, packages: Readonly<Record<string, readonly [string, string]>>) {
  const archives = Object.entries(packages).map(([name, [path, text]]) => {
    const file = join(scratch, name, 'package', path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text, { mode: 0o755 });
    writeFileSync(join(scratch, name, 'package/LICENSE'), 'free\n');
    const bytes = execFileSync('tar', ['-cz', '-C', join(scratch, name), 'package']);
    return { name, bytes, digest: createHash('sha512').update(bytes).digest('hex') };
  });
  const server = createServer((request, response) => {
    const found = archives.find(({ name }) => request.url?.startsWith(`/${name}/-/${name}-`) === true);
    response.writeHead(found === undefined ? 404 : 200).end(found?.bytes);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    digests: archives.map(({ digest }) => digest),
    [Symbol.asyncDispose]: async () => {
      server.close().closeAllConnections();
      await once(server, 'close');
    },
  };
}

const skip = existsSync('/usr/lib/apt/apt-helper') ? false : 'needs apt';

test('without npm on the machine set-up fetches Node and npm itself, and what it fetches is checked', {
  skip,
}, async () => {
  using project = new Project();
  const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
  await using registry = await serveRegistry(join(project.folder, 'registry'), {
    [`node-linux-${architecture}`]: ['bin/node', `#!/bin/sh\nexec ${process.execPath} "$@"\n`],
    npm: ['bin/npm-cli.js', npm],
  });
  const env = { npm_config_registry: registry.url };
  await assert.rejects(
    project.setUp([], env),
    /node-linux-\w+@24\S+ does not have the digest written in tools\/setup\/setup\.sh/,
  );
  const script = join(project.folder, 'tools/setup/setup.sh');
  const [nodeDigest = '', npmDigest = ''] = registry.digests;
  const text = readFileSync(script, 'utf8').replace(/^(node_digest_\w+)=.*$/gm, `$1=${nodeDigest}`);
  writeFileSync(script, text);
  await assert.rejects(project.setUp([], env), /npm@\S+ does not have the digest/);
  assert.deepEqual(readdirSync(join(project.folder, '.cache')).sort(), ['node', 'node-path', 'setup.lock']);
  writeFileSync(script, text.replace(/^npm_digest=.*$/m, `npm_digest=${npmDigest}`));
  await project.setUp([], env);
  assert.equal(project.calls(), 'ci --omit=dev\n');
  assert.match(readFileSync(join(project.folder, '.cache/node-path'), 'utf8'), /^\.cache\/node\/24/);
});
