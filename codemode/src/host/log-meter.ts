/**
 * The log of one run, counted as it comes. The kernel stops at the limits by itself and says how much it left out; a worker that goes on
 * is not running our kernel any more.
 */
import type { Limits } from '../limits.ts';
import type { LogLevel } from '../types.ts';

/** `bridge` is what codemode-bridge prints, `cloudflare` what @cloudflare/codemode does. */
export type LogStyle = 'bridge' | 'cloudflare';

const prefixes: Readonly<Record<LogStyle, Partial<Record<LogLevel, string>>>> = {
  bridge: { warn: '[WARN] ', error: '[ERROR] ', debug: '[DEBUG] ', trace: '[DEBUG] ' },
  cloudflare: { warn: '[warn] ', error: '[error] ' },
};

export class LogMeter {
  readonly lines: string[] = [];
  readonly #limits: Limits;
  readonly #style: LogStyle;
  #bytes = 0;

  constructor(limits: Limits, style: LogStyle) {
    this.#limits = limits;
    this.#style = style;
  }

  /** False where the worker writes more than the kernel would let through. */
  add(level: LogLevel, text: string): boolean {
    this.#bytes += text.length + 1;
    // The kernel's last line may pass the limit by its mark.
    if (this.lines.length >= this.#limits.logLines || this.#bytes > this.#limits.logBytes + 64) return false;
    this.lines.push(`${prefixes[this.#style][level] ?? ''}${text}`);
    return true;
  }

  finish(dropped: number): void {
    if (dropped > 0) this.lines.push(`--- TRUNCATED --- ${dropped} more lines`);
  }
}
