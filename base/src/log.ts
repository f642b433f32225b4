/**
 * Structured log lines on one stream: JSON for machines, `pretty` for people at a terminal.
 *
 * Two things a newcomer would get wrong. A line that a sandbox can cause goes through `guest()`, which limits
 * its rate: otherwise hostile code fills the host's disk through the log. And nothing secret may be passed: a
 * `Secret` prints as `[redacted]`, and fields whose names sound like a credential are redacted as a second net.
 */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
  /** The same log with these fields on every line. */
  child(fields: LogFields): Log;
  /** For lines that code in this sandbox can cause: limited per sandbox and event. */
  guest(sandbox: string): Log;
}

export interface LogRate {
  readonly linesMax: number;
  readonly windowMs: number;
  readonly keysMax: number;
}

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  /** Takes one line with its newline. */
  readonly write: (line: string) => void;
  readonly nowMs: () => number;
  readonly rate: LogRate;
}

const order: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 };
const credential = /token|secret|password|authorization|cookie|api_?key/i;
/** A value in a line is cut here: messages quote what clients sent. */
const valueCharactersMax = 2_000;

export function createLog(options: LogOptions): Log {
  return build(options, {}, () => true);
}

/** Passes everything until `linesMax` in the window, then counts, and tells the count with the next line. */
class RateLimit {
  readonly #rate: LogRate;
  readonly #seen = new Map<string, { sinceMs: number; lines: number; dropped: number }>();

  constructor(rate: LogRate) {
    this.#rate = rate;
  }

  /** How many lines were dropped before this one, or undefined where this one is to be dropped. */
  admit(key: string, nowMs: number): number | undefined {
    const entry = this.#seen.get(key);
    if (entry === undefined || nowMs - entry.sinceMs >= this.#rate.windowMs) {
      this.#seen.delete(key);
      for (const oldest of this.#seen.keys()) {
        if (this.#seen.size < this.#rate.keysMax) break;
        this.#seen.delete(oldest);
      }
      this.#seen.set(key, { sinceMs: nowMs, lines: 1, dropped: 0 });
      return entry?.dropped ?? 0;
    }
    entry.lines += 1;
    if (entry.lines <= this.#rate.linesMax) return 0;
    entry.dropped += 1;
    return undefined;
  }
}

const limiters = new WeakMap<LogOptions, RateLimit>();

type Admit = (event: string, extra: Record<string, unknown>) => boolean;

function build(options: LogOptions, bound: LogFields, admit: Admit): Log {
  const emit = (level: LogLevel, event: string, fields: LogFields | undefined): void => {
    if (order[level] < order[options.level]) return;
    const extra: Record<string, unknown> = {};
    if (!admit(event, extra)) return;
    const all = { ...bound, ...fields, ...extra };
    options.write(
      options.format === 'json'
        ? jsonLine(options, level, [event, all])
        : prettyLine(options, level, [event, all]),
    );
  };
  return {
    debug: (event, fields) => emit('debug', event, fields),
    info: (event, fields) => emit('info', event, fields),
    warn: (event, fields) => emit('warn', event, fields),
    error: (event, fields) => emit('error', event, fields),
    child: (fields) => build(options, { ...bound, ...fields }, admit),
    guest: (sandbox) => {
      const limiter = limiters.get(options) ?? new RateLimit(options.rate);
      limiters.set(options, limiter);
      return build(options, { ...bound, sandbox }, (event, extra) => {
        const dropped = limiter.admit(`${sandbox}\n${event}`, options.nowMs());
        if (dropped !== undefined && dropped > 0) extra['suppressed'] = dropped;
        return dropped !== undefined;
      });
    },
  };
}

function printable(key: string, value: unknown): unknown {
  if (credential.test(key)) return '[redacted]';
  if (value instanceof Error) {
    const code = 'code' in value && typeof value.code === 'string' ? `${value.code}: ` : '';
    const cause = value.cause instanceof Error ? ` (${value.cause.message})` : '';
    return `${code}${value.message}${cause}`.slice(0, valueCharactersMax);
  }
  if (typeof value === 'string') return value.slice(0, valueCharactersMax);
  if (typeof value === 'bigint') return value.toString();
  return value;
}

function jsonLine(
  options: LogOptions,
  level: LogLevel,
  [event, fields]: readonly [string, LogFields],
): string {
  const line: Record<string, unknown> = { time: new Date(options.nowMs()).toISOString(), level, event };
  for (const [key, value] of Object.entries(fields)) line[key] = printable(key, value);
  return `${quoted(line)}\n`;
}

/** JSON that is harmless to a terminal: it leaves some as they are that one obeys, or that turn what stands around them. */
function quoted(value: unknown): string | undefined {
  return JSON.stringify(value)?.replace(/[\u007f-\u009f\p{Cf}\u2028\u2029]/gu, (characters) =>
    Array.from({ length: characters.length }, (_, at) => characters.charCodeAt(at))
      .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

function prettyLine(
  options: LogOptions,
  level: LogLevel,
  [event, fields]: readonly [string, LogFields],
): string {
  const time = new Date(options.nowMs()).toISOString().slice(11, 23);
  // JSON quoting keeps control characters of hostile values from reaching the operator's terminal.
  const rest = Object.entries(fields).map(([key, value]) => ` ${key}=${quoted(printable(key, value))}`);
  return `${time} ${level.padEnd(5)} ${event}${rest.join('')}\n`;
}
