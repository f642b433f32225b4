/**
 * A child process of this program: an empty environment, an empty standard input, one socket for the protocol, and Node's permission
 * model, which leaves it neither files (but its own program), nor processes, nor threads. It dies with its parent.
 *
 * Around it are namespaces and a filter of system calls where the machine allows (`confinement.ts`). Where it does not, whoever leaves the
 * engine has a process of this user with a network.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import type { Duplex, Readable, Writable } from 'node:stream';
import { CodemodeError } from '../errors.ts';
import { bindFlags, type Confinement, confinementState } from './confinement.ts';
import type { Exit, Place, PlacedWorker } from './place.ts';
import { isStackWide, prlimit, wideStackBytes } from './programs.ts';

export interface ChildCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** `fd3`: a socket pair at descriptor 3. `stdio`: standard input and output. */
  readonly channel: 'fd3' | 'stdio';
  /** What it has to read of this machine's files beside its program. */
  readonly files: readonly string[];
}

/** Enough to see why an engine ended. */
const diagnosticsBytesMax = 16_384;

/** util-linux, on every Debian: without them the child still dies with us, when its socket ends. */
const setpriv = ['/usr/bin/setpriv', '/bin/setpriv'].find((path) => existsSync(path));

/** No core files; no more descriptors than Node itself needs; a stack for the calls of QuickJS, which are Node's own. */
const stackLimit = isStackWide ? [`--stack=${wideStackBytes}`] : [];
const wrapper = [
  ...(setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL', '--no-new-privs', '--']),
  ...(prlimit === undefined ? [] : [prlimit, '--core=0', '--nofile=256', ...stackLimit, '--']),
];

/** @throws where it is refused by the machine, at `start()` */
export function childPlace(command: ChildCommand): Place {
  // Found out while the program that makes an executor does other things.
  const found = confinementState();
  return {
    async start() {
      const state = await found;
      return state.usable ? startConfined(command, state.confinement) : startChild(command);
    },
  };
}

export function startChild(command: ChildCommand): PlacedWorker {
  const [program = '', ...args] = [...wrapper, command.program, ...command.args];
  const child = spawn(program, args, {
    env: command.env,
    cwd: '/',
    stdio: command.channel === 'fd3' ? ['ignore', 'ignore', 'pipe', 'pipe'] : ['pipe', 'pipe', 'pipe'],
  });
  return placeChild(child, command.channel);
}

/** The process that is started is bubblewrap's, which waits for the engine's and ends with it; what is measured and limited is the engine's. */
export function startConfined(command: ChildCommand, { program, args, filter }: Confinement): PlacedWorker {
  const own = [...args, '--info-fd', '4', ...(filter === undefined ? [] : ['--seccomp', '5'])];
  const [first = '', ...words] = [
    ...wrapper,
    program,
    ...own,
    ...bindFlags(command.files),
    '--',
    command.program,
    ...command.args,
  ];
  const child = spawn(first, words, {
    env: command.env,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe', filter === undefined ? 'ignore' : 'pipe'],
  });
  let enginePid: number | undefined;
  let isUnwanted = false;
  const kill = () => {
    isUnwanted = true;
    // Not bubblewrap before it has told of its child: that waits for a word of bubblewrap's, and would wait for ever.
    if (enginePid === undefined) return;
    // The first process of its namespace: with it goes all that is in there.
    if (child.pid !== undefined && parentOf(enginePid) === child.pid) process.kill(enginePid, 'SIGKILL');
    child.kill('SIGKILL');
  };
  let told = '';
  (child.stdio[4] as Readable).on('data', (text: Buffer) => {
    told += text.toString();
    enginePid ??= Number(/"child-pid": (\d+)/.exec(told)?.[1] ?? Number.NaN) || undefined;
    if (isUnwanted) kill();
  });
  // A child that did not start says so by its exit.
  ((child.stdio as readonly unknown[])[5] as Writable | null)?.on('error', () => {}).end(filter);
  return { ...placeChild(child, command.channel, () => enginePid), kill };
}

/** @param pidOf the engine's process, where that is not the child itself; undefined while it is not known */
export function placeChild(
  child: ChildProcess,
  channel: ChildCommand['channel'],
  pidOf: () => number | undefined = () => child.pid,
): PlacedWorker {
  const socket = child.stdio[3] as Duplex | null | undefined;
  const input = (channel === 'fd3' ? socket : child.stdin) as Writable;
  const output = (channel === 'fd3' ? socket : child.stdout) as Readable;
  const tail = tailOf(child.stderr);
  return {
    input,
    output,
    kill: () => void child.kill('SIGKILL'),
    exited: exitOf(child, tail),
    diagnostics: tail,
    cpuMs() {
      const pid = pidOf();
      return pid === undefined ? undefined : processorMs(pid);
    },
    limitMemory: (moreMb) => limitData(child, pidOf(), moreMb),
    hold(held) {
      for (const handle of [child, ...child.stdio]) setHeld(handle, held);
    },
  };
}

function setHeld(handle: unknown, held: boolean): void {
  const one = handle as { ref?(): void; unref?(): void; readonly destroyed?: boolean } | null;
  // What has ended holds nothing; Node would keep a listener for each time it is asked.
  if (one?.destroyed === true) return;
  if (held) one?.ref?.();
  else one?.unref?.();
}

/** Drained always, so that a talkative engine never stalls. */
function tailOf(stream: Readable | null): () => string {
  let tail = '';
  stream?.setEncoding('utf8');
  stream?.on('data', (text: string) => {
    tail = `${tail}${text}`.slice(-diagnosticsBytesMax);
  });
  return () => tail;
}

/** How V8, Rust's and C++'s allocators, and the C library say it. */
const memoryEnded =
  /out of memory|allocation failed|memory allocation of \d+ bytes failed|cannot allocate memory|is_heap_oom|bad_alloc|Last few GCs/i;
/** Every abort that has another reason says it. */
const reasonGiven = /fatal|assert|check failed|panic|terminate called/i;

/**
 * At its limit of data an engine's `operator new`, which has no exceptions to throw, aborts without a word. Below
 * bubblewrap the engine is the first process of its namespace, which no signal of its own ends: there `abort()` falls back
 * on an instruction that faults, and 139 is told: as for any other fault, from which it can't be told there.
 */
function endedForMemory(code: number | null, signal: string | null, said: string): boolean {
  const isAbort = signal === 'SIGABRT' || code === 139;
  return memoryEnded.test(said) || (isAbort && !reasonGiven.test(said));
}

function exitOf(child: ChildProcess, tail: () => string): Promise<Exit> {
  return new Promise((settle) => {
    child.once('error', (error) => settle({ code: null, signal: error.message, outOfMemory: false }));
    // `close`, not `exit`: then standard error has been read to its end.
    child.once('close', (code, signal) => {
      settle({
        code,
        signal,
        outOfMemory: endedForMemory(code, signal, tail()),
      });
    });
  });
}

/** Fields 14 and 15 of /proc/PID/stat, in the hundredths of a second that Linux counts in. */
export function processorMs(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return undefined;
  }
}

