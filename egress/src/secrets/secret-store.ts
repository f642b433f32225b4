/**
 * The secrets as they stand in `secrets.json` now. Sandboxes get live views: an edit holds from the next request on,
 * also on connections that are open.
 *
 * What a newcomer would get wrong: correctness does not hang on file events, which can be lost. The file is looked at
 * (one `stat`, microseconds) whenever somebody asks; the watch only tells listeners early. An edit that can not be read
 * leaves the last good secrets in force and is told until it is mended. A removed file means no secrets: that is
 * how everything is revoked at once.
 */
import { type FSWatcher, statSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Log } from '@squash/base/log';
import type { Destination } from '@squash/policy/policy';
import type { SecretsFile } from '@squash/contract/secrets';
import type { OwnNames, SandboxSecrets, SecretStore } from '../ports.ts';
import {
  absentMark,
  markOf,
  ownSecretsPath,
  readSecretsFile,
  SecretsFileError,
} from '@squash/installation/secrets-file';
import { type CredentialParts, Credentials } from './credentials.ts';
import { TrafficSecret, TrafficSecrets } from './traffic-secrets.ts';

/** Where nothing can be watched, a file that does not exist above all, it is looked for: one `stat` each time. */
const lookAgainMs = 1_000;
/** Different subsets in use at once; a forgotten one is only made again (it costs some 140 KiB of tables). */
const subsetsMax = 256;

const nobodysOwn: OwnNames = { sandbox: '', names: [] };

export class FileSecretStore implements SecretStore {
  readonly #path: string;
  readonly #log: Log;
  readonly #credentials: Credentials;
  readonly #listeners: (() => void)[] = [];
  /** What the file was when it was last read, good or not. */
  #mark: string | undefined;
  #file: SecretsFile['secrets'] = {};
  /** Another list with each reading, and with each token that was refreshed. */
  #secrets: readonly TrafficSecret[] = [];
  #problem: string | undefined;
  /** By subset, of the present secrets; those with secrets of a sandbox's own keep theirs. */
  readonly #compiled = new Map<string, TrafficSecrets>();
  #watcher: FSWatcher | undefined;
  #looking: NodeJS.Timeout | undefined;
  #isOpen = true;

  /**
   * Reads the file now. A bad one is told in `warnings` and the log, and means no secrets until there is a good one.
   * @param path of `secrets.json`, which need not exist
   */
  constructor(path: string, log: Log, { roots, clock }: Pick<CredentialParts, 'roots' | 'clock'>) {
    this.#path = path;
    this.#log = log;
    const credentials = join(dirname(path), 'egress', 'credentials.json');
    this.#credentials = new Credentials({ path: credentials, roots, clock, log }, () => this.#compile());
    this.#refresh();
  }

