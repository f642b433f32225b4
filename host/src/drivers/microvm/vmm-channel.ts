/**
 * What the daemon says to `squash-vmm`, PID 1 of a sandbox whose program is a VMM. It stands inside the boundary: whoever has broken
 * out of the guest may have taken it over, so what it answers is checked as a guest's answers are.
 */
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import { pause } from '@squash/base/pause';
import { encodeFields, FrameDecoder } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import type { FieldName } from '@squash/contract/guest/frames';

export interface VmmCommand {
  /**
   * `make`: where `path` is not there it runs, makes `path` with `.new` behind it, and that gets its name when it has ended well.
   * `unpack`: as `make`, of the disk's stream that its one word names (`native/vmm/disk.h`); the VM goes on from a memory in which its guest takes connections.
   * `behind`: the same, of what lies in the file of its first word behind as many bytes as the second says.
   * `memory`: the guest's, filled from the file that its one word names (`native/vmm/memory.h`); the commands behind it have it at descriptor 4.
   * `files`: as `stay`, and it keeps the sandbox’s capabilities, for it serves the guest files with their owners.
   * `stay`: it belongs to the VM, and its end is the VM's; the next one waits until somebody listens at `path`, where it has one.
   */
  readonly how: 'make' | 'unpack' | 'behind' | 'memory' | 'stay' | 'files';
  readonly path?: string;
  readonly argv: readonly string[];
}

export interface VmmStart {
  /** Where the guest's vsock ports are reached, in the VMM's root. */
  readonly socket: string;
  /** Where the VMM itself listens. */
  readonly control: string;
  readonly commands: readonly VmmCommand[];
  /** What the VMM is asked there, where its command does not say what machine it is. */
  readonly asks?: readonly VmmAsk[];
  /** Of the disks of a machine that is to be copied, which are empty files in the places of the real ones. Where there are none its command has them. */
  readonly lowerBytes?: readonly number[];
}

/** A request of a VMM's REST API. */
export interface VmmAsk {
  readonly method: 'GET' | 'PUT' | 'PATCH';
  readonly path: string;
  readonly body?: Readonly<Record<string, unknown>>;
}

/** A fresh stream to squash-vmm. */
export type ToVmm = (signal: AbortSignal) => Promise<Duplex>;

/** An `ok` frame with nothing in it, or an `error` frame with its text. */
const answerBytesMax = 65_536;
const messageBytesMax = 4096;
const consoleCharactersMax = 4096;
const lineCharactersMax = 200;
const consoleLinesMax = 5;
const consoleLookMs = 20;

/** Starts the VMM: once in the life of one squash-vmm. @throws launch_failed with what went wrong */
export async function startVmm(stream: Duplex, start: VmmStart, signal?: AbortSignal): Promise<void> {
  const fields: (readonly [FieldName, string])[] = [
    ['socket', start.socket],
    ['control', start.control],
    ...start.commands.map((command) => ['command', commandText(command)] as const),
  ];
  try {
    await ask(stream, encodeFields('vmmStart', fields), signal);
  } finally {
    stream.destroy();
  }
}

/** The stream, as one to the guest's PID 1. @throws guest_failed */
export async function throughToGuest(stream: Duplex, signal?: AbortSignal): Promise<Duplex> {
  return await ask(stream, encodeFields('vmmGuest', []), signal);
}

/** The stream to the VMM's control socket, or the one that its guest's memory will come by, or of its guest's disk. @throws guest_failed */
export async function streamOfVmm(stream: Duplex, which: VmmStream, signal: AbortSignal): Promise<Duplex> {
  const answered = await ask(stream, requestOf(which), signal);
  // Who reads it is told; until then nobody would be there.
  return answered.on('error', () => undefined);
}

type VmmStream =
  | 'vmmControl'
  | 'vmmDevice'
  | 'vmmMemory'
  | { readonly disk: string }
  | { readonly taken: string };

function requestOf(which: VmmStream): Uint8Array {
  if (typeof which === 'string') return encodeFields(which, []);
  return 'disk' in which
    ? encodeFields('vmmDisk', [['path', which.disk]])
    : encodeFields('vmmTaken', [['path', which.taken]]);
}

/** With a stream to the VMM's control socket; one of `vmmDevice` lets nobody through to the guest meanwhile. */
export async function spokenTo<T>(
  connect: ToVmm,
  { which, signal }: { readonly which: 'vmmControl' | 'vmmDevice'; readonly signal: AbortSignal },
  work: (control: Duplex) => Promise<T>,
): Promise<T> {
  const control = await streamOfVmm(await connect(signal), which, signal);
  try {
    return await work(control);
  } finally {
    control.destroy();
  }
}

