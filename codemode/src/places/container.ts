/**
 * A container of podman or docker: no network, no capability, a read-only root with one Node in it, limits of the kernel on memory, processes
 * and CPU. One worker is one container; the engine inside is still an engine with a kernel of its own.
 */
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { CodemodeError } from '../errors.ts';
import type { EngineName } from '../protocol/frames.ts';
import { placeChild, processorMs } from './child.ts';
import { ensureImage } from './container-image.ts';
import { killedCode, type Place, type PlacedWorker } from './place.ts';
import { isStackWide, nodeFlags, wideStackBytes } from './programs.ts';
import { withRemoval } from './removal.ts';
import { makeScratchDirectory, startOf } from './scratch-directory.ts';
import { programInside } from './worker-tree.ts';

const run = promisify(execFile);

export interface ContainerOptions {
  readonly engine: EngineName;
  readonly memoryMb: number;
}

/** Containers of a host program that is gone have nobody who would end them. */
const ownerLabel = 'squash.codemode.owner';

/** Node and the engine before any code. */
const ownMb = 192;

export function findContainerProgram(): string {
  const folders = (process.env['PATH'] ?? '/usr/bin').split(':');
  for (const name of ['podman', 'docker']) {
    const found = folders.map((folder) => `${folder}/${name}`).find((path) => existsSync(path));
    if (found !== undefined) return found;
  }
  throw new CodemodeError('unavailable', 'neither podman nor docker is installed');
}

export function containerPlace(options: ContainerOptions): Place {
  const program = findContainerProgram();
  let image: Promise<string> | undefined;
  // podman's monitor leaves a file where it was started when a container runs out of memory.
  let directory: string | undefined;
  return {
    async start() {
      image ??= removeOrphans(program).then(() => ensureImage(program, options.engine));
      directory ??= makeScratchDirectory('container');
      return await startContainer({ program, image: await image, directory }, options);
    },
    async dispose() {
      if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
    },
  };
}

interface Ground {
  readonly program: string;
  readonly image: string;
  readonly directory: string;
}

async function startContainer(
  { program, image, directory }: Ground,
  { engine, memoryMb }: ContainerOptions,
): Promise<PlacedWorker> {
  const name = `codemode-${randomBytes(8).toString('hex')}`;
  const flags = [
    'run',
    '-i',
    '--name',
    name,
    '--label',
    `${ownerLabel}=${ownerOf(process.pid)}`,
    '--pull=never',
    '--network=none',
    '--read-only',
    '--cap-drop=ALL',
    '--security-opt=no-new-privileges',
    '--user=65534:65534',
    '--pids-limit=64',
    `--memory=${memoryMb + ownMb}m`,
    `--memory-swap=${memoryMb + ownMb}m`,
    '--cpus=2',
    ...(isStackWide ? [`--ulimit=stack=${wideStackBytes}:${wideStackBytes}`] : []),
    '--log-driver=none',
    '--env=TZ=UTC',
    '--workdir=/',
    '--hostname=codemode',
    '--ipc=private',
    ...podmanFlags(program),
  ];
  const command = [
    '/usr/bin/node',
    ...nodeFlags(engine, memoryMb, isStackWide),
    '--permission',
    '--allow-fs-read=/codemode/',
    ...addonFlags(engine),
    programInside,
    'stdio',
  ];
  const child = spawn(program, [...flags, image, ...command], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    cwd: directory,
  });
  const placed = withRemoval(placeChild(child, 'stdio'), {
    // By us alone: the engine's own `--rm` beside it leaves a container that is half removed.
    remove: async () => (await run(program, ['rm', '--force', ...atOnce(program), name])).stdout !== '',
    endedForMemory: (exit) => exit.code === killedCode,
  });
  let pid: number | undefined;
  return {
    ...placed,
    cpuMs: () => (pid === undefined ? undefined : processorMs(pid)),
    async limitMemory() {
      // The container has its limit; here is when its process has a number.
      pid = await hostPid(program, name);
    },
  };
}

/** podman asks politely first, and waits ten seconds for an answer; docker does not. */
function atOnce(program: string): readonly string[] {
  return program.endsWith('podman') ? ['--time=0'] : [];
}

function addonFlags(engine: EngineName): readonly string[] {
  return engine === 'isolated-vm' ? ['--allow-addons', '--allow-fs-read=/etc/alpine-release'] : [];
}

/** runc also works where crun refuses the layout of the control groups; the ulimits are below what a container may be given itself. */
function podmanFlags(program: string): readonly string[] {
  if (!program.endsWith('podman')) return [];
  const runc = ['/usr/sbin/runc', '/usr/bin/runc'].find((path) => existsSync(path));
  return [
    ...(runc === undefined ? [] : [`--runtime=${runc}`]),
    '--ulimit=nofile=1024:4096',
    '--ulimit=nproc=1000:1000',
    '--ulimit=core=0:0',
    '--no-hosts',
    // It would hand down the host's proxies, and what they are to be told.
    '--http-proxy=false',
  ];
}

/** The container's first process as this machine numbers it; unknown where the engine runs elsewhere. */
async function hostPid(program: string, name: string): Promise<number | undefined> {
  try {
    const { stdout } = await run(program, ['inspect', '--format', '{{.State.Pid}}', name]);
    const pid = Number(stdout.trim());
    return pid > 1 && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(programInside)
      ? pid
      : undefined;
  } catch {
    return undefined;
  }
}

/** A number alone may be another program's by now: with the moment it started it is not. */
function ownerOf(pid: number): string | undefined {
  const start = startOf(pid);
  return start === undefined ? undefined : `${pid}-${start}`;
}

async function removeOrphans(program: string): Promise<void> {
  const { stdout } = await run(program, ['ps', '--all', '--quiet', '--filter', `label=${ownerLabel}`]).catch(
    (cause: unknown) => {
      throw new CodemodeError('unavailable', `${program} does not answer`, { cause });
    },
  );
  for (const id of stdout.split('\n').filter((line) => line !== '')) {
    const format = `{{index .Config.Labels "${ownerLabel}"}}`;
    // One that ended since it was listed can't be looked at, and need not be.
    const owner = await run(program, ['inspect', '--format', format, id]).then(
      (found) => found.stdout.trim(),
      () => undefined,
    );
    if (owner === undefined || ownerOf(Number(owner.split('-')[0])) === owner) continue;
    await run(program, ['rm', '--force', ...atOnce(program), id]).catch(() => {});
  }
}
