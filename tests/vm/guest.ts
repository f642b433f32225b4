/**
 * A virtual machine with systemd and cgroup v2, booted for a test file: `await using vm = await bootGuest()`.
 *
 * It is emulated, so it needs no right and no CPU feature, and everything in it takes about ten times as long
 * as here: deadlines are wide and commands few. It has no network device. Writes go to a temporary overlay
 * that QEMU unlinks at once; a reboot keeps it, the end of the guest drops it.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { createConnection, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { type DiskContents, packDisks, type PackedDisks } from './disks.ts';
import { type GuestImage, guestImage } from './image.ts';

/** Minutes for what takes 15 s on an idle machine: on a busy one emulation gets a small part of a processor. */
const bootMsMax = 300_000;
const commandMsMax = 300_000;
/** What an error report shows of the console. */
const consoleCharactersMax = 6000;
const memoryMiB = 2048;
/** From `compiled.ts`, read-only. */
const settings = 'export NODE_COMPILE_CACHE=/opt/node/commands';

/** Its stdout is the guest's serial console. */
type Emulator = ChildProcessByStdio<null, Readable, null>;

export interface GuestResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type GuestUser = 'root' | 'alice' | 'bob';

export interface RunOptions {
  /** alice has subordinate ids, bob has none. */
  readonly user?: GuestUser;
  readonly timeoutMs?: number;
}

export interface GuestMachine extends AsyncDisposable {
  /** Changes at every boot of the guest. */
  readonly bootId: string;
  /** Runs a shell script; a non-zero exit is a result. @throws when no answer came in time */
  run(script: string, options?: RunOptions): Promise<GuestResult>;
  /** Runs a shell script that must succeed. @returns its stdout, trimmed */
  output(script: string, options?: RunOptions): Promise<string>;
  /** Runs the script until it succeeds. @throws with its last output at the deadline */
  until(script: string, options?: RunOptions): Promise<string>;
  /** An orderly reboot through systemd. Resolves when commands run again. */
  reboot(): Promise<void>;
  /**
   * The machine loses what only its memory held, at once and without being told: its own page cache. What it has given
   * to its disk stays, also without a flush. Whatever runs in it is answered with -1. Resolves when commands run again.
   */
  cutPower(): Promise<void>;
  /** Lines that programs in the guest wrote to `/dev/virtio-ports/squash.witness`, as they arrive. */
  readonly witnessed: readonly string[];
}

/** Boots a guest; `files` (name → path on this machine) appear in it as `/opt/squash/vm/<name>`. */
export async function bootGuest(contents: DiskContents = {}): Promise<GuestMachine> {
  const image = await guestImage();
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'squash-vm-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const disks = await packDisks(folder, contents);
  const emulator = startEmulator(folder, image, disks);
  stack.defer(() => endProcess(emulator));
  const [agent, witness, monitor] = await Promise.all(
    ['agent', 'witness', 'monitor'].map((name) => connectTo(join(folder, name), emulator)),
  );
  if (agent === undefined || witness === undefined || monitor === undefined) throw new Error('no channel');
  for (const channel of [agent, witness, monitor]) stack.defer(() => void channel.destroy());
  const guest = new Guest({ agent, witness, monitor }, emulator);
  await guest.booted();
  return guest.own(stack.move());
}

function startEmulator(folder: string, image: GuestImage, disks: PackedDisks): Emulator {
  const drive = (file: string, mode: string): string => `file=${file},if=virtio,format=raw,${mode}`;
  // no_timer_check: the kernel waits ten ticks for ten interrupts, which an emulator on a busy machine does not deliver in time.
  const boot =
    'console=ttyS0 quiet mitigations=off no_timer_check systemd.show_status=false rd.udev.log_level=3';
  const options: readonly (readonly [string, string])[] = [
    // One processor: with a thread of the emulator for each of two, Node's compiled code, which one writes while the other
    // runs, now and then ended Node in the guest ("Check failed", SIGSEGV), and never on the machine itself. Two that take
    // turns on one thread wait for each other.
    ['accel', 'tcg,thread=single'],
    ['cpu', 'Nehalem'],
    ['m', String(memoryMiB)],
    ['display', 'none'],
    ['nic', 'none'],
    ['kernel', image.kernel],
    ['initrd', image.initramfs],
    ['append', boot],
    ['serial', 'stdio'],
    ['drive', drive(image.root, 'snapshot=on,cache=unsafe')],
    ['drive', drive(disks.project, 'readonly=on')],
    ['drive', drive(disks.node, 'readonly=on')],
    ['device', 'virtio-serial-pci'],
    ['chardev', `socket,id=agent,path=${join(folder, 'agent')},server=on,wait=off`],
    ['device', 'virtserialport,chardev=agent,name=squash.agent'],
    ['chardev', `socket,id=witness,path=${join(folder, 'witness')},server=on,wait=off`],
    ['device', 'virtserialport,chardev=witness,name=squash.witness'],
    ['monitor', `unix:${join(folder, 'monitor')},server=on,wait=off`],
  ];
  const args = ['-nodefaults', '-no-user-config', ...options.flatMap(([name, value]) => [`-${name}`, value])];
  // TMPDIR on disk: the overlay of a 4 GiB root has no place in a tmpfs.
  return spawn('qemu-system-x86_64', args, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TMPDIR: folder },
  });
}

async function connectTo(path: string, emulator: Emulator): Promise<Socket> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    if (emulator.exitCode !== null) throw new Error(`qemu ended with ${String(emulator.exitCode)}`);
    const socket = createConnection(path);
    try {
      await once(socket, 'connect');
      return socket;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await wait(50);
    }
  }
}

