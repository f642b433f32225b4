/**
 * The user's terminal in raw mode, and back again on every way out.
 *
 * `setRawMode` of Node leaves output processing on (`\n` becomes `\r\n`), which garbles full-screen programs;
 * `stty raw` is the real thing. Three things put the terminal back: `restore`; Node itself, which at exit
 * and after a fatal exception resets what it found at start; and a guard process that does it when we are
 * killed with SIGKILL.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import type { Writable } from 'node:stream';
import { systemPath } from '@squash/contract/system-path';

/**
 * Waits for our end. A line means that the terminal is in order; the end of input without one that we were killed.
 * A process outside the foreground group is stopped by SIGTTOU when it changes the terminal, unless ignored.
 */
const guardScript = `trap '' TTOU TTIN TSTP INT QUIT HUP TERM; read -r line <&3 || stty "$1"`;

const env = { PATH: systemPath };

export class RawTerminal {
  readonly #saved: string;
  readonly #guard: ChildProcess;
  #ended = false;

  private constructor(saved: string, guard: ChildProcess) {
    this.#saved = saved;
    this.#guard = guard;
  }

  /** Standard input must be a terminal. */
  static enter(): RawTerminal {
    const saved = stty(['-g']).trim();
    const guard = spawn('/bin/sh', ['-c', guardScript, 'squash-terminal', saved], {
      env,
      stdio: ['inherit', 'ignore', 'ignore', 'pipe'],
    });
    // A guard that can't be started leaves the other two ways; a guard that is gone must not end us.
    guard.on('error', () => {});
    guard.stdio[3]?.on('error', () => {});
    guard.unref();
    const terminal = new RawTerminal(saved, guard);
    terminal.resume();
    return terminal;
  }

  /** Raw again, after `suspend`. */
  resume(): void {
    if (this.#ended) return;
    stty(['raw', '-echo']);
  }

  /** As it was, for as long as we are stopped. */
  suspend(): void {
    stty([this.#saved]);
  }

  /** Idempotent. */
  restore(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.suspend();
    const pipe = this.#guard.stdio[3] as Writable | null | undefined;
    pipe?.end('restored\n');
  }
}

function stty(words: readonly string[]): string {
  try {
    return execFileSync('stty', words, { env, stdio: ['inherit', 'pipe', 'ignore'], encoding: 'utf8' });
  } catch {
    // The terminal was hung up: there is nothing left to set.
    return '';
  }
}