  get warnings(): readonly string[] {
    this.#refresh();
    return [...(this.#problem === undefined ? [] : [this.#problem]), ...this.#credentials.problems];
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Names that do not exist (yet) are no error, unless they are the sandbox's own. @throws SecretsFileError */
  subset(names: 'all' | readonly string[], own: OwnNames = nobodysOwn): SandboxSecrets {
    const mine = this.#readOwn(own);
    const traffic = mine.length === 0 ? () => this.#sharedTraffic(names) : this.#ownTraffic(names, mine);
    return {
      get isEmpty() {
        return traffic().isEmpty;
      },
      concerns: (destination: Destination) => traffic().concerns(destination),
      get traffic() {
        return traffic();
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOpen = false;
    this.#watcher?.close();
    clearInterval(this.#looking);
    this.#listeners.length = 0;
    await this.#credentials[Symbol.asyncDispose]();
  }

  /** They do not change while the sandbox lives, so its file is not watched. */
  #readOwn({ sandbox, names }: OwnNames): readonly TrafficSecret[] {
    if (names.length === 0) return [];
    const path = ownSecretsPath(dirname(this.#path), sandbox);
    const { file, mark } = readSecretsFile(path);
    if (mark === absentMark) {
      throw new SecretsFileError(path, 'is missing: put it back, or remove the sandbox');
    }
    const { secrets } = file;
    return names.map((name) => {
      const secret = secrets[name];
      if (secret === undefined) throw new SecretsFileError(path, `has no secret ${JSON.stringify(name)}`);
      if (secret.oauth !== undefined) {
        throw new SecretsFileError(
          path,
          `has "oauth" in ${JSON.stringify(name)}: those of one sandbox are fixed`,
        );
      }
      return new TrafficSecret(name, secret);
    });
  }

  #sharedTraffic(names: 'all' | readonly string[]): TrafficSecrets {
    this.#refresh();
    const key = names === 'all' ? '*' : names.join('\n');
    let found = this.#compiled.get(key);
    if (found === undefined) {
      found = this.#make(names, []);
      if (this.#compiled.size >= subsetsMax) this.#compiled.clear();
      this.#compiled.set(key, found);
    }
    return found;
  }

  /** Kept by the view alone, so that values go with their sandbox, and many such sandboxes push out nobody's. */
  #ownTraffic(names: 'all' | readonly string[], own: readonly TrafficSecret[]): () => TrafficSecrets {
    let madeOf: readonly TrafficSecret[] | undefined;
    let made = new TrafficSecrets(own);
    return () => {
      this.#refresh();
      if (madeOf !== this.#secrets) {
        made = this.#make(names, own);
        madeOf = this.#secrets;
      }
      return made;
    };
  }

  #make(names: 'all' | readonly string[], own: readonly TrafficSecret[]): TrafficSecrets {
    const isShared = ({ name }: TrafficSecret): boolean =>
      (names === 'all' || names.includes(name)) && own.every((each) => each.name !== name);
    return new TrafficSecrets([...own, ...this.#secrets.filter(isShared)]);
  }

  #refresh(): void {
    const mark = this.#markNow();
    if (mark === this.#mark || !this.#isOpen) return;
    const isFirst = this.#mark === undefined;
    // A file put in its place is another one: the watch is on the file, not on its name.
    this.#rewatch();
    try {
      const read = readSecretsFile(this.#path);
      this.#mark = read.mark;
      this.#file = read.file.secrets;
      this.#compile();
      // Not at the start, when a process before this one may still be there; nor where the file is only away for a moment.
      if (!isFirst && read.mark !== absentMark) {
        this.#credentials.retain(
          Object.values(this.#file).flatMap(({ oauth }) => (oauth === undefined ? [] : [oauth])),
        );
      }
      this.#problem = undefined;
      this.#log.info('secrets.loaded', { count: this.#secrets.length });
      // Later: who asked for secrets must not be called back before he has his answer.
      if (!isFirst) for (const listener of this.#listeners) setImmediate(listener);
    } catch (error) {
      if (!(error instanceof SecretsFileError)) throw error;
      // Not read again until the file changes.
      this.#mark = mark;
      const inForce = isFirst ? 'no secrets are in force' : 'the secrets read before stay in force';
      this.#problem = `${error.message}; ${inForce}`;
      this.#log.error('secrets.refused', { problem: this.#problem });
    }
  }

  #compile(): void {
    this.#secrets = Object.entries(this.#file).map(
      ([name, secret]) =>
        new TrafficSecret(name, secret, secret.oauth && this.#credentials.take(name, secret.oauth)),
    );
    this.#compiled.clear();
  }

  #rewatch(): void {
    this.#watcher?.close();
    clearInterval(this.#looking);
    try {
      this.#watcher = watch(this.#path, { persistent: false }, () => this.#refresh());
      this.#watcher.on('error', () => this.#lookAgain());
    } catch {
      // No file, or no more watches to be had.
      this.#lookAgain();
    }
  }

  #lookAgain(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearInterval(this.#looking);
    this.#looking = setInterval(() => this.#refresh(), lookAgainMs).unref();
  }

  #markNow(): string {
    try {
      const found = statSync(this.#path, { bigint: true, throwIfNoEntry: false });
      return found === undefined ? absentMark : markOf(found);
    } catch (error) {
      // The directory can't be entered: reading will say so.
      return `unreadable ${(error as NodeJS.ErrnoException).code}`;
    }
  }
}
