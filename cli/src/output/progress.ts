/** A progress bar on standard error for a stream of bytes; nothing at all where that is no terminal. */
import { formatBytes } from './print.ts';

/** Often enough to look alive, rarely enough to cost nothing. */
const redrawMs = 100;
const barCells = 24;

export interface ProgressOptions {
  readonly label: string;
  /** The total, where it is known. */
  readonly bytes: number | undefined;
}

export async function* withProgress(
  source: AsyncIterable<Buffer>,
  options: ProgressOptions,
): AsyncGenerator<Buffer, void, void> {
  if (!process.stderr.isTTY) {
    yield* source;
    return;
  }
  let sent = 0;
  let drawn = 0;
  try {
    for await (const part of source) {
      yield part;
      sent += part.length;
      if (performance.now() - drawn < redrawMs) continue;
      drawn = performance.now();
      process.stderr.write(`\r\u001b[K${progressLine(sent, options)}`);
    }
  } finally {
    process.stderr.write('\r\u001b[K');
  }
}

/** One state of work that another process does; the line is gone when all bytes are there. */
export function drawProgress(options: ProgressOptions, done: number): void {
  if (!process.stderr.isTTY) return;
  const line = done === options.bytes ? '' : progressLine(done, options);
  process.stderr.write(`\r\u001b[K${line}`);
}

export function progressLine(sent: number, { label, bytes }: ProgressOptions): string {
  if (bytes === undefined || bytes === 0) return `${label}  ${formatBytes(sent)}`;
  const share = Math.min(1, sent / bytes);
  const full = Math.round(share * barCells);
  const bar = '#'.repeat(full) + '.'.repeat(barCells - full);
  return `${label}  [${bar}] ${Math.floor(share * 100)}%  ${formatBytes(sent)} of ${formatBytes(bytes)}`;
}
