/** A daemon with a sandbox, and OpenSSH's client configured for it by `squash ssh --config`, in a directory of their own. */
import { execFileSync, spawn, type SpawnOptions } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { repository } from './base-layer.ts';
import { type CliEnd, cliCommand, cliEnvironment, endOf, squashOk } from './cli.ts';
import { type DaemonOptions, TestDaemon } from './daemon.ts';
import { ownedPrefix } from './owned-directory.ts';

export class SshScene implements AsyncDisposable {
  readonly daemon: TestDaemon;
  readonly directory: string;
  readonly env: Readonly<Record<string, string>>;
  readonly config: string;

  private constructor(daemon: TestDaemon, directory: string) {
    this.daemon = daemon;
    this.directory = directory;
    this.config = join(directory, 'config');
    this.env = { ...cliEnvironment(daemon), XDG_CONFIG_HOME: directory, LC_ALL: 'C.UTF-8' };
  }

  static async start(ids: readonly string[], options: DaemonOptions = {}): Promise<SshScene> {
    const daemon = await TestDaemon.start(options);
    const scene = new SshScene(daemon, mkdtempSync(join(tmpdir(), ownedPrefix('ssh'))));
    try {
      for (const id of ids) await squashOk(daemon, ['create', id, '--layers', '000-base-test']);
      const lines = await squashOk(daemon, ['ssh', '--config'], { env: scene.env });
      // The project's own starter looks whether programs must be compiled, which tests side by side must not do.
      writeFileSync(scene.config, lines.replace(join(repository, 'squash'), cliCommand.join(' ')));
      return scene;
    } catch (error) {
      await scene[Symbol.asyncDispose]();
      throw error;
    }
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  /** A client, by its words; `ssh`, `scp` and `sftp` read the configuration. */
  spawn(program: string, words: readonly string[], options: SpawnOptions = {}) {
    const isOpenSsh = ['ssh', 'scp', 'sftp'].includes(program);
    return spawn(program, [...(isOpenSsh ? ['-F', this.config] : []), ...words], {
      ...options,
      cwd: this.directory,
      env: { ...this.env, ...options.env },
    });
  }

  async run(program: string, words: readonly string[], input?: Uint8Array | string): Promise<CliEnd> {
    const child = this.spawn(program, words);
    // One that ends without reading breaks the pipe; its exit code tells.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
    return await endOf(child);
  }

  /** What it printed. */
  async runOk(program: string, words: readonly string[], input?: Uint8Array | string): Promise<string> {
    const end = await this.run(program, words, input);
    if (end.code !== 0) throw new Error(`${program} ${words.join(' ')}: ${end.code} ${end.stderr}`);
    return end.stdout.toString();
  }

  /** Programs of this machine in the sandbox, with the libraries that they load. */
  async bring(id: string, programs: readonly string[]): Promise<void> {
    const files = programs.flatMap((program) => [
      program,
      ...[...execFileSync('ldd', [program], { encoding: 'utf8' }).matchAll(/(\/\S+) \(0x/g)].map(
        ([, path = '']) => path,
      ),
    ]);
    const names = [...new Set(files)].map((path) => path.slice(1));
    const tar = execFileSync('tar', ['-c', '--dereference', '-C', '/', ...names], { maxBuffer: 1 << 28 });
    const answer = await fetch(`${this.daemon.url}/v1/sandboxes/${id}/files/archive?path=/`, {
      method: 'PUT',
      headers: { 'content-type': 'application/x-tar' },
      body: tar,
    });
    if (answer.status !== 200) throw new Error(await answer.text());
  }

  makeDirectory(name: string): string {
    mkdirSync(this.path(name), { recursive: true });
    return this.path(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    rmSync(this.directory, { recursive: true, force: true });
    await this.daemon[Symbol.asyncDispose]();
  }
}
