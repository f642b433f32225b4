/**
 * An ordinary user of the benchmark's own with a home and a repository in it, removed after the run. Who is no root is that user
 * himself, with his home as it is and a repository in a temporary directory.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { removeUser } from '../../tools/test/as-user.ts';

const filesPerDirectory = 1_000;

interface Ids {
  readonly uid: number;
  readonly gid: number;
}

export class BenchUser implements Disposable {
  readonly home: string;
  readonly repository: string;
  /** Where this user may write what goes with the run. */
  readonly scratch: string;
  readonly env: NodeJS.ProcessEnv;
  /** What a program is started with. */
  readonly place: { readonly cwd: string } & Partial<Ids>;
  readonly #base: string;
  readonly #made: (Ids & { readonly name: string }) | undefined;

  private constructor(base: string, made: (Ids & { readonly name: string }) | undefined) {
    this.#base = base;
    this.#made = made;
    this.home = made === undefined ? homedir() : join(base, 'home');
    this.scratch = made === undefined ? base : this.home;
    this.repository = join(this.scratch, 'project');
    this.place = { cwd: this.repository, ...(made !== undefined && { uid: made.uid, gid: made.gid }) };
    this.env = {
      HOME: this.home,
      USER: made?.name ?? userInfo().username,
      LANG: 'C.UTF-8',
      PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
    };
  }

  /** Whether its home may be filled. */
  get hasOwnHome(): boolean {
    return this.#made !== undefined;
  }

  static make(word: 'small' | 'large'): BenchUser {
    if (process.getuid?.() !== 0)
      return new BenchUser(mkdtempSync(join(tmpdir(), 'squash-bench-')), undefined);
    // As the users of tests are called: what a killed run leaves is removed by the next `squash test`.
    const base = mkdtempSync('/var/tmp/squash-user-');
    const name = `sqtest${process.pid}${word.slice(0, 1)}`;
    const home = join(base, 'home');
    execFileSync('chmod', ['755', base]);
    execFileSync('useradd', ['--create-home', '--home-dir', home, '--shell', '/bin/bash', name]);
    const [uid = 0, gid = 0] = ['-u', '-g'].map((flag) =>
      Number(execFileSync('id', [flag, name], { encoding: 'utf8' })),
    );
    return new BenchUser(base, { name, uid, gid });
  }

  /** Files in the repository, which is one of git, and in the home where it is our own to fill. */
  fill(count: { readonly home: number; readonly repository: number }): void {
    if (this.#made !== undefined) makeFiles(this.home, '.entry', count.home);
    for (let left = count.repository; left > 0; left -= filesPerDirectory)
      makeFiles(join(this.repository, `src/${left}`), 'file', Math.min(left, filesPerDirectory));
    execFileSync('git', ['init', '--quiet', this.repository]);
    if (this.#made !== undefined)
      execFileSync('chown', ['-R', `${this.#made.uid}:${this.#made.gid}`, this.home]);
  }

  [Symbol.dispose](): void {
    if (this.#made !== undefined) removeUser(this.#made.name, this.#made.uid);
    rmSync(this.#base, { recursive: true, force: true });
  }
}

function makeFiles(directory: string, name: string, count: number): void {
  mkdirSync(directory, { recursive: true });
  for (let number = 0; number < count; number += 1) writeFileSync(join(directory, `${name}-${number}`), '');
}
