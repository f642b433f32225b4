/**
 * Git inside a box. Whatever it says is the box's word: names are checked, all else is only shown.
 */
import { closeSync, openSync, writeSync } from 'node:fs';
import { isBranchName } from '@squash/box/git/branch-names';
import { gitLimits } from '@squash/box/git/host-git';
import type { BoxBranch } from '@squash/box/git/repository';
import { GitProblem } from '@squash/box/git/problem';
import type { Client } from '../client/client.ts';
import { visible } from '../output/print.ts';
import { type Captured, captured } from './captured.ts';
import { gitWords } from './git-words.ts';

const environment = { LC_ALL: 'C.UTF-8', GIT_TERMINAL_PROMPT: '0', GIT_EDITOR: 'true' };

export interface BoxCommit {
  readonly commit: string;
  readonly author: string;
  readonly date: string;
  readonly subject: string;
}

export interface NewBranch {
  readonly name: string;
  /** Where it begins. */
  readonly base: string;
}

export interface BoxGitBounds {
  readonly bundleBytesMax: number;
  /** Of each command. */
  readonly timeMsMax: number;
}

export interface BoxGitPlace {
  readonly repository: string;
  /** Breaks it off. */
  readonly signal: AbortSignal;
  readonly bounds?: BoxGitBounds;
}

const defaultBounds = { bundleBytesMax: gitLimits.bundleBytesMax, timeMsMax: gitLimits.timeMsMax };
const object = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;
const branchPrefix = 'refs/heads/';

export class BoxGit {
  readonly #client: Client;
  readonly #id: string;
  readonly #repository: string;
  readonly #signal: AbortSignal;
  readonly #bounds: BoxGitBounds;

  constructor(client: Client, id: string, { repository, signal, bounds = defaultBounds }: BoxGitPlace) {
    this.#client = client;
    this.#id = id;
    this.#repository = repository;
    this.#signal = signal;
    this.#bounds = bounds;
  }

  /** @param leftOut gets the names that are no names for us */
  async branches(leftOut: string[] = []): Promise<readonly BoxBranch[]> {
    const text = await this.text(['for-each-ref', '--format=%(objectname) %(refname)', branchPrefix]);
    const branches = new Map<string, string>();
    for (const line of text.split('\n').filter((each) => each !== '')) {
      const at = line.indexOf(' ');
      const [tip, ref] = [line.slice(0, at), line.slice(at + 1)];
      const name = ref.startsWith(branchPrefix) ? ref.slice(branchPrefix.length) : '';
      if (object.test(tip) && isBranchName(name)) branches.set(name, tip);
      else leftOut.push(ref);
      if (branches.size + leftOut.length > gitLimits.branchesMax)
        throw new GitProblem('git_too_large', `the box has more than ${gitLimits.branchesMax} branches`);
    }
    return [...branches].map(([name, tip]) => ({ name, tip }));
  }

  /** What is checked out. Undefined: no branch. */
  async current(): Promise<string | undefined> {
    const { exitCode, stdout } = await this.run(['symbolic-ref', '--quiet', 'HEAD']);
    const ref = stdout.toString('utf8').trim();
    const name = ref.startsWith(branchPrefix) ? ref.slice(branchPrefix.length) : '';
    return exitCode === 0 && isBranchName(name) ? name : undefined;
  }

  /** Newest first, as the box tells them. */
  async commits(
    { tip }: BoxBranch,
    { tips, max }: { readonly tips: readonly string[]; readonly max: number },
  ): Promise<readonly BoxCommit[]> {
    const how = ['--no-color', '--ignore-missing', `--max-count=${max}`, '--format=%H%x1f%an%x1f%aI%x1f%s'];
    const text = await this.text(['log', '-z', ...how, tip, '--not', ...tips, '--']);
    return text.split('\0').flatMap((record) => {
      const [commit = '', author = '', date = '', ...subject] = record.split('\x1f');
      return object.test(commit) ? [{ commit, author, date, subject: subject.join(' ') }] : [];
    });
  }

