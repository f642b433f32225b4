/**
 * What can go wrong in the CLI and which exit code tells of it. Scripts depend on these numbers
 * (`docs/cli.md`): 1 the operation failed, 2 wrong usage, 3 no daemon; a command that runs in a sandbox passes its own code
 * through, so `exec`, `shell` and `run` tell of Squash's own failures with 125 as container engines do.
 */
export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  unreachable: 3,
  timedOut: 124,
  execFailed: 125,
  notRunnable: 126,
  notFound: 127,
  /** 128 + SIGPIPE: whoever read our output has gone. */
  brokenPipe: 141,
} as const;

export class CliFailure extends Error {
  /** A code of the contract's catalogue, or one of the CLI's own: `usage`, `unreachable`, `aborted`, … */
  readonly code: string;
  readonly exitCode: number;

  constructor(code: string, message: string, exitCode: number = exitCodes.failed) {
    super(message);
    this.name = 'CliFailure';
    this.code = code;
    this.exitCode = exitCode;
  }
}

/**
 * A failure that whoever catches it tells in words of its own, with an exit code of its own: what a peer or the system
 * did. No `CliFailure`: those go through as they are. Its name stays `Error`, which is what a stack begins with.
 */
export class Failure extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** What the system said, such as `ENOENT`. */
export function errorCode(cause: unknown): string | undefined {
  if (cause instanceof AggregateError) return errorCode(cause.errors[0]);
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined;
}

const fileProblems: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'this user may not read it',
  EISDIR: 'it is a directory',
};

/** Why a file can't be read, or written, without the words of the system call. */
export function fileProblem(cause: unknown, isWritten = false): string {
  if (isWritten && errorCode(cause) === 'EACCES') return 'this user may not write there';
  return fileProblems[errorCode(cause) ?? ''] ?? (cause instanceof Error ? cause.message : String(cause));
}

export function usageFailure(message: string): CliFailure {
  return new CliFailure('usage', message, exitCodes.usage);
}
