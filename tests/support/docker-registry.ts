/** Debian's docker-registry as a process of ours, on loopback. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { waitFor } from './wait.ts';

export interface DockerRegistryOptions {
  /** Its blobs are in `data` there, which several may share. */
  readonly directory: string;
  readonly port?: number;
  /** As its configuration has it; none: anybody may do anything. */
  readonly auth?: Readonly<Record<string, object>>;
}

export class DockerRegistry implements AsyncDisposable {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(port: number, child: ChildProcess) {
    this.port = port;
    this.#child = child;
  }

  static async start({ directory, port: wanted, auth }: DockerRegistryOptions): Promise<DockerRegistry> {
    const port = wanted ?? (await freePort());
    const config = {
      version: 0.1,
      log: { level: 'error' },
      storage: { filesystem: { rootdirectory: join(directory, 'data') } },
      http: { addr: `127.0.0.1:${port}` },
      ...(auth !== undefined && { auth }),
    };
    const path = join(directory, `registry-${port}.yml`);
    // JSON is YAML.
    writeFileSync(path, JSON.stringify(config));
    const child = spawn('docker-registry', ['serve', path], { stdio: 'ignore' });
    const registry = new DockerRegistry(port, child);
    const status = auth === undefined ? 200 : 401;
    try {
      await waitFor('the registry', () =>
        fetch(`http://127.0.0.1:${port}/v2/`).then(
          (answer) => answer.status === status,
          () => false,
        ),
      );
    } catch (error) {
      await registry[Symbol.asyncDispose]();
      throw error;
    }
    return registry;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const isOver = this.#child.exitCode !== null || this.#child.signalCode !== null;
    const ended = isOver || this.#child.pid === undefined ? undefined : once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}