  async writeBundle(
    file: string,
    { branches, tips }: { readonly branches: readonly BoxBranch[]; readonly tips: readonly string[] },
  ): Promise<void> {
    const fd = openSync(file, 'wx', 0o600);
    try {
      const refs = branches.map(({ name }) => `${branchPrefix}${name}`);
      const words = ['bundle', 'create', '--quiet', '-', '--ignore-missing', ...refs, '--not', ...tips];
      const { exitCode, stderr } = await this.run(words, {
        bytesMax: this.#bounds.bundleBytesMax,
        take: (part) => {
          for (let at = 0; at < part.length; ) at += writeSync(fd, part, at);
        },
      });
      if (exitCode !== 0) throw failed('bundle', stderr);
    } finally {
      closeSync(fd);
    }
  }

  /** Also where nothing was: then there is no commit. @param base what the branch is set back to before */
  async commitAll(message: string, base: string | undefined): Promise<void> {
    if (base !== undefined) await this.text(['reset', '--quiet', '--soft', base]);
    await this.text(['add', '--all']);
    const staged = await this.run(['diff', '--cached', '--quiet', '--no-ext-diff']);
    if (staged.exitCode === 0) return;
    const named = [await this.run(['config', 'user.name']), await this.run(['config', 'user.email'])];
    const who = named.every((each) => each.exitCode === 0)
      ? []
      : ['-c', 'user.name=squash box', '-c', 'user.email=box@localhost'];
    const words = [...who, 'commit', '--quiet', '--no-verify', '-m', message];
    const { exitCode, stderr } = await this.run(words);
    if (exitCode !== 0) throw failed('commit', stderr);
  }

  /** A new branch, and nothing that is on no branch: the user's own changes do not belong to this task. Ignored files stay. */
  async startBranch({ name, base }: NewBranch, workdir: string): Promise<void> {
    const start = await this.run(['checkout', '--quiet', '--force', '--no-track', '-b', name, base, '--']);
    if (start.exitCode !== 0) throw (await this.#isUnborn()) ? unborn() : failed('checkout', start.stderr);
    // Twice `-f`: repositories that lie in this one and are no submodules go as well, else a merge would commit them as links to nowhere.
    const clean = await this.run(['clean', '-f', '-f', '-d', '--quiet']);
    if (clean.exitCode !== 0) throw failed('clean', clean.stderr);
    // The user may stand in a directory that is in no commit.
    await this.#capture(['mkdir', '-p', '--', workdir]);
  }

  async #isUnborn(): Promise<boolean> {
    return (await this.run(['rev-parse', '--verify', '--quiet', 'HEAD'])).exitCode !== 0;
  }

  /** Whether there is anything that is on no branch. */
  async isDirty(): Promise<boolean> {
    return (await this.text(['status', '--porcelain', '--no-renames'])) !== '';
  }

  async text(words: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(words);
    if (exitCode !== 0) throw failed(words[0] ?? '', stderr);
    return stdout.toString('utf8');
  }

  async run(
    words: readonly string[],
    more: { readonly bytesMax?: number; readonly take?: (part: Buffer) => void } = {},
  ): Promise<Captured> {
    return await this.#capture([...gitWords, ...words], more);
  }

  async #capture(
    argv: readonly string[],
    more: { readonly bytesMax?: number; readonly take?: (part: Buffer) => void } = {},
  ): Promise<Captured> {
    return await captured(this.#client, this.#id, {
      argv,
      env: environment,
      cwd: this.#repository,
      bytesMax: gitLimits.boxTextBytesMax,
      timeMsMax: this.#bounds.timeMsMax,
      signal: this.#signal,
      ...more,
    });
  }
}

function failed(word: string, said: string): GitProblem {
  return new GitProblem('git_failed', `git ${word} in the box failed: ${visible(said)}`);
}

function unborn(): GitProblem {
  return new GitProblem('git_failed', 'the repository has no commit, and a branch begins at one: git commit');
}
