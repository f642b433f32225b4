/** An exec or a cell from Python: by the SDK, and by Python's own HTTP client, which is the floor of an exec. One interpreter for the whole scenario. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const root = join(import.meta.dirname, '../..');

export type Way = 'http.client' | 'sdk' | 'async' | 'cell' | 'async cell';

export class PythonExec implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  /** @param code of the cells */
  constructor(port: string, sandbox: string, code = '') {
    const script = join(root, 'bench/squash/python_exec.py');
    const child = spawn('python3', [script, port, sandbox, code], {
      env: { PATH: process.env['PATH'], PYTHONPATH: join(root, 'python'), PYTHONDONTWRITEBYTECODE: '1' },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Milliseconds, as Python measured them. @throws when it fails */
  async exec(way: Way): Promise<number> {
    this.#child.stdin?.write(`${way}\n`);
    const line = await this.#lines.next();
    if (line.done === true) throw new Error(`the Python program ended at ${way}`);
    return Number(line.value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return;
    this.#child.stdin?.end();
    await once(this.#child, 'close');
  }
}
