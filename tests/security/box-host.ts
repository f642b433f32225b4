/** A host with a box daemon of its own in tests: a directory that boxes have copy-on-write, and what a careless apply makes of it. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import type { ChangeApplied } from '@squash/contract/changes';
import { type CliEnd, squash } from '../support/cli.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { processesOf, signalAll } from '../support/leaks.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';

export type Outcomes = ReadonlyMap<string, string>;

/** As a box's owner has them, whose programs run without him. */
const gitEnv = {
  PATH: '/usr/bin:/bin',
  GIT_AUTHOR_NAME: 'u',
  GIT_AUTHOR_EMAIL: 'u@example.com',
  GIT_COMMITTER_NAME: 'u',
  GIT_COMMITTER_EMAIL: 'u@example.com',
  GIT_CONFIG_NOSYSTEM: '1',
};

/** Whatever comes of it: its output, or what it said when it failed. */
export function git(directory: string, ...words: readonly string[]): string {
  const end = spawnSync('git', ['-C', directory, ...words], {
    env: { ...gitEnv, HOME: '/nowhere' },
    encoding: 'utf8',
    timeout: 10_000,
  });
  return `${end.stdout}${end.stderr}`;
}

export class BoxHost implements AsyncDisposable {
  readonly data: string;
  /** Above what boxes have, so that there is something beside it. */
  readonly top: string;
  /** A repository, with whatever a test puts there. */
  readonly work: string;
  readonly #env: Readonly<Record<string, string>>;

  /** @param dataIn where the box daemon's data lie: another file system than the home, for one */
  constructor(dataIn = tmpdir()) {
    this.data = join(mkdtempSync(join(dataIn, ownedPrefix('box'))), 'data');
    this.top = mkdtempSync(join(userInfo().homedir, 'squash-box-test-'));
    this.work = join(this.top, 'work');
    mkdirSync(this.work);
    execFileSync('git', ['init', '-q', this.work]);
    this.#env = {
      SQUASH_BOX_DATA: this.data,
      SQUASH_DATA: join(this.data, 'none'),
      SQUASH_IDLE_EXIT_S: '5',
      // Room for a quarter of a million names.
      SQUASH_UPPER_LIMIT_MB: '2048',
      SQUASH_MEMORY_RESERVE_MB: '0',
    };
  }

  get environment(): Readonly<Record<string, string>> {
    return this.#env;
  }

  async box(...words: readonly string[]): Promise<CliEnd> {
    return await squash(undefined, ['box', ...words], { cwd: this.work, env: this.#env });
  }

  async printed(...words: readonly string[]): Promise<string> {
    const end = await this.box(...words);
    assert.equal(end.code, 0, `${words.join(' ').slice(0, 300)}: ${end.stderr}`);
    return end.stdout.toString();
  }

  /** Its script has ended, and its files stay. */
  async make(name: string, script: string, ...words: readonly string[]): Promise<void> {
    await this.printed('run', '--keep', '--name', name, ...words, '--', 'sh', '-c', script);
  }

  /** One that goes on. */
  async start(name: string, script: string): Promise<void> {
    await this.printed('run', '-d', '--name', name, '--', 'sh', '-c', script);
  }

  async id(name: string): Promise<string> {
    const [row = ''] = (await this.printed('ps')).split('\n').filter((line) => line.includes(` ${name} `));
    return row.split(/\s+/)[0] ?? '';
  }

  /** What became of each name. */
  async apply(name: string, ...words: readonly string[]): Promise<Outcomes> {
    const { stdout, stderr } = await this.box('apply', name, '--json', ...words);
    assert.notEqual(stdout.length, 0, stderr);
    const { items }: ChangeApplied = JSON.parse(stdout.toString());
    return new Map(items.map(({ path, outcome }) => [path, outcome]));
  }

  async remove(name: string): Promise<void> {
    await this.printed('rm', name);
  }

  /** What the box has written, as it lies in the daemon's data. */
  async upper(name: string): Promise<string> {
    const uppers = join(this.data, 'sandboxes', await this.id(name), 'uppers');
    const newest = readdirSync(uppers)
      .map(Number)
      .toSorted((one, other) => other - one)[0];
    return join(uppers, `${newest}`, 'data', this.work);
  }

  /** The same tree, with what the box wrote copied over it: `-a` keeps all, whiteouts remove. Files of any subordinate id are read. */
  async careless(name: string, before: string): Promise<string> {
    const upper = await this.upper(name);
    const target = `${before}-careless`;
    const script = `
      cd "$1" && cp -a "$3" "$2" || exit 0
      find . ! -type d -exec sh -c 'for each; do { [ -c "$each" ] || [ -d "$0/$each" ] && [ ! -L "$0/$each" ]; } && rm -rf "$0/$each"; done' "$2" {} +
      tar -cf - . | tar -C "$2" --keep-directory-symlink --overwrite --no-same-owner -xpf -
      find . -type s -exec cp -a --parents {} "$2" ';'
      exit 0`;
    this.#asRoot('sh', '-c', script, 'sh', upper, target, before);
    return target;
  }

  /** Of a namespace in which the box's ids are there. */
  #asRoot(...words: readonly string[]): void {
    const whole = ['--map-root-user', '--', ...words];
    const options = { stdio: 'ignore', timeout: 40_000 } as const;
    if (spawnSync('unshare', ['--map-auto', ...whole], options).status !== 0)
      spawnSync('unshare', whole, options);
  }

  copyOfWork(): string {
    mkdirSync(join(this.top, 'careless/outside'), { recursive: true });
    writeFileSync(join(this.top, 'careless/outside/secret'), 'secret\n');
    const target = join(this.top, 'careless/before');
    execFileSync('cp', ['-a', this.work, target]);
    return target;
  }

  /** One of the programs behind a box: `serve` or `resident` in its words. */
  kill(program: 'host/src/' | 'squash-launch resident'): boolean {
    const found = processesOf(this.data).filter(({ command }) => command.includes(program));
    signalAll(this.data, 'SIGKILL', ({ pid }) => found.some((each) => each.pid === pid));
    return found.length > 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await removeAbandoned(join(this.data, '..'));
    await removeDataDirectory(this.top);
    if (existsSync(this.top)) rmSync(this.top, { recursive: true, force: true });
  }
}
