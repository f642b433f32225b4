/**
 * Our standard streams and our terminal as those of a process that runs already.
 *
 * Unlike `exec`, leaving ends nothing: Ctrl-C leaves a process without a terminal, Ctrl-] one with.
 */
import { isatty } from 'node:tty';
import type { ProcessEvent, ProcessInfo } from '@squash/contract/process';
import type { Client } from '../client/client.ts';
import { processPath } from '../client/processes.ts';
import type { WebSocketConnection } from '../client/websocket.ts';
import { CliFailure, exitCodes, Failure } from '../failure.ts';
import { printNote, standardError, standardOutput } from '../output/print.ts';
import { exitCodeOf } from './follow-output.ts';
import { openInputSource } from './input-source.ts';
import { openOutputSink } from './output-sink.ts';
import { terminalSize } from './terminal-size.ts';

/** One byte for the stream, eight for the position. */
const headerBytes = 9;
/** What Ctrl-] types. */
const leave = 0x1d;

interface Attachment {
  readonly id: string;
  readonly process: ProcessInfo;
  readonly after: number;
}

/** Resolves with the exit code of the process, or with 0 when we left it. */
export async function attachStream(client: Client, attachment: Attachment): Promise<number> {
  const { id, process: info, after } = attachment;
  const path = processPath(id, [info.process, 'attach'], { after });
  const connection = await client.webSocket(path, 'squash.process.v1');
  const cleanups: (() => void)[] = [];
  const left = Promise.withResolvers<number>();
  let hasLeft = false;
  try {
    const hasTerminal = info.pty && isatty(0);
    if (hasTerminal) cleanups.push(await takeTerminal(connection));
    const input = openInputSource();
    cleanups.push(input.close);
    sendInput(connection, { chunks: input.chunks, info, hasTerminal }).then(
      (isOver) => {
        hasLeft = isOver;
        if (isOver) left.resolve(exitCodes.ok);
      },
      () => {
        // The connection broke: whoever reads messages finds out and tells.
      },
    );
    return await Promise.race([printMessages(connection), left.promise]);
  } catch (cause) {
    if (cause instanceof CliFailure) throw cause;
    const detail = cause instanceof Error ? cause.message : String(cause);
    const where = `the process goes on: squash attach ${id} ${info.process}`;
    throw new CliFailure('unreachable', `${detail}; ${where}`, exitCodes.execFailed);
  } finally {
    for (const cleanup of cleanups.toReversed()) cleanup();
    connection.close();
    // What goes on without us puts nothing back.
    if (hasLeft) (await import('./taken-back.ts')).makeOrdinary();
  }
}

async function printMessages(connection: WebSocketConnection): Promise<number> {
  const sinks = { stdout: openOutputSink(standardOutput), stderr: openOutputSink(standardError) };
  for await (const message of connection.messages()) {
    if (message.type === 'binary') {
      await sinks[message.data[0] === 2 ? 'stderr' : 'stdout'].write(message.data.subarray(headerBytes));
      continue;
    }
    const event = JSON.parse(message.text) as ProcessEvent;
    if (event.type === 'gap') printNote(`squash: ${event.bytes} bytes of output are not kept any more`);
    if (event.type === 'exit') return exitCodeOf(event.process);
    // Input that came too late to be taken is no reason to stop looking on.
    if (event.type === 'error' && event.code !== 'stdin_closed' && event.code !== 'process_ended') {
      throw new CliFailure(event.code, event.message, exitCodes.execFailed);
    }
  }
  throw new Failure('hung_up', 'the daemon ended the stream before the process ended');
}

interface OwnInput {
  readonly chunks: AsyncIterable<Buffer>;
  readonly info: ProcessInfo;
  readonly hasTerminal: boolean;
}

/** True where the user left. */
async function sendInput(
  connection: WebSocketConnection,
  { chunks, info, hasTerminal }: OwnInput,
): Promise<boolean> {
  for await (const chunk of chunks) {
    if (hasTerminal && chunk.includes(leave)) return true;
    if (info.stdin === 'open') await connection.sendBinary(chunk);
  }
  if (info.stdin === 'open') await connection.sendText(JSON.stringify({ type: 'stdin_eof' }));
  return false;
}

/** Returns what puts it back. */
async function takeTerminal(connection: WebSocketConnection): Promise<() => void> {
  const { RawTerminal } = await import('./raw-terminal.ts');
  const terminal = RawTerminal.enter();
  const resize = (): void => {
    connection.sendText(JSON.stringify({ type: 'resize', ...terminalSize() })).catch(() => {
      // As above: the reader of messages tells.
    });
  };
  process.stdout.on('resize', resize);
  resize();
  return () => {
    process.stdout.off('resize', resize);
    terminal.restore();
  };
}
