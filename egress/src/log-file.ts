/**
 * `log/egress.log`: one line after the other, set aside once as `egress.log.1` when it is large.
 *
 * Written synchronously: a line that explains why the process died must be there when it has died.
 */
import { closeSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { egressLimits as limits } from './limits.ts';

export class LogFile implements Disposable {
  readonly #path: string;
  #fd: number;
  #bytes: number;

  constructor(path: string) {
    this.#path = path;
    mkdirSync(dirname(path), { recursive: true });
    this.#fd = openSync(path, 'a', 0o600);
    this.#bytes = fstatSync(this.#fd).size;
  }

  write(line: string): void {
    try {
      if (this.#bytes > limits.logBytesMax) this.#turn();
      this.#bytes += writeSync(this.#fd, line);
    } catch {
      // A full disk: the line is lost, the network goes on.
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd);
  }

  #turn(): void {
    renameSync(this.#path, `${this.#path}.1`);
    const before = this.#fd;
    this.#fd = openSync(this.#path, 'a', 0o600);
    this.#bytes = 0;
    closeSync(before);
  }
}
