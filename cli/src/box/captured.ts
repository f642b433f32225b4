/**
 * A command in a box whose output is taken here and shown to nobody. The box chose what comes: it is bounded in bytes and in time, and
 * a connection that is dropped ends the command.
 */
import type { ExecEvent } from '@squash/contract/exec';
import { apiPath, type Client } from '../client/client.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { visible } from '../output/print.ts';

export interface CaptureWish {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Of standard output. */
  readonly bytesMax: number;
  readonly timeMsMax: number;
  /** Where standard output goes; undefined: it is returned. */
  readonly take?: (part: Buffer) => void;
  readonly signal: AbortSignal;
}

export interface Captured {
  readonly exitCode: number;
  readonly stdout: Buffer;
  /** Its beginning. */
  readonly stderr: string;
}

const saidBytesMax = 16_384;

/** @throws git_too_large, git_failed, aborted */
export async function captured(client: Client, id: string, wish: CaptureWish): Promise<Captured> {
  const { signal, timeMsMax, argv, env, cwd } = wish;
  signal.throwIfAborted();
  const connection = await client.webSocket(apiPath(['v1', 'sandboxes', id, 'exec']), 'squash.exec.v1');
  let isLate = false;
  const drop = (): void => connection.destroy();
  const timer = setTimeout(() => {
    isLate = true;
    drop();
  }, timeMsMax);
  signal.addEventListener('abort', drop);
  try {
    // It may have come while the connection was made.
    signal.throwIfAborted();
    const start = { type: 'start', argv, env, cwd, stdin: false, timeout_ms: timeMsMax };
    await connection.sendText(JSON.stringify(start));
    return await read(connection.messages(), wish);
  } catch (failure) {
    signal.throwIfAborted();
    if (isLate) throw late(wish);
    throw failure;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', drop);
    connection.destroy();
  }
}

type Messages = ReturnType<Awaited<ReturnType<Client['webSocket']>>['messages']>;

async function read(messages: Messages, { take, bytesMax, ...wish }: CaptureWish): Promise<Captured> {
  const out: Buffer[] = [];
  const said: Buffer[] = [];
  let bytes = 0;
  let saidBytes = 0;
  for await (const message of messages) {
    if (message.type === 'text') {
      const event = JSON.parse(message.text) as ExecEvent;
      if (event.type === 'error') throw new CliFailure(event.code, event.message, exitCodes.failed);
      if (event.type !== 'exit') continue;
      if (event.reason === 'timed_out') throw late(wish);
      const stderr = Buffer.concat(said).toString('utf8').trim();
      return { exitCode: event.exit_code, stdout: Buffer.concat(out), stderr };
    }
    const part = message.data.subarray(1);
    if (message.data[0] === 2) {
      if (saidBytes < saidBytesMax) said.push(part);
      saidBytes += part.length;
      continue;
    }
    bytes += part.length;
    if (bytes > bytesMax)
      throw new CliFailure('git_too_large', `${nameOf(wish)} in the box gives more than ${bytesMax} bytes`);
    if (take === undefined) out.push(part);
    else take(part);
  }
  throw new CliFailure('git_failed', `${nameOf(wish)} in the box ended without saying how`);
}

function late(wish: Pick<CaptureWish, 'argv' | 'timeMsMax'>): CliFailure {
  return new CliFailure(
    'git_failed',
    `${nameOf(wish)} in the box took more than ${wish.timeMsMax / 1_000} s`,
  );
}

function nameOf({ argv }: Pick<CaptureWish, 'argv'>): string {
  return visible(argv[0] ?? '');
}
