/**
 * A Squash sandbox: namespaces, seccomp and control groups around the engine, no network, and a layer that holds a Node and nothing else. One
 * worker is one sandbox. It is reached as everybody reaches one, through the command line and its daemon's exec stream.
 */
import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';
import { CodemodeError } from '../errors.ts';
import type { EngineName } from '../protocol/frames.ts';
import { placeChild } from './child.ts';
import { killedCode, type Place, type PlacedWorker } from './place.ts';
import { nodeFlags } from './programs.ts';
import { withRemoval } from './removal.ts';
import { digestOf, programInside, treeContents, withTree } from './worker-tree.ts';

const run = promisify(execFile);

export interface SandboxOptions {
  readonly engine: EngineName;
  readonly memoryMb: number;
  /** The command line: a program and its first words. */
  readonly squash: readonly [string, ...string[]];
}

/** Node and the engine before any code. */
const ownMb = 192;
/** A sandbox whose owner died without a word is destroyed by the daemon after this long. */
const lifetimeS = 3600;

export function sandboxPlace(options: SandboxOptions): Place {
  let module: Promise<string> | undefined;
  return {
    async start() {
      module ??= ensureModule(options);
      return await startSandbox(options, await module);
    },
  };
}

async function squash(
  [program, ...first]: SandboxOptions['squash'],
  words: readonly string[],
): Promise<string> {
  try {
    const { stdout } = await run(program, [...first, ...words], { maxBuffer: 64 * 1_048_576 });
    return stdout;
  } catch (cause) {
    const said = sentenceOf((cause as { readonly stderr?: string }).stderr) || String(cause);
    const sentence = `the Squash daemon gives no sandbox: ${said}; another executor needs none, such as quickjs`;
    throw new CodemodeError('unavailable', sentence, { cause });
  }
}

/** The last line: before it stand warnings. With `--json` it is an object. */
function sentenceOf(stderr = ''): string {
  const line = stderr.trim().split('\n').at(-1) ?? '';
  try {
    return (JSON.parse(line) as { readonly error: { readonly message: string } }).error.message;
  } catch {
    return line.replace(/^squash: /, '');
  }
}

/** The layer's name tells its content, so it is built once for each version of Node, engine and kernel. */
async function ensureModule({ squash: command, engine }: SandboxOptions): Promise<string> {
  const entries = await treeContents(engine);
  const name = `350-codemode-${digestOf(entries)}`;
  const names = (await squash(command, ['module', 'ls', '--quiet'])).split('\n');
  if (!names.includes(name))
    await withTree(entries, (root) => squash(command, ['module', 'build', 'from-dir', root, name]));
  return name;
}

async function startSandbox(
  { squash: command, engine, memoryMb }: SandboxOptions,
  module: string,
): Promise<PlacedWorker> {
  const limits = ['--memory', `${memoryMb + ownMb}`, '--lifetime', `${lifetimeS}`];
  // Whoever leaves the engine finds no network, and no placeholder that would be worth something on one.
  const network = ['--allow-net', 'none', '--secret', 'none'];
  const { id } = JSON.parse(
    await squash(command, [
      '--json',
      'create',
      '--layers',
      module,
      '--owner',
      'codemode',
      ...limits,
      ...network,
    ]),
  ) as { readonly id: string };
  const [program, ...first] = command;
  const node = ['/usr/bin/node', ...nodeFlags(engine, memoryMb, false), programInside, 'stdio'];
  const child = spawn(program, [...first, 'exec', '-e', 'TZ=UTC', id, '--', ...node], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  const client = placeChild(child, 'stdio');
  return {
    ...withRemoval(client, {
      async remove() {
        await squash(command, ['rm', '--force', id]);
        return true;
      },
      endedForMemory: (exit) => exit.code === killedCode || /oom_killed/.test(client.diagnostics()),
    }),
    // The sandbox's processes are not this machine's to look at: its engine counts.
    cpuMs: () => undefined,
    limitMemory: async () => {},
  };
}
