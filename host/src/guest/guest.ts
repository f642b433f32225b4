/**
 * The port to a sandbox's PID 1: what the engine may ask of it. `GuestClient` in `client.ts` implements it.
 *
 * Everything that comes back was written by a process that root in the sandbox may have replaced: the client
 * checks types, ranges, order and totals, and turns a breach into `guest_failed`.
 */
import type { Duplex } from 'node:stream';
import type { pathIntents } from '@squash/contract/guest/frames';

export interface GuestExecSpec {
  /** Unique within the sandbox; how the exec is found again after the daemon was replaced. */
  readonly execId: string;
  readonly argv: readonly (string | Uint8Array)[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly uid: number;
  readonly gid: number;
  /** With `hasJobs` what stops the command stops it, and `stopped` tells; a PID 1 of an earlier release has none. */
  readonly tty: { readonly rows: number; readonly columns: number; readonly hasJobs?: boolean } | undefined;
  readonly stdin: 'none' | 'pipe';
  /** PID 1 itself ends the process group after this (TERM, 2 s, KILL), so that it holds while no daemon runs. */
  readonly timeoutMs: number | undefined;
  readonly openFilesMax: number;
}

export type GuestExecEvent =
  | { readonly type: 'output'; readonly stream: 'stdout' | 'stderr'; readonly data: Buffer }
  /** It stands still until it gets a signal. */
  | { readonly type: 'stopped' }
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
  /** Processes that a guest’s own kernel has ended for want of memory, as it ended. */
  readonly oomKills: number;
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
  /** To the command's process group, which goes on with it where it was stopped. */
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

export type PathIntent = keyof typeof pathIntents;

/** Of a sandbox that traces paths: what a program wanted of one, when it was refused first. */
export interface RefusedPath {
  readonly path: Buffer;
  readonly intent: PathIntent;
  readonly atMs: number;
}

export interface RefusedPaths {
  readonly paths: readonly RefusedPath[];
  /** Where the next question goes on. */
  readonly next: number;
  /** There were more than are kept. */
  readonly isTruncated: boolean;
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
  /** One state of one file: both are the same only as long as it is untouched. Missing where PID 1 is older. */
  readonly inode: number | undefined;
  readonly changedUs: number | undefined;
}

/** As whom a file operation is done: its permissions, and whose is what it makes. Without it root's. */
export interface AsUser {
  readonly as?: { readonly uid: number; readonly gid: number };
}

export interface Creation extends AsUser {
  readonly mode?: number;
  readonly createParents?: boolean;
  /** Whose it and the parents made for it are to be. */
  readonly owner?: { readonly uid?: number; readonly gid?: number };
}

export interface FileWriting extends Creation {
  /** `replace`: the bytes take the file's place when all have come. `truncate`: they are written into it as they come. */
  readonly how?: 'replace' | 'truncate' | 'append';
  /** Instead of `how`: they are written into it from this byte on, as they come. */
  readonly offset?: number;
  /** With `offset`: the file ends here first. */
  readonly size?: number;
  /** Only where nothing stands there. @throws file_failed with EEXIST */
  readonly exclusive?: boolean;
  /** Only over the file in exactly this state; with `replace`. @throws file_failed with ESTALE */
  readonly over?: { readonly inode: number; readonly changedUs: number };
}

export interface FileListing extends AsUser {
  /** 1: what stands in the directory itself. */
  readonly depth?: number;
  readonly entriesMax?: number;
  /** What paths must match, as `native/init/glob.h` says. */
  readonly pattern?: string;
  /** The path behind which to go on. */
  readonly after?: Uint8Array;
}

export interface FileSearch extends AsUser {
  readonly text: string;
  /** POSIX extended; else the text is meant as it stands. */
  readonly isRegex?: boolean;
  readonly ignoresCase?: boolean;
  readonly pattern?: string;
  readonly matchesMax?: number;
  /** Bytes read of all files together. */
  readonly bytesMax?: number;
  /** Of a line in the answer. */
  readonly lineBytesMax?: number;
}

export interface FileMatch {
  /** Relative to what is searched; empty where that is a file. */
  readonly path: Buffer;
  /** From 1, in bytes. */
  readonly line: number;
  readonly column: number;
  /** Of the line, or of a piece of it that begins at `offset`. */
  readonly text: Buffer;
  readonly offset: number;
}

export interface Placing extends AsUser {
  readonly createParents?: boolean;
  /** Only where nothing stands at the target. */
  readonly exclusive?: boolean;
}

export interface Extraction extends AsUser {
  readonly createParents?: boolean;
  readonly entriesMax?: number;
  readonly bytesMax?: number;
  /** `keep`: ids and set-id bits as the archive says. */
  readonly owner?: { readonly uid?: number; readonly gid?: number } | 'keep';
}

/** `overflow`: changes were lost, because nobody took them in time. */
export type FileChange = 'created' | 'changed' | 'attributes' | 'removed' | 'moved' | 'overflow';

export interface OpenedFile extends Disposable {
  readonly stat: FileStat;
  /** Once. */
  data(): AsyncGenerator<Buffer, void, void>;
}

/** Files of a sandbox. All @throws file_failed (its `cause` has the errno), exec_limit, guest_failed */
export interface GuestFileSystem {
  read(
    path: GuestFilePath,
    range?: { readonly offset: number; readonly length: number },
  ): AsyncGenerator<Buffer, void, void>;
  /** As `read`, with what the opened file is. It must be disposed of. */
  open(
    path: GuestFilePath,
    options?: AsUser & { readonly offset?: number; readonly length?: number },
  ): Promise<OpenedFile>;
  write(path: GuestFilePath, data: AsyncIterable<Uint8Array>, options?: FileWriting): Promise<void>;
  stat(path: GuestFilePath, options?: AsUser & { readonly followLinks?: boolean }): Promise<FileStat>;
  /** Before what is in it each directory, in the order of bytes. Returns whether `entriesMax` has left some out. */
  list(
    path: GuestFilePath,
    options?: FileListing,
    signal?: AbortSignal,
  ): AsyncGenerator<{ readonly path: Buffer; readonly stat: FileStat }, boolean, void>;
  /** Returns whether a bound has left some out. */
  search(
    path: GuestFilePath,
    options: FileSearch,
    signal?: AbortSignal,
  ): AsyncGenerator<FileMatch, boolean, void>;
  makeDirectory(path: GuestFilePath, options?: Creation): Promise<void>;
  /** Resolves when what was written to the path's file system is on its disk. */
  sync(path: GuestFilePath, signal?: AbortSignal): Promise<void>;
  /** `target` is a symlink's text, or the file that gets another name. */
  link(
    path: GuestFilePath,
    target: GuestFilePath,
    options?: AsUser & { readonly isHard?: boolean; readonly createParents?: boolean },
  ): Promise<void>;
  /** Replaces what stands at `to`. EXDEV for a directory of a layer: the caller copies. */
  move(from: GuestFilePath, to: GuestFilePath, options?: Placing): Promise<void>;
  copy(
    paths: { readonly from: GuestFilePath; readonly to: GuestFilePath },
    options?: Placing & { readonly recursive?: boolean },
    signal?: AbortSignal,
  ): Promise<void>;
  /** In a tree directories can also be entered by whom `mode` lets read them. */
  change(
    path: GuestFilePath,
    options: AsUser & {
      readonly mode?: number;
      readonly owner?: Creation['owner'];
      readonly recursive?: boolean;
      readonly followLinks?: boolean;
      /** Of one file; not with `recursive`. */
      readonly size?: number;
      readonly mtimeMs?: number;
    },
    signal?: AbortSignal,
  ): Promise<void>;
  remove(
    path: GuestFilePath,
    options?: AsUser & { readonly recursive?: boolean },
    signal?: AbortSignal,
  ): Promise<void>;
  /** Of a microVM's: its upper as a tar. All commands stand still until it ends, or is left. */
  upper(signal?: AbortSignal): AsyncGenerator<Buffer, void, void>;
  /** A tar of what is in a directory, or of one file. */
  archive(path: GuestFilePath, options?: AsUser, signal?: AbortSignal): AsyncGenerator<Buffer, void, void>;
  extract(
    path: GuestFilePath,
    tar: AsyncIterable<Uint8Array>,
    options?: Extraction,
  ): Promise<{ readonly entries: number; readonly bytes: number }>;
  /**
   * Paths are relative to `path`, empty for itself. Resolves when it watches; ends when `path` is removed. Who reads slowly loses
   * changes and is told so.
   */
  watch(
    path: GuestFilePath,
    options?: AsUser & { readonly recursive?: boolean },
    signal?: AbortSignal,
  ): Promise<AsyncGenerator<{ readonly change: FileChange; readonly path: Buffer }, void, void>>;
}

export interface Guest {
  /** Resolves when the command runs. @throws exec_failed (with errno's text), exec_limit, guest_failed */
  exec(spec: GuestExecSpec, signal?: AbortSignal): Promise<GuestExec>;
  /** @throws exec_failed where the guest knows no such exec */
  attach(execId: string, stored: { readonly stdout: number; readonly stderr: number }): Promise<GuestExec>;
  list(): Promise<readonly GuestExecEntry[]>;
  /** What PID 1 says of itself, which decides nothing: its launcher says what both speak. */
  info(signal?: AbortSignal): Promise<{ readonly protocol: number }>;
  /** From `offset` on, as many as one answer holds. */
  refusedPaths(offset: number, signal?: AbortSignal): Promise<RefusedPaths>;
  readonly files: GuestFileSystem;
  /** Raw bytes to a port on the sandbox's loopback; half-close is kept. @throws port_unreachable */
  dial(port: number, signal?: AbortSignal): Promise<Duplex>;
}
