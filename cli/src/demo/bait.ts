/**
 * What `squash demo` lays out on this machine for its own sandbox to go after: a file, a process, a port, a value. Whether an
 * attempt got through is read off these, not off what the sandbox says.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { CliFailure } from '../failure.ts';

const random = (): string => randomBytes(12).toString('hex');

export class Bait implements AsyncDisposable {
  /** In the caller's home where he may write there; for him alone. */
  readonly file: string;
  readonly content: string = random();
  /** Among the words of the process. */
  readonly word = `squash-demo-${random()}`;
  readonly secret = `sk-demo-${random()}`;
  readonly #process: ChildProcess;
  readonly #server: Server;
  #visits = 0;

  private constructor(server: Server) {
    this.file = this.#writeFile();
    // It waits for a line that never comes, and so ends with us.
    this.#process = spawn('/bin/sh', ['-c', 'read line', this.word], { stdio: ['pipe', 'ignore', 'ignore'] });
    this.#process.on('error', () => undefined);
    this.#server = server.on('connection', (socket) => {
      this.#visits += 1;
      socket.on('error', () => socket.destroy()).end('visited\n');
    });
  }

  static async lay(): Promise<Bait> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Bait(server);
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  get isProcessAlive(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get visits(): number {
    return this.#visits;
  }

  /** For a signal's handler, too. */
  removeFile(): void {
    rmSync(this.file, { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.removeFile();
    const ended = this.isProcessAlive ? once(this.#process, 'exit') : undefined;
    this.#process.kill('SIGKILL');
    await ended;
    this.#server.close();
  }

  #writeFile(): string {
    for (const directory of [homedir(), tmpdir()]) {
      const file = join(directory, `.squash-demo-${random()}`);
      try {
        writeFileSync(file, `${this.content}\n`, { mode: 0o600, flag: 'wx' });
        return file;
      } catch {
        // Not everybody has a home that he may write in.
      }
    }
    throw new CliFailure(
      'file_unwritable',
      'neither your home nor the directory for temporary files can be written to',
    );
  }
}
