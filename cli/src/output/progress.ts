/** What goes on, on standard error: a bar for a stream of bytes, the time for a request; nothing at all where that is no terminal. */
import { formatBytes } from './print.ts';

/** Often enough to look alive, rarely enough to cost nothing. */
const redrawMs = 100;
const barCells = 24;
const tickMs = 1_000;

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

/** Says each second for how long a request takes, in a line that is gone at its end. */
export async function whileTold<T>(
  label: string,
  { json }: { readonly json: boolean },
  work: () => Promise<T>,
): Promise<T> {
  if (json || !process.stderr.isTTY) return await work();
  const begun = performance.now();
  let drawn = 0;
  const timer = setInterval(() => {
    drawn = Math.round((performance.now() - begun) / 1000);
    process.stderr.write(`\r\u001b[K${label}  ${drawn} s`);
  }, tickMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    if (drawn > 0) process.stderr.write('\r\u001b[K');
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