/**
 * RLIMIT_DATA, counted from what the process has mapped now: engines reserve gigabytes that they never touch, so no fixed number
 * would do. It covers typed arrays and WebAssembly, which V8's own limit does not.
 */
async function limitData(child: ChildProcess, pid: number | undefined, moreMb: number): Promise<void> {
  const program = prlimit;
  if (program === undefined || pid === undefined) return;
  const mapped = dataBytes(pid);
  if (mapped === undefined) return;
  const bytes = mapped + moreMb * 1_048_576;
  await new Promise<void>((settle, reject) => {
    // Neither the child nor, below bubblewrap, the engine is reaped yet, so its number can't have become another's.
    execFile(program, ['--pid', `${pid}`, `--data=${bytes}`], (error) => {
      if (error === null || child.exitCode !== null || child.signalCode !== null) settle();
      else reject(new CodemodeError('unavailable', `the memory limit can not be set: ${error.message}`));
    });
  });
}

/** Undefined where there is no such process. */
function parentOf(pid: number): number | undefined {
  try {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);
  } catch {
    return undefined;
  }
}

function dataBytes(pid: number): number | undefined {
  try {
    const line = /^VmData:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
    return line === null ? undefined : Number(line[1]) * 1024;
  } catch {
    return undefined;
  }
}
