/**
 * What an attempt from a box goes for: files of a home, a project and directories beside it, sockets and processes of the host. The same
 * is laid in the user's own home, where the box must keep it, and in a throw-away one, where the attempt must get it.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, rmSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** What stands outside, the same for both. */
export interface Outside {
  /** The tool of tests/security/attack. */
  readonly tool: string;
  /** Of the host's `/tmp`, and of `/var/tmp`. */
  readonly temporary: string;
  readonly lasting: string;
  readonly dataDir: string;
  readonly victimPid: number;
  readonly victimWord: string;
  readonly abstractSocket: string;
  readonly port: number;
  /** Where the host tells a secret to whoever asks by HTTP: an address of its own that is no loopback. Undefined: it has none. */
  readonly web: string | undefined;
  /** A directory of Unix sockets: `agent`, `X0`, `bus`, `docker.sock`. */
  readonly sockets: string;
}

export interface Ground extends Outside {
  readonly home: string;
  /** Copy-on-write. */
  readonly project: string;
  /** For writing. */
  readonly out: string;
  /** Read-only. */
  readonly reference: string;
}

/** Directories that are closed, or that no rule names: a file of ours in each. */
export const closedDirectories = [
  '.ssh',
  '.aws',
  '.azure',
  '.gcloud',
  '.config/gcloud',
  '.kube',
  '.docker',
  '.gnupg',
  '.password-store',
  '.local/share/keyrings',
  '.local/share/squash',
  '.local/state/squash',
  '.config/gh',
  '.config/op',
  '.config/unnamed',
  '.mozilla/firefox',
  'Documents',
] as const;

/** Files that programs know by name: one that is there already is bait enough. */
export const closedFiles = [
  '.netrc',
  '.git-credentials',
  '.pypirc',
  '.config/git/credentials',
  '.bash_history',
  '.zsh_history',
  '.python_history',
  '.psql_history',
] as const;

export const baitName = 'squash-bait';

/** Made in this order below the directory of a ground. */
const files: Readonly<Record<string, string>> = {
  'nested/project/.env': 'secret',
  'nested/project/keys/k': 'secret',
  'nested/project/deep/er/hidden/k': 'secret',
  'nested/project/denied.txt': 'secret',
  'nested/project/src/main': 'shown',
  'nested/project/kept/file': 'shown',
  'out/sub/.env': 'secret',
  'out/sub/own': 'shown',
  'out/closed/k': 'secret',
  'out/guarded/hooks/hook': 'shown',
  'reference/file': 'shown',
  'reference/closed/k': 'secret',
  'reference/denied': 'secret',
  'beside/file': 'secret',
};

export class LaidGround implements Disposable {
  readonly ground: Ground;
  readonly #made: string[] = [];
  readonly #work: string;

  constructor(
    outside: Outside,
    place: { readonly home: string; readonly work: string; readonly secret: string },
  ) {
    const { home, work, secret } = place;
    this.#work = work;
    this.ground = {
      ...outside,
      home,
      project: join(work, 'nested/project'),
      out: join(work, 'out'),
      reference: join(work, 'reference'),
    };
    for (const name of closedDirectories) this.#make(join(home, name, baitName), secret);
    for (const name of closedFiles) this.#make(join(home, name), secret);
    for (const [name, text] of Object.entries(files))
      this.#make(join(work, name), text === 'secret' ? secret : text);
    execFileSync('git', ['init', '-q', this.ground.project]);
    symlinkSync(join(home, '.ssh', baitName), join(this.ground.project, 'to-key'));
    symlinkSync('../../..', join(this.ground.project, 'up'));
    chmodSync(work, 0o755);
  }

  /** What appears when the box is there already, by name and as an editor saves it. */
  layLater(secret: string): void {
    const { home, project, reference } = this.ground;
    for (const path of [
      join(home, '.ssh/squash-bait-later'),
      join(home, 'squash-bait-later'),
      join(project, 'keys/later'),
      join(reference, 'closed/later'),
    ])
      this.#make(path, secret);
    for (const path of [join(project, '.env'), join(project, 'denied.txt')]) {
      writeFileSync(`${path}.new`, secret);
      execFileSync('mv', [`${path}.new`, path]);
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.#work, { recursive: true, force: true });
    for (const path of this.#made.toReversed()) {
      try {
        if (path.endsWith('/')) rmdirSync(path);
        else rmSync(path, { force: true });
      } catch {
        // A directory that somebody else uses meanwhile.
      }
    }
  }

  #make(path: string, text: string): void {
    this.#makeDirectory(dirname(path));
    if (existsSync(path)) return;
    writeFileSync(path, `${text}\n`, { mode: 0o600 });
    this.#made.push(path);
  }

  #makeDirectory(path: string): void {
    if (existsSync(path)) return;
    this.#makeDirectory(dirname(path));
    mkdirSync(path);
    this.#made.push(`${path}/`);
  }
}