/** Of a stream to the guest of a machine that was copied: resolves when its PID 1 takes connections. @throws guest_failed */
export async function renewGuest(
  stream: Duplex,
  renewed: { readonly seed: Uint8Array; readonly wallMs: number; readonly settings: string },
  signal: AbortSignal,
): Promise<void> {
  const { seed, wallMs, settings } = renewed;
  const fields = [
    ['seed', seed],
    ['wallMs', wallMs],
    ['settings', settings],
  ] as const;
  try {
    await ask(stream, encodeFields('guestRenew', fields), signal);
  } finally {
    stream.destroy();
  }
}

/** What the guest's kernel and the VMM write, as far as it is the last of it. Hostile text: of a guest that nobody trusts. */
export class ConsoleTail implements Disposable {
  #stream: Duplex | undefined;
  #tail = '';

  /** What was written before comes, too. Where nothing can be read there is nothing to tell. */
  async follow(stream: Duplex, signal: AbortSignal): Promise<void> {
    try {
      this.#stream = await ask(stream, encodeFields('vmmConsole', []), signal);
      this.#stream.on('error', () => undefined);
      this.#stream.on('data', (part: Buffer) => {
        this.#tail = (this.#tail + part.toString('latin1')).slice(-consoleCharactersMax);
      });
    } catch {
      stream.destroy();
    }
  }

  /** Resolves when this has been written. @throws guest_failed where the console ends before */
  async until(text: string, signal: AbortSignal): Promise<void> {
    while (!this.#tail.includes(text)) {
      const stream = this.#stream;
      if (stream === undefined || stream.destroyed || stream.readableEnded)
        throw new AppError('guest_failed', 'The VMM ended');
      await pause(consoleLookMs, signal);
      signal.throwIfAborted();
    }
  }

  /** One line each, without what is no plain text. */
  lines(): readonly string[] {
    const printable = (line: string): string => line.replaceAll(/[^\x20-\x7e]/g, '').trim();
    const lines = this.#tail.split(/\r?\n/).map((line) => printable(line).slice(0, lineCharactersMax));
    return lines.filter((line) => line !== '').slice(-consoleLinesMax);
  }

  [Symbol.dispose](): void {
    this.#stream?.destroy();
  }
}

function commandText({ how, path, argv }: VmmCommand): string {
  return [path === undefined ? how : `${how} ${path}`, ...argv].join('\n');
}

/** Resolves with the stream where `ok` came, and nothing behind it is lost. */
async function ask(stream: Duplex, request: Uint8Array, signal?: AbortSignal): Promise<Duplex> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
  const decoder = new FrameDecoder();
  let bytes = 0;
  const fail = (error: unknown): void => {
    stream.destroy();
    reject(error);
  };
  const gone = (): void =>
    fail(new AppError('guest_failed', 'squash-vmm closed the connection without an answer'));
  const abort = (): void => fail(signal?.reason);
  // Byte by byte: what follows the answer is not the answer's.
  const onReadable = (): void => {
    try {
      for (;;) {
        const byte = stream.read(1) as Buffer | null;
        if (byte === null) return;
        if ((bytes += 1) > answerBytesMax) throw new AppError('guest_failed', 'squash-vmm sent too much');
        const [frame] = decoder.decode(byte);
        if (frame === undefined) continue;
        if (frame.kind === 'data') throw new AppError('guest_failed', 'squash-vmm sent raw data');
        if (frame.type === 'ok') return resolve(stream);
        throw new VmmRefusal(new FieldReader(frame.fields));
      }
    } catch (error) {
      fail(error);
    }
  };
  stream.on('readable', onReadable).once('end', gone).once('close', gone).once('error', gone);
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted === true) abort();
  stream.write(request);
  try {
    return await promise;
  } finally {
    signal?.removeEventListener('abort', abort);
    stream.off('readable', onReadable).off('end', gone).off('close', gone).off('error', gone);
  }
}

/** squash-vmm is there and has said no: it gives a guest less time to take a connection than an emulated one may need to start. */
export class VmmRefusal extends AppError {
  constructor(reader: FieldReader) {
    const text = reader.optionalText('message', messageBytesMax) ?? 'it gave no reason';
    super('guest_failed', `squash-vmm: ${text}`);
  }
}
