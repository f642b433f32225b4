/**
 * workerd with `dynamic-worker.ts` in it, on a socket of its own. There is nothing smaller that the other package's executor runs in: it needs the runtime's
 * loader of Workers.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { build } from 'esbuild';
import { lastLine } from '../measure/process.ts';
import { fetchPackages } from '../peers/npm-packages.ts';

export const workerdVersion = '1.20261117.1';
const startMsMax = 20_000;

export interface WorkerdPlace {
  readonly program: string;
  readonly folder: string;
}

export interface Workerd extends AsyncDisposable {
  /** One run. */
  execute(code: string): Promise<{ readonly result?: unknown; readonly error?: string }>;
}

/** @throws where the binary can not be fetched for this machine */
export async function prepareWorkerd(cacheDir: string, folder: string): Promise<WorkerdPlace> {
  const machine = process.arch === 'x64' ? '64' : process.arch;
  const name = `@cloudflare/workerd-linux-${machine}`;
  const fetched = await fetchPackages(cacheDir, `workerd-${workerdVersion}`, [`${name}@${workerdVersion}`]);
  await build({
    entryPoints: [join(import.meta.dirname, 'dynamic-worker.ts')],
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    external: ['cloudflare:*'],
    outfile: join(folder, 'worker.js'),
  });
  return { program: join(fetched, 'node_modules', name, 'bin/workerd'), folder };
}

let number = 0;

/** Resolves when it has answered. */
export async function startWorkerd({ program, folder }: WorkerdPlace): Promise<Workerd> {
  number += 1;
  const socketPath = join(folder, `${number}.sock`);
  const config = join(folder, `${number}.capnp`);
  await writeFile(config, configOf(socketPath));
  const child = spawn(program, ['serve', config, '--experimental'], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(child, 'exit');
  let said = '';
  child.stderr.on('data', (part: Buffer) => (said = `${said}${part.toString()}`.slice(-4096)));
  const agent = new Agent({ keepAlive: true });
  const workerd: Workerd = {
    execute: async (code) => await post({ agent, socketPath, code }),
    async [Symbol.asyncDispose]() {
      agent.destroy();
      child.kill('SIGKILL');
      await ended;
    },
  };
  const deadline = performance.now() + startMsMax;
  for (;;) {
    try {
      await workerd.execute('async () => 1');
      return workerd;
    } catch (failure) {
      if (child.exitCode === null && performance.now() < deadline) {
        await sleep(2);
        continue;
      }
      await workerd[Symbol.asyncDispose]();
      throw new Error(`workerd ${workerdVersion} does not answer: ${lastLine(said) || String(failure)}`, {
        cause: failure,
      });
    }
  }
}

function configOf(socketPath: string): string {
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main)],
  sockets = [(name = "http", address = "unix:${socketPath}", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "main", esModule = embed "worker.js")],
  compatibilityDate = "2025-06-01",
  compatibilityFlags = ["nodejs_compat"],
  bindings = [(name = "LOADER", workerLoader = ())],
);
`;
}

interface Posted {
  readonly agent: Agent;
  readonly socketPath: string;
  readonly code: string;
}

async function post({ agent, socketPath, code }: Posted): Promise<Awaited<ReturnType<Workerd['execute']>>> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  request({ agent, socketPath, method: 'POST', path: '/' }, (answer) => {
    readText(answer).then(resolve, reject);
  })
    .on('error', reject)
    .end(code);
  return JSON.parse(await promise) as Awaited<ReturnType<Workerd['execute']>>;
}
