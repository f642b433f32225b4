/** A log whose lines a test reads. */
import { createLog, type Log, type LogLevel } from '@squash/base/log';

export function keptLog(level: LogLevel): { readonly log: Log; readonly lines: readonly string[] } {
  const lines: string[] = [];
  const log = createLog({
    level,
    format: 'json',
    write: (line) => void lines.push(line),
    nowMs: () => 0,
    rate: { linesMax: 10, windowMs: 1_000, keysMax: 10 },
  });
  return { log, lines };
}
