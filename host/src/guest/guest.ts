/**
 * The port to a sandbox's PID 1: what the engine may ask of it. `GuestClient` in `client.ts` implements it.
 *
 * Everything that comes back was written by a process that root in the sandbox may have replaced: the client
 * checks types, ranges, order and totals, and turns a breach into `guest_failed`.
 */
import type { Duplex } from 'node:stream';

export interface GuestExecSpec {
  /** Unique within the sandbox; how the exec is found again after the daemon was replaced. */
  readonly execId: string;
  readonly argv: readonly (string | Uint8Array)[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly uid: number;
  readonly gid: number;
  readonly tty: { readonly rows: number; readonly columns: number } | undefined;
  readonly stdin: 'none' | 'pipe';
  /** PID 1 itself ends the process group after this (TERM, 2 s, KILL), so that it holds while no daemon runs. */
  readonly timeoutMs: number | undefined;
  readonly openFilesMax: number;
}

export type GuestExecEvent =
  | { readonly type: 'output'; readonly stream: 'stdout' | 'stderr'; readonly data: Buffer }
  | { readonly type: 'exit'; readonly outcome: GuestOutcome };

export interface GuestOutcome {
  readonly exitCode: number | undefined;
  readonly signal: number | undefined;
  readonly timedOut: boolean;
  /** Bytes written since the exec began, kept or not. */
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** CPU time of the command and of the children it waited for; the largest resident size of one of them. */
  readonly userUs: number;
  readonly systemUs: number;
  readonly rssMaxKib: number;
}

/** One connection to one command. Dropping it leaves the command running; `attach` finds it again. */
export interface GuestExec {
  readonly execId: string;
  readonly pid: number;
  /** Standard input that the guest had when this connection began: all of it goes on behind. */
  readonly stdinReceived: number;
  /** Output in order per stream, then exactly one exit. Reading slowly stalls the command. @throws guest_failed */
  events(): AsyncIterableIterator<GuestExecEvent>;
  /** Resolves when the guest's socket took it; waits while the command has 64 KiB that it did not read. */
  writeStdin(chunk: Uint8Array): Promise<void>;
  endStdin(): void;
  resize(rows: number, columns: number): void;
  /** To the command's process group. */
  signal(signo: number): void;
  /** Absolute offsets that are stored: the guest may drop what is before them and go on producing. */
  ack(stdoutOffset: number, stderrOffset: number): void;
  /** The exit is stored: the guest may forget this exec. */
  release(): void;
  close(): void;
}

export interface GuestExecEntry {
  readonly execId: string;
  readonly pid: number;
  readonly running: boolean;
}

/** Absolute, without NUL. Bytes where a name is not UTF-8. */
export type GuestFilePath = string | Uint8Array;

export interface FileStat {
  readonly type: 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device';
  readonly size: number;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtimeMs: number;
  /** A symlink's text. Bytes, as every name. */
  readonly target: Buffer | undefined;
}

export interface Guest {
  /** Resolves when the command runs. @throws exec_failed (with errno's text), exec_limit, guest_failed */
  exec(spec: GuestExecSpec, signal?: AbortSignal): Promise<GuestExec>;
  /** @throws exec_failed where the guest knows no such exec */
  attach(execId: string, stored: { readonly stdout: number; readonly stderr: number }): Promise<GuestExec>;
  list(): Promise<readonly GuestExecEntry[]>;
  /** What PID 1 says of itself, which decides nothing: its launcher says what both speak. */
  info(signal?: AbortSignal): Promise<{ readonly protocol: number }>;
  /** @throws file_failed (its `cause` has the errno), guest_failed; so do all that follow */
  readFile(
    path: GuestFilePath,
    range?: { readonly offset: number; readonly length: number },
  ): AsyncIterableIterator<Buffer>;
  writeFile(
    path: GuestFilePath,
    data: AsyncIterable<Uint8Array>,
    options?: { readonly mode?: number; readonly createParents?: boolean },
  ): Promise<void>;
  stat(path: GuestFilePath, options?: { readonly followLinks?: boolean }): Promise<FileStat>;
  listDirectory(
    path: GuestFilePath,
  ): AsyncIterableIterator<{ readonly name: Buffer; readonly stat: FileStat }>;
  makeDirectory(
    path: GuestFilePath,
    options?: { readonly mode?: number; readonly createParents?: boolean },
  ): Promise<void>;
  /** Replaces what stands at `to`. EXDEV for a directory of a layer: the caller copies. */
  move(from: GuestFilePath, to: GuestFilePath): Promise<void>;
  remove(path: GuestFilePath, options?: { readonly recursive?: boolean }): Promise<void>;
  /** Paths are relative to `path`, empty for itself. Ends when it is removed; @throws file_failed when events were lost */
  watch(
    path: GuestFilePath,
    options?: { readonly recursive?: boolean },
    signal?: AbortSignal,
  ): AsyncIterableIterator<{
    readonly change: 'created' | 'changed' | 'removed' | 'moved';
    readonly path: Buffer;
  }>;
  /** Raw bytes to a port on the sandbox's loopback; half-close is kept. @throws port_unreachable */
  dial(port: number, signal?: AbortSignal): Promise<Duplex>;
}
