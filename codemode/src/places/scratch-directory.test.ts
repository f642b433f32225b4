/** What a killed program has left in the directory for temporary files goes with the next one; what is anybody else's stays. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Broker } from './deno.ts';
import { withTree } from './worker-tree.ts';

const sources = import.meta.dirname;
const needsRoot = process.getuid?.() === 0 ? false : 'needs root: gives itself another id';

/** Has a tree with a program in it, and a broker for Deno, until it is killed. */
const program = `
import { Broker } from ${JSON.stringify(join(sources, 'deno.ts'))};
import { withTree } from ${JSON.stringify(join(sources, 'worker-tree.ts'))};
await Broker.open(() => {});
void withTree([{ from: process.execPath, to: 'usr/bin/node' }], async () => {
  console.log('up');
  await new Promise((settle) => setTimeout(settle, 600_000));
});`;

async function builder(parent: string) {
  const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TMPDIR: parent },
  });
  await once(child.stdout, 'data');
  return {
    async [Symbol.asyncDispose]() {
      if (child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

test('what a killed program has left goes with the next one, and nothing that is another’s', async () => {
  const parent = mkdtempSync(join(tmpdir(), 'codemode-left-'));
  const before = process.env['TMPDIR'];
  try {
    await using killed = await builder(parent);
    const left = readdirSync(parent);
    assert.deepEqual(new Set(left.map((name) => name.split('-')[1])), new Set(['deno', 'image']));
    await using living = await builder(parent);
    const ofLiving = readdirSync(parent).filter((name) => !left.includes(name));
    await killed[Symbol.asyncDispose]();

    // Names that say that they were the killed one's.
    const victim = join(parent, 'victim');
    mkdirSync(victim);
    writeFileSync(join(victim, 'file'), '');
    const planted = left.map((name, i) => name.replace(/.{6}$/, `link0${i}`));
    for (const name of planted) symlinkSync(victim, join(parent, name));
    symlinkSync(victim, join(parent, left[0] ?? '', 'link'));
    const ofOthers = [left[0]?.replace(/\.\d+-[^-]*$/, '.1-space0') ?? ''];
    mkdirSync(join(parent, ofOthers[0] ?? ''));
    if (process.getuid?.() === 0) {
      const name = left[0]?.replace(/.{6}$/, 'uid000') ?? '';
      mkdirSync(join(parent, name));
      chownSync(join(parent, name), 65534, 65534);
      ofOthers.push(name);
    }

    process.env['TMPDIR'] = parent;
    const stay = ['victim', ...planted, ...ofOthers, ...ofLiving].sort();
    const own = await withTree([], async (root) => root);
    assert.ok(own.startsWith(parent));
    assert.deepEqual(readdirSync(parent).sort(), stay);
    assert.deepEqual(readdirSync(victim), ['file']);
    await living[Symbol.asyncDispose]();
    (await Broker.open(() => {})).close();
    assert.deepEqual(
      readdirSync(parent).sort(),
      stay.filter((name) => !ofLiving.includes(name)),
    );
  } finally {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
    rmSync(parent, { recursive: true });
  }
});

test('a directory that may not be looked through is one for temporary files all the same', {
  skip: needsRoot,
}, () => {
  const parent = mkdtempSync(join(tmpdir(), 'codemode-closed-'));
  try {
    chmodSync(parent, 0o1733);
    const tree = JSON.stringify(join(sources, 'worker-tree.ts'));
    const words = [
      '--no-warnings',
      '--input-type=module',
      '-e',
      `import { withTree } from ${tree}; await withTree([], async () => {});`,
    ];
    const nobody = ['--reuid=65534', '--regid=65534', '--clear-groups', '--', process.execPath];
    const env = { ...process.env, TMPDIR: parent };
    const { status, stderr } = spawnSync('setpriv', [...nobody, ...words], { env, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  } finally {
    rmSync(parent, { recursive: true });
  }
});
