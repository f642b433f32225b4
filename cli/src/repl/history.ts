/** Lines that were typed, kept for the next session. A machine that lets us keep none has none. */
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';

/** As many as are remembered; the file is cut to them when it has grown to twice as many. */
export const historyLinesMax = 1_000;

export class History {
  readonly #path: string;
  /** The newest first. */
  readonly lines: readonly string[];

  constructor(language: string) {
    const state = process.env['XDG_STATE_HOME'] || join(userInfo().homedir, '.local/state');
    this.#path = join(state, 'squash', `repl-${language}`);
    const all = this.#read();
    this.lines = all.slice(-historyLinesMax).toReversed();
    if (all.length > 2 * historyLinesMax) this.#write(all.slice(-historyLinesMax));
  }

  add(line: string): void {
    if (line.trim() === '') return;
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      appendFileSync(this.#path, `${line}\n`, { mode: 0o600 });
    } catch {
      // Read-only, full, or another's: what was typed still runs.
    }
  }

  #read(): readonly string[] {
    try {
      return readFileSync(this.#path, 'utf8')
        .split('\n')
        .filter((line) => line !== '');
    } catch {
      // None yet.
      return [];
    }
  }

  #write(lines: readonly string[]): void {
    try {
      writeFileSync(this.#path, lines.map((line) => `${line}\n`).join(''), { mode: 0o600 });
    } catch {
      // As above.
    }
  }
}
