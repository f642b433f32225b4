/**
 * Where the boxes of a test are: data directory, configuration and state in a directory of the test, the repository in the home, as a user's is. The
 * daemon of boxes ends two seconds behind the last one.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { type CliEnd, squash } from './cli.ts';
import { removeDataDirectory } from './data-directory.ts';
import { expectNoLeaks, processesOf } from './leaks.ts';
import { ownedPrefix } from './owned-directory.ts';
import { waitFor } from './wait.ts';

export class BoxPlace implements AsyncDisposable {
  readonly scratch: string;
  /** In the home. */
  readonly work: string;
  /** An empty git repository, in which commands run. */
  readonly repository: string;
  readonly env: Record<string, string>;

  /** @param repository below `work`; none: `work` itself */
  constructor(name: string, repository = '') {
    this.scratch = mkdtempSync(join(tmpdir(), ownedPrefix(name)));
    this.work = mkdtempSync(join(userInfo().homedir, `squash-${name}-`));
    this.repository = join(this.work, repository);
    mkdirSync(join(this.scratch, 'config/squash'), { recursive: true });
    execFileSync('git', ['init', '-q', this.repository]);
    this.env = {
      SQUASH_BOX_DATA: this.dataDir,
      SQUASH_DATA: join(this.scratch, 'none'),
      SQUASH_IDLE_EXIT_S: '2',
      SQUASH_MEMORY_RESERVE_MB: '0',
      XDG_CONFIG_HOME: join(this.scratch, 'config'),
      XDG_STATE_HOME: join(this.scratch, 'state'),
    };
  }

  get dataDir(): string {
    return join(this.scratch, 'data');
  }

  /** `squash box …` in the repository. */
  async box(...words: readonly string[]): Promise<CliEnd> {
    return await squash(undefined, ['box', ...words], { cwd: this.repository, env: this.env });
  }

  /** The same, which must succeed: what it printed. */
  async printed(...words: readonly string[]): Promise<string> {
    const end = await this.box(...words);
    assert.equal(end.code, 0, end.stderr);
    return end.stdout.toString();
  }

  /** Resolves when no daemon of it runs. */
  async ended(): Promise<void> {
    await waitFor('the daemon to end', () => processesOf(this.dataDir).length === 0, 60_000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ended();
    await expectNoLeaks(this.dataDir);
    rmSync(this.work, { recursive: true, force: true });
    await removeDataDirectory(this.scratch);
  }
}
