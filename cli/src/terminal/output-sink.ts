/**
 * Standard output and standard error as places that bytes go to exactly, and that say when they took them.
 *
 * Node writes to pipes synchronously: a reader that stops would stop our whole process, signals included, so
 * that Ctrl-C did nothing. Pipes are therefore opened anew through `/proc/self/fd` and written without
 * blocking; the flag stays with the new open file, so that programs sharing our pipe don't notice.
 */
import { constants, fstatSync, openSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { CliFailure, exitCodes } from '../failure.ts';
import { type Descriptor, isReaderGone, standardOutput } from '../output/print.ts';

export interface OutputSink {
  /** Resolves when the kernel took the bytes. Rejects with `broken_pipe` when the reader has gone. */
  readonly write: (data: Uint8Array) => Promise<void>;
  /** Lets go of the descriptor. Nothing is buffered: every write was awaited. */
  readonly close: () => void;
}

export function openOutputSink(descriptor: Descriptor): OutputSink {
  const pipe = reopenPipe(descriptor);
  const target: Writable = pipe ?? (descriptor === standardOutput ? process.stdout : process.stderr);
  // A failed write is told to whoever awaits it; without a listener it would end the process first.
  target.on('error', () => {});
  return {
    write: (data) =>
      new Promise((resolve, reject) => {
        target.write(data, (error) => (error ? reject(failedWrite(error)) : resolve()));
      }),
    close: () => pipe?.destroy(),
  };
}

function failedWrite(error: Error): Error {
  if (!isReaderGone(error)) return error;
  return new CliFailure('broken_pipe', 'nobody reads the output any more', exitCodes.brokenPipe);
}

function reopenPipe(fd: number): Socket | undefined {
  try {
    if (!fstatSync(fd).isFIFO()) return undefined;
    const opened = openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
    return new Socket({ fd: opened, readable: false, writable: true });
  } catch {
    // Another user's pipe (sudo), or no /proc: the stream as Node has it works too, but blocks.
    return undefined;
  }
}
