/**
 * The files of the data directory that `squash certificate` reads and writes: the pair, and the keys of accounts.
 *
 * What a newcomer would get wrong: where root starts the daemon the directory is not root's, and what lies in it is the work of somebody
 * who may be hostile. So everything is reached through opened directories, nothing that is written follows a link, and the keys
 * of accounts lie in a directory of their own, which is root's.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { readAtMost } from '@squash/base/bounded-read';
import { errorText } from '@squash/base/bug';
import { systemClock } from '@squash/base/clock';
import {
  accountsDirectory,
  type CertificatePair,
  certificateBytesMax,
  certificateFile,
  fittingPair,
  keyFile,
} from '@squash/installation/preview-certificate';
import { readPrivateFile } from '@squash/installation/private-file';
import { CertificateFailure } from './failure.ts';

const accountKeyBytesMax = 65_536;
/** What a run that was killed has left; no other one writes for so long. */
const leftMs = 3_600_000;

export class CertificatePlace implements Disposable {
  readonly path: string;
  readonly #data: number;
  readonly #isRoot = process.geteuid?.() === 0;
  #own: number | undefined;

  /** @throws certificate_failed */
  constructor(dataDir: string) {
    this.path = join(dataDir, certificateFile);
    this.#data = told(`open "${dataDir}"`, () =>
      openSync(dataDir, constants.O_RDONLY | constants.O_DIRECTORY),
    );
    // Before anything is ordered for it.
    for (const name of [keyFile, certificateFile]) {
      if (lstatSync(below(this.#data, name), { throwIfNoEntry: false })?.isDirectory())
        throw new CertificateFailure(
          'certificate_failed',
          `can't write "${join(dataDir, name)}": it is a directory`,
        );
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#data);
    if (this.#own !== undefined) closeSync(this.#own);
  }

  /** What the daemon takes; undefined where there is nothing that it could take. */
  pair(): CertificatePair | undefined {
    const key = this.#read(keyFile);
    if (key === undefined) return undefined;
    try {
      return fittingPair(key, this.#read(certificateFile));
    } catch {
      // As the daemon would find it: no pair.
      return undefined;
    }
  }

  /** Of the account at this directory; undefined where there is none. @throws certificate_failed */
  accountKey(directoryUrl: string): string | undefined {
    if (lstatSync(below(this.#data, accountsDirectory), { throwIfNoEntry: false }) === undefined)
      return undefined;
    const name = accountFile(directoryUrl);
    const path = below(this.#accounts(), name);
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) throw refused(name, 'is a link');
    return readPrivateFile(path, accountKeyBytesMax, (problem) => refused(name, problem))?.text;
  }

  /** @throws certificate_failed */
  keepAccountKey(directoryUrl: string, key: string): void {
    const own = this.#accounts();
    told(`write the account's key`, () => this.#replace(own, accountFile(directoryUrl), key));
  }

  /** Whatever happens in between, one pair or the other is there. @throws certificate_failed */
  keepPair({ cert, key }: CertificatePair): void {
    this.#accounts();
    told(`write "${this.path}"`, () => {
      this.#replace(this.#data, keyFile, `${key.trimEnd()}\n${cert}`);
      this.#replace(this.#data, certificateFile, cert);
    });
  }

  /**
   * Where the directory is ours, too, these may be links. Where it is not, a link would lead our rights to whatever its owner likes: a
   * file of /proc without an end, or one that is changed by being read.
   */
  #read(name: string): string | undefined {
    const isOurs = fstatSync(this.#data).uid === process.geteuid?.();
    const flags = constants.O_RDONLY | constants.O_NONBLOCK | (isOurs ? 0 : constants.O_NOFOLLOW);
    let file: number;
    try {
      file = openSync(below(this.#data, name), flags);
    } catch {
      // None, or none that may be read: then the daemon could not have been given it.
      return undefined;
    }
    try {
      return fstatSync(file).isFile() ? readAtMost(file, certificateBytesMax)?.toString('utf8') : undefined;
    } catch {
      return undefined;
    } finally {
      closeSync(file);
    }
  }

  #accounts(): number {
    this.#own ??= told(`use the directory "${accountsDirectory}" of the data directory`, () => {
      const path = below(this.#data, accountsDirectory);
      if (!lstatSync(path, { throwIfNoEntry: false })) mkdirSync(path, { mode: 0o700 });
      const own = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
      // The first start of root's daemon gives away what lies in the data directory, this one too.
      if (this.#isRoot) fchownSync(own, 0, 0);
      fchmodSync(own, 0o700);
      removeLeft(own);
      return own;
    });
    return this.#own;
  }

  /** Under another name first, in the directory that is ours: the data directory must hold no name that a start does not know. */
  #replace(directory: number, name: string, text: string): void {
    const temporary = below(this.#accounts(), `${name}.${randomBytes(6).toString('hex')}.new`);
    const file = openSync(temporary, 'wx', 0o600);
    try {
      writeFileSync(file, text);
      if (this.#isRoot) {
        const { uid, gid } = fstatSync(directory);
        fchownSync(file, uid, gid);
      }
      fsyncSync(file);
      renameSync(temporary, below(directory, name));
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    } finally {
      closeSync(file);
    }
    fsyncSync(directory);
  }
}

function below(directory: number, name: string): string {
  return `/proc/self/fd/${directory}/${name}`;
}

/** An account is known at one directory only. */
function accountFile(directoryUrl: string): string {
  const digest = createHash('sha256').update(directoryUrl).digest('hex').slice(0, 12);
  return `${new URL(directoryUrl).hostname.replaceAll(/[^a-z0-9.-]/g, '_')}-${digest}.key`;
}

function removeLeft(own: number): void {
  for (const name of readdirSync(below(own, '.'))) {
    const found = lstatSync(below(own, name), { throwIfNoEntry: false });
    // No run makes a directory. The daemon may have had this one before us and hold one in it open: whoever went through that with root's
    // rights could be led anywhere.
    if (found === undefined || found.isDirectory() || !name.endsWith('.new')) continue;
    if (systemClock.wallMs() - found.mtimeMs > leftMs) rmSync(below(own, name), { force: true });
  }
}

function refused(name: string, problem: string): CertificateFailure {
  return new CertificateFailure(
    'certificate_failed',
    `can't use the account's key "${accountsDirectory}/${name}" of the data directory: it ${problem}`,
  );
}

function told<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof CertificateFailure) throw cause;
    throw new CertificateFailure('certificate_failed', `can't ${what}: ${errorText(cause)}`, { cause });
  }
}
