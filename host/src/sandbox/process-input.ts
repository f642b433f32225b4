/** What reaches a running process from outside: input, signals, the size of its terminal. */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { GuestExec } from '../guest/guest.ts';
import { type Found, unfollowed } from './processes.ts';
import type { Run } from './run.ts';
import type { Sandbox } from './sandbox.ts';
import type { Patience } from './stdin-turns.ts';

/** What a terminal takes as the end of input where a line begins: ^D. */
const endOfTransmission = Buffer.from([4]);

export interface Input {
  readonly chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  /** Nothing comes behind it. */
  readonly isLast: boolean;
  readonly patience: Patience;
}

/**
 * Resolves with the bytes when the process, or its pipe, has them all.
 * @throws process_ended, stdin_closed, stdin_blocked, guest_failed
 */
export async function writeInput(sandbox: Sandbox, found: Found, input: Input): Promise<number> {
  const run = runningOf(found);
  const { process } = found.row;
  checkInput(run);
  let bytes = 0;
  for await (const chunk of input.chunks) {
    for (let at = 0; at < chunk.length; at += limits.outputFlushBytes) {
      const piece = chunk.subarray(at, at + limits.outputFlushBytes);
      await writePiece(run, { piece, bytesBefore: bytes, patience: input.patience });
      bytes += piece.length;
    }
  }
  if (!input.isLast) return bytes;
  if (process?.pty === true) {
    await writePiece(run, { piece: endOfTransmission, bytesBefore: bytes, patience: input.patience });
    return bytes;
  }
  const { store } = sandbox.world;
  // Before it is sent: a daemon that takes over must not take the input for open.
  if (run.end === undefined) store.transaction(() => store.execs.endStdin(run.row.key));
  run.endStdin();
  return bytes;
}

interface Piece {
  readonly piece: Uint8Array;
  readonly bytesBefore: number;
  readonly patience: Patience;
}

async function writePiece(run: Run, { piece, bytesBefore, patience }: Piece): Promise<void> {
  const write = async (): Promise<void> => {
    // Another sender may have said meanwhile that nothing comes any more.
    checkInput(run);
    const exec = await run.attached();
    await exec?.writeStdin(piece);
  };
  const { isTaken, isSent } = await run.stdinTurns.take(write, patience);
  if (isTaken) return;
  const bytes = bytesBefore + (isSent ? piece.length : 0);
  throw new AppError(
    'stdin_blocked',
    `Process ${run.row.seq} does not read its input; ${bytes} bytes of this request were taken and will reach it`,
  );
}

function checkInput({ present }: Run): void {
  if (present.process?.stdin === 'open' && !present.stdinEnded) return;
  const why = present.stdinEnded ? 'its end was sent' : 'it was started without';
  throw new AppError('stdin_closed', `Process ${present.seq} takes no input: ${why}`);
}

/** To the process group. @throws process_ended */
export async function signalProcess(found: Found, signo: number): Promise<void> {
  (await connectionOf(found)).signal(signo);
}

/** @throws process_ended, invalid_request where it has no terminal */
export async function resizeProcess(found: Found, rows: number, columns: number): Promise<void> {
  const exec = await connectionOf(found);
  if (found.row.process?.pty !== true) {
    throw new AppError('invalid_request', `process ${found.row.seq} has no terminal: start it with "pty"`);
  }
  exec.resize(rows, columns);
}

async function connectionOf(found: Found): Promise<GuestExec> {
  return (await runningOf(found).attached()) ?? ended(found);
}

function runningOf(found: Found): Run {
  return found.run ?? ended(found);
}

function ended({ row }: Found): never {
  if (row.end === undefined) throw unfollowed(row.seq);
  const { exitCode, reason } = row.end;
  throw new AppError('process_ended', `Process ${row.seq} has ended with exit code ${exitCode} (${reason})`);
}
