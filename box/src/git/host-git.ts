/**
 * Git on this machine, over the user's repository, for what comes out of a box.
 *
 * It reads the repository's own configuration, which is the user's, and runs nothing that stands in there: no hooks, no monitor, no
 * filters, no transport but that of files. It stands in a directory of our own, and what a box can write is none of its metadata:
 * `git status` in a tree that a box wrote would run what the box wants.
 */
import { spawn } from 'node:child_process';
import { dirname, isAbsolute } from 'node:path';
import { isWithin } from '@squash/policy/paths/levels';
import { findProgram } from '../program.ts';
import type { GitDirectories } from '../worktree.ts';
import { GitProblem } from './problem.ts';

export const gitLimits = {
  /** Of what a box hands out as commits. */
  bundleBytesMax: 512 * 1_048_576,
  /** Of all else that a git says: here, and in the box. */
  textBytesMax: 32 * 1_048_576,
  boxTextBytesMax: 4 * 1_048_576,
  /** In the box, and here. */
  timeMsMax: 120_000,
  branchesMax: 500,
  /** Commits of this repository that a box is told of, so that it need not hand them out. */
  tipsMax: 400,
} as const;

const settings = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.attributesFile=/dev/null',
  // Each of these is a program.
  'core.alternateRefsCommand=true',
  'core.sshCommand=false',
  'core.editor=false',
  'core.pager=cat',
  'gpg.program=false',
  'gpg.openpgp.program=false',
  'gpg.ssh.program=false',
  'gpg.x509.program=false',
  'gpg.ssh.defaultKeyCommand=false',
  'commit.gpgSign=false',
  'merge.verifySignatures=false',
  'log.showSignature=false',
  'credential.helper=',
  'protocol.allow=never',
  'protocol.ext.allow=never',
  'protocol.file.allow=always',
  'gc.auto=0',
  'maintenance.auto=false',
  'submodule.recurse=false',
  'fetch.recurseSubmodules=false',
  'fetch.writeCommitGraph=false',
  'merge.autoStash=false',
  'transfer.fsckObjects=true',
  'fetch.fsckObjects=true',
  // What is larger goes through it without being held in memory.
  'core.bigFileThreshold=16m',
  'pack.threads=1',
];

const environment = {
  LC_ALL: 'C',
  HOME: '/dev/null',
  XDG_CONFIG_HOME: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_NO_LAZY_FETCH: '1',
  GIT_ALLOW_PROTOCOL: 'file',
  GIT_EDITOR: 'false',
};

export interface GitEnd {
  readonly status: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export interface GitPlace {
  /** The program's path. */
  readonly program: string;
  readonly gitDirectory: string;
  /** Undefined: nothing that is checked out is touched. */
  readonly worktree?: string;
  /** Where it stands: nobody but this user writes there. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly settings?: readonly string[];
  /** Undefined takes one away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export class HostGit {
  readonly #place: GitPlace;

  constructor(place: GitPlace) {
    this.#place = place;
  }

  with(other: Partial<GitPlace>): HostGit {
    return new HostGit({ ...this.#place, ...other });
  }

  /** Whatever it ends with. @throws git_failed, git_too_large */
  async end(words: readonly string[], input?: string): Promise<GitEnd> {
    const { program, gitDirectory, worktree, cwd, signal, settings: more = [], env = {} } = this.#place;
    signal.throwIfAborted();
    const child = spawn(program, [...[...settings, ...more].flatMap((each) => ['-c', each]), ...words], {
      cwd: worktree ?? cwd,
      env: {
        ...environment,
        PATH: [dirname(program), '/usr/bin', '/bin'].join(':'),
        GIT_DIR: gitDirectory,
        ...(worktree !== undefined && { GIT_WORK_TREE: worktree }),
        ...env,
      },
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    return await new GitRun(child, words[0] ?? '').ended(signal, input);
  }

  /** @throws git_failed with what it said, where it ends with another code than 0 */
  async text(words: readonly string[], input?: string): Promise<string> {
    const { status, stdout, stderr } = await this.end(words, input);
    if (status !== 0) throw new GitProblem('git_failed', `git ${words[0]} failed: ${stderr.trim()}`);
    return stdout.toString('utf8');
  }

  async lines(words: readonly string[], input?: string): Promise<readonly string[]> {
    return (await this.text(words, input)).split('\n').filter((line) => line !== '');
  }
}

class GitRun {
  readonly #child: ReturnType<typeof spawn>;
  readonly #word: string;
  readonly #out: Buffer[] = [];
  readonly #said: Buffer[] = [];
  #bytes = 0;
  #problem: GitProblem | undefined;

  constructor(child: ReturnType<typeof spawn>, word: string) {
    this.#child = child;
    this.#word = word;
  }

  async ended(signal: AbortSignal, input: string | undefined): Promise<GitEnd> {
    const child = this.#child;
    const { promise, resolve, reject } = Promise.withResolvers<number | null>();
    // It removes its locks when it is asked to end.
    const stop = (): void => void child.kill('SIGTERM');
    const timer = setTimeout(() => this.#end('git_failed', 'took too long'), gitLimits.timeMsMax);
    signal.addEventListener('abort', stop);
    child.once('error', reject).once('close', resolve);
    child.stdout?.on('data', (part: Buffer) => this.#keep(this.#out, part));
    child.stderr?.on('data', (part: Buffer) => this.#keep(this.#said, part));
    child.stdin?.on('error', () => {
      // It ended without reading all: its exit code tells.
    });
    child.stdin?.end(input);
    try {
      const status = await promise;
      signal.throwIfAborted();
      if (this.#problem !== undefined) throw this.#problem;
      return { status, stdout: Buffer.concat(this.#out), stderr: Buffer.concat(this.#said).toString('utf8') };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    }
  }

  #keep(parts: Buffer[], part: Buffer): void {
    this.#bytes += part.length;
    if (this.#bytes > gitLimits.textBytesMax) this.#end('git_too_large', 'says more than can be read');
    else parts.push(part);
  }

  #end(code: GitProblem['code'], what: string): void {
    this.#problem ??= new GitProblem(code, `git ${this.#word} ${what}`);
    this.#child.kill('SIGKILL');
  }
}

/** Of PATH, but none that lies in the repository. @throws git_missing */
export function gitProgram(path: string, repository: string): string {
  const places = path.split(':').filter((each) => isAbsolute(each) && !isWithin(each, repository));
  const found = findProgram('git', places.join(':'));
  if (found !== undefined && !isWithin(found, repository)) return found;
  throw new GitProblem('git_missing', 'there is no git on this machine; to bring files: squash box apply');
}

/** @throws git_writable where one of these boxes writes what git obeys here */
export function checkUnwritten(
  { own, common }: GitDirectories,
  boxes: readonly { readonly id: string; readonly host_paths?: Readonly<Record<string, string>> | null }[],
): void {
  for (const { id, host_paths: paths } of boxes) {
    const rules = Object.entries(paths ?? {});
    const isWritten = [own, common].some((directory) => {
      const nearest = rules
        .filter(([path]) => isWithin(directory, path))
        .toSorted(([one], [other]) => other.length - one.length)[0];
      return (
        nearest?.[1] === 'rw' || rules.some(([path, level]) => level === 'rw' && isWithin(path, directory))
      );
    });
    if (isWritten)
      throw new GitProblem(
        'git_writable',
        `box ${id} can write "${common}" itself, and git here would obey it: remove that box first`,
      );
  }
}