async function endProcess(emulator: Emulator): Promise<void> {
  if (emulator.exitCode !== null || emulator.signalCode !== null) return;
  const ended = once(emulator, 'exit');
  emulator.kill('SIGKILL');
  await ended;
}

interface Channels {
  readonly agent: Socket;
  readonly witness: Socket;
  /** Of the emulator itself. */
  readonly monitor: Socket;
}

class Guest implements GuestMachine {
  bootId = '';
  readonly witnessed: string[] = [];
  readonly #channels: Channels;
  readonly #waiting = new Map<number, (result: GuestResult) => void>();
  #boot = Promise.withResolvers<string>();
  #resources = new AsyncDisposableStack();
  #next = 1;
  #console = '';
  readonly #dead = Promise.withResolvers<never>();

  constructor(channels: Channels, emulator: Emulator) {
    this.#channels = channels;
    this.#dead.promise.catch(() => {
      // Whoever waits for an answer sees it; at the regular end nobody waits.
    });
    emulator.once('exit', () => {
      this.#dead.reject(new Error(`the guest ended by itself\n${this.#lastWords()}`));
    });
    emulator.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#console = (this.#console + text).slice(-consoleCharactersMax);
      // Neither ever answers: waiting for the deadline would only hide why.
      const end = ['Kernel panic', 'You are in emergency mode'].find((words) =>
        this.#console.includes(words),
      );
      if (end !== undefined) this.#dead.reject(new Error(`the guest says "${end}"\n${this.#lastWords()}`));
    });
    createInterface({ input: channels.agent }).on('line', (line) => {
      this.#take(line);
    });
    createInterface({ input: channels.witness }).on('line', (line) => {
      this.witnessed.push(line);
    });
    // It greets, echoes and prompts; a pipe that nobody reads would stop it.
    channels.monitor.resume();
  }

  own(resources: AsyncDisposableStack): this {
    this.#resources = resources;
    return this;
  }

  async booted(): Promise<void> {
    this.bootId = await this.#bounded(this.#boot.promise, bootMsMax, 'the guest to boot');
  }

  async run(script: string, options: RunOptions = {}): Promise<GuestResult> {
    const number = this.#next++;
    const answer = Promise.withResolvers<GuestResult>();
    this.#waiting.set(number, answer.resolve);
    const encoded = Buffer.from(`${settings}\n${script}`).toString('base64');
    this.#channels.agent.write(`${String(number)} ${options.user ?? 'root'} ${encoded}\n`);
    try {
      return await this.#bounded(answer.promise, options.timeoutMs ?? commandMsMax, `answer to: ${script}`);
    } finally {
      this.#waiting.delete(number);
    }
  }

  async output(script: string, options: RunOptions = {}): Promise<string> {
    const result = await this.run(script, options);
    if (result.exitCode === 0) return result.stdout.trim();
    // A program that was ended from outside says nothing itself.
    const journal = await this.run('journalctl --no-pager -n 30').then(
      ({ stdout }) => stdout.slice(-4000),
      String,
    );
    throw new Error(`${described(script, result)}\nthe guest's journal:\n${journal}`);
  }

  async until(script: string, options: RunOptions = {}): Promise<string> {
    const deadline = Date.now() + (options.timeoutMs ?? commandMsMax);
    // It waits in the guest: a question from here costs as much as the start of several programs.
    const patient = `tries=0; until said=$(${script}\n); do tries=$((tries + 1)); test $tries -lt 40 || { echo "$said"; exit 1; }; sleep 1; done; echo "$said"`;
    for (;;) {
      const result = await this.run(patient, options);
      if (result.exitCode === 0) return result.stdout.trim();
      if (Date.now() > deadline) throw new Error(described(script, result));
    }
  }

  async reboot(): Promise<void> {
    this.#boot = Promise.withResolvers<string>();
    // No answer comes from a machine that goes down; the agent's next `ready` is the answer.
    this.#channels.agent.write(`0 root ${Buffer.from('systemctl reboot').toString('base64')}\n`);
    await this.booted();
  }

  async cutPower(): Promise<void> {
    this.#boot = Promise.withResolvers<string>();
    this.#channels.monitor.write('system_reset\n');
    for (const answer of this.#waiting.values())
      answer({ exitCode: -1, stdout: '', stderr: 'the power was cut' });
    await this.booted();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }

  #take(line: string): void {
    const [first, ...rest] = line.split(' ');
    if (first === 'ready') {
      this.#boot.resolve(rest[0] ?? '');
      return;
    }
    const [exitCode, stdout = '', stderr = ''] = rest;
    const decode = (text: string): string => Buffer.from(text, 'base64').toString();
    this.#waiting.get(Number(first))?.({
      exitCode: Number(exitCode),
      stdout: decode(stdout),
      stderr: decode(stderr),
    });
  }

  async #bounded<T>(result: Promise<T>, timeoutMs: number, what: string): Promise<T> {
    const timer = new AbortController();
    const late = wait(timeoutMs, undefined, { signal: timer.signal }).then(() => {
      throw new Error(`waited ${String(timeoutMs / 1000)} s in vain for ${what}\n${this.#lastWords()}`);
    });
    late.catch(() => {
      // Aborted below, or thrown by the race.
    });
    try {
      return await Promise.race([result, late, this.#dead.promise]);
    } finally {
      timer.abort();
    }
  }

  #lastWords(): string {
    return `last of the guest's console:\n${this.#console}`;
  }
}

function described(script: string, result: GuestResult): string {
  return `exit ${String(result.exitCode)} of: ${script}\n${result.stdout.slice(-4000)}\n${result.stderr.slice(-4000)}`;
}
