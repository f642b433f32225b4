/** The user's repository as what comes out of a box needs it: what is in it, and branches that come to it. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { GitDirectories } from '../worktree.ts';
import { GitProblem } from './problem.ts';
import { gitLimits, HostGit } from './host-git.ts';

export interface HostRepository {
  /** Its top. */
  readonly path: string;
  readonly directories: GitDirectories;
  readonly program: string;
}

/** A branch as a box tells of it. */
export interface BoxBranch {
  readonly name: string;
  readonly tip: string;
}

export interface Wanted extends BoxBranch {
  /** The whole name of the branch here. */
  readonly target: string;
  /** What the target is now. */
  readonly before: string | undefined;
  /** All its commits are here: nothing has to come. */
  readonly isHere: boolean;
}

export interface Fetched {
  readonly branch: string;
  /** Without `refs/heads/`. */
  readonly as: string;
  readonly tip: string;
  readonly before: string | null;
}

/**
 * A directory of our own for as long as commits come, with a repository that borrows the user's objects. What a box hands out is
 * unpacked there, and only what git finds sound goes on.
 */
export class Quarantine implements Disposable {
  readonly directory: string;
  readonly #repository: HostRepository;
  readonly #signal: AbortSignal;

  /** @param within a directory that no box sees */
  constructor(repository: HostRepository, within: string, signal: AbortSignal) {
    mkdirSync(within, { recursive: true, mode: 0o700 });
    removeAbandoned(within);
    this.directory = mkdtempSync(join(within, prefix));
    this.#repository = repository;
    this.#signal = signal;
  }

  get bundle(): string {
    return join(this.directory, 'bundle');
  }

  /** Over the user's repository. */
  get host(): HostGit {
    const { program, directories } = this.#repository;
    return new HostGit({
      program,
      gitDirectory: directories.common,
      cwd: this.directory,
      signal: this.#signal,
    });
  }

  get #quarantine(): string {
    return join(this.directory, 'quarantine');
  }

  get #own(): HostGit {
    return this.host.with({ gitDirectory: this.#quarantine });
  }

  async tips(): Promise<readonly string[]> {
    const lines = await this.host.lines([
      'for-each-ref',
      `--count=${gitLimits.tipsMax}`,
      '--sort=-committerdate',
      '--format=%(if)%(*objectname)%(then)%(*objecttype) %(*objectname)%(else)%(objecttype) %(objectname)%(end)',
    ]);
    const head = await this.host.end(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}']);
    const commits = lines.flatMap((line) => (line.startsWith('commit ') ? [line.slice(7)] : []));
    return [...new Set([...commits, ...(head.status === 0 ? [head.stdout.toString().trim()] : [])])];
  }

  /** Whether some branch or tag here has it. What is gone from all of them is not here, though its objects may be. */
  async isHere(tip: string): Promise<boolean> {
    const known = await this.host.end(['cat-file', '-e', `${tip}^{commit}`]);
    if (known.status !== 0) return false;
    const { status, stdout } = await this.host.end(['rev-list', '-n', '1', tip, '--not', '--all']);
    return status === 0 && stdout.length === 0;
  }

  async valueOf(ref: string): Promise<string | undefined> {
    const { status, stdout } = await this.host.end(['rev-parse', '--verify', '--quiet', `${ref}^{commit}`]);
    return status === 0 ? stdout.toString().trim() : undefined;
  }

  /** In any worktree. */
  async checkedOut(): Promise<ReadonlySet<string>> {
    const lines = await this.host.lines(['worktree', 'list', '--porcelain']);
    return new Set(lines.flatMap((line) => (line.startsWith('branch ') ? [line.slice(7)] : [])));
  }

  /**
   * Judges what is in the bundle, and makes branches of it here.
   * @throws bundle_refused, branch_diverged, git_failed
   */
  async take(
    branches: readonly Wanted[],
    { tips, force }: { readonly tips: readonly string[]; readonly force: boolean },
  ): Promise<readonly Fetched[]> {
    await this.#make(tips);
    const coming = [...branches.entries()].filter(([, { isHere }]) => !isHere);
    const own = this.#own;
    if (coming.length > 0) {
      const specs = coming.map(([at, { name }]) => `refs/heads/${name}:refs/box/${at}`);
      await refusing(async () => await own.text(['fetch', ...quietly, this.bundle, ...specs]));
    }
    for (const [at, { tip, isHere }] of branches.entries())
      if (isHere) await own.text(['update-ref', `refs/box/${at}`, tip]);
    const fetched: Fetched[] = [];
    for (const [at, { name, target, before }] of branches.entries()) {
      const tip = (await own.text(['rev-parse', '--verify', `refs/box/${at}^{commit}`])).trim();
      if (before !== undefined && !force) await this.#checkForward(before, tip, target);
      fetched.push({ branch: name, as: target.slice('refs/heads/'.length), tip, before: before ?? null });
    }
    const specs = branches.map(({ target }, at) => `${force ? '+' : ''}refs/box/${at}:${target}`);
    // Here each object is looked at, before it is any repository's.
    await refusing(async () => await this.host.text(['fetch', ...quietly, this.#quarantine, ...specs]));
    return fetched;
  }

  async #make(tips: readonly string[]): Promise<void> {
    const { common } = this.#repository.directories;
    const objects = join(common, 'objects');
    if (/[\n\r]/.test(objects)) throw new GitProblem('not_a_repository', 'its path has a line end');
    const format = (await this.host.text(['rev-parse', '--show-object-format'])).trim();
    const own = this.#quarantine;
    const template = join(this.directory, 'template');
    mkdirSync(template);
    const words = ['init', '--quiet', '--bare', `--template=${template}`, `--object-format=${format}`, own];
    await this.#own.text(words);
    mkdirSync(join(own, 'objects/info'), { recursive: true });
    writeFileSync(join(own, 'objects/info/alternates'), `${objects}\n`);
    const shallow = join(common, 'shallow');
    if (existsSync(shallow)) copyFileSync(shallow, join(own, 'shallow'));
    // A bundle stands on commits that the repository has by name.
    const named = tips.map((tip, at) => `${tip} refs/host/${String(at).padStart(4, '0')}\n`);
    writeFileSync(join(own, 'packed-refs'), `# pack-refs with: sorted \n${named.join('')}`);
  }

  async #checkForward(before: string, tip: string, target: string): Promise<void> {
    const { status } = await this.#own.end(['merge-base', '--is-ancestor', before, tip]);
    if (status === 0) return;
    throw new GitProblem(
      'branch_diverged',
      `"${target.slice('refs/heads/'.length)}" here has commits that the box’s branch has not: --as another name, or --force`,
    );
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const prefix = 'git-';
const abandonedMs = 24 * 60 * 60_000;

/** Of calls that were killed. */
function removeAbandoned(within: string): void {
  for (const name of readdirSync(within).filter((each) => each.startsWith(prefix))) {
    const stats = statSync(join(within, name), { throwIfNoEntry: false });
    if (stats !== undefined && Date.now() - stats.mtimeMs > abandonedMs)
      rmSync(join(within, name), { recursive: true, force: true });
  }
}

const quietly = ['--quiet', '--no-tags', '--no-write-fetch-head', '--no-recurse-submodules'];

async function refusing(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (failure) {
    if (!(failure instanceof GitProblem) || failure.code !== 'git_failed') throw failure;
    throw new GitProblem('bundle_refused', `git refuses what the box gave: ${failure.message}`);
  }
}
