/**
 * `secrets.json` as the daemon uses it: names and placeholders for commands, and the edits of the API. Values pass
 * through on their way into the file and are held nowhere.
 *
 * The operator may edit the file at any time, so it is looked at (one `stat`) whenever somebody asks. A bad edit leaves
 * the placeholders read before; the API says what is wrong and changes nothing until it is mended.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import {
  type Secret,
  type SecretChange,
  type SecretInfo,
  type SecretsFile,
  type SecretSubset,
} from '@squash/contract/secrets';
import { generatePlaceholder, placeholderPrefixFor } from './placeholder.ts';
import {
  markOf,
  readSecretsFile,
  SecretsFileError,
  writeSecretsFile,
} from '@squash/installation/secrets-file';
import { errorText } from '@squash/base/bug';
import { isDiskFull } from '@squash/base/errno';
import type { Log } from '@squash/base/log';

export class SecretsFileKeeper {
  readonly #path: string;
  readonly #log: Log;
  #mark: string | undefined;
  #placeholders: Readonly<Record<string, string>> = {};
  /** Edits take turns: each reads what the one before wrote. */
  #editing: Promise<unknown> = Promise.resolve();

  /** @throws config_invalid where the file is there and can't be used: sandboxes must not start without their keys */
  constructor(dataDir: string, log: Log) {
    this.#path = join(dataDir, 'secrets.json');
    this.#log = log;
    try {
      this.#take(readSecretsFile(this.#path));
    } catch (error) {
      throw new AppError('config_invalid', `Cannot use the secrets: ${errorText(error)}`, { cause: error });
    }
  }

  /** Variable and placeholder of each secret of the subset that exists now. */
  placeholders(subset: SecretSubset): Readonly<Record<string, string>> {
    this.#refresh();
    if (subset === 'all') return this.#placeholders;
    return Object.fromEntries(Object.entries(this.#placeholders).filter(([name]) => subset.includes(name)));
  }

  /** @throws secrets_invalid */
  list(): readonly SecretInfo[] {
    const { secrets } = this.#read();
    return Object.entries(secrets)
      .map(([name, secret]) => infoOf(name, secret))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** @throws secrets_invalid; invalid_request where a new one lacks value or hosts, or a placeholder is taken */
  set(name: string, change: SecretChange): Promise<SecretInfo> {
    return this.#edit((secrets) => {
      const secret = changed(name, secrets[name], change);
      return { secrets: { ...secrets, [name]: secret }, answer: infoOf(name, secret) };
    });
  }

  /** @throws secret_not_found, secrets_invalid */
  remove(name: string): Promise<void> {
    return this.#edit((secrets) => {
      if (!Object.hasOwn(secrets, name)) {
        throw new AppError('secret_not_found', `Cannot remove secret "${name}": there is none of this name`);
      }
      const left = Object.entries(secrets).filter(([each]) => each !== name);
      return { secrets: Object.fromEntries(left), answer: undefined };
    });
  }

  #edit<T>(
    edit: (secrets: SecretsFile['secrets']) => {
      readonly secrets: SecretsFile['secrets'];
      readonly answer: T;
    },
  ): Promise<T> {
    const turn = this.#editing.then(async () => {
      const { secrets, answer } = edit(this.#read().secrets);
      await this.#write({ secrets });
      return answer;
    });
    // The next one begins whether this one worked or not.
    this.#editing = turn.catch(() => undefined);
    return turn;
  }

  async #write(file: SecretsFile): Promise<void> {
    try {
      await writeSecretsFile(this.#path, file);
    } catch (error) {
      // What was there before was valid, so it is the change that is not; the sentence holds no value.
      if (error instanceof SecretsFileError)
        throw new AppError('invalid_request', error.message, { cause: error });
      if (!isDiskFull(error)) throw error;
      throw new AppError('disk_full', 'Cannot write secrets.json: the disk is full', { cause: error });
    }
  }

  #read(): SecretsFile {
    try {
      const read = readSecretsFile(this.#path);
      this.#take(read);
      return read.file;
    } catch (error) {
      if (!(error instanceof SecretsFileError)) throw error;
      throw new AppError('secrets_invalid', error.message, { cause: error });
    }
  }

  #take(read: { readonly file: SecretsFile; readonly mark: string }): void {
    this.#mark = read.mark;
    this.#placeholders = Object.fromEntries(
      Object.entries(read.file.secrets).map(([name, { placeholder }]) => [name, placeholder]),
    );
  }

  #refresh(): void {
    const mark = this.#markNow();
    if (mark === this.#mark) return;
    try {
      this.#take(readSecretsFile(this.#path));
    } catch (error) {
      // Not read again until it changes.
      this.#mark = mark;
      this.#log.error('secrets.refused', { error: errorText(error) });
    }
  }

  #markNow(): string {
    const found = statSync(this.#path, { bigint: true, throwIfNoEntry: false });
    return found === undefined ? 'absent' : markOf(found);
  }
}

function changed(name: string, before: Secret | undefined, change: SecretChange): Secret {
  const isChanged = change.value !== undefined || change.oauth !== undefined;
  const { value, oauth } = isChanged ? change : (before ?? {});
  const hosts = change.allowed_hosts ?? before?.allowed_hosts;
  const beginning = value ?? oauth?.access_token ?? oauth?.refresh_token;
  if (beginning === undefined || hosts === undefined) {
    const lacks = beginning === undefined ? 'value' : 'allowed_hosts';
    throw new AppError('invalid_request', `Cannot make secret "${name}": it needs "${lacks}"`);
  }
  const surfaces = change.surfaces ?? before?.surfaces;
  return {
    placeholder:
      change.placeholder ?? before?.placeholder ?? generatePlaceholder(placeholderPrefixFor(beginning)),
    ...(value !== undefined && { value }),
    ...(oauth !== undefined && { oauth }),
    allowed_hosts: hosts,
    ...(surfaces !== undefined && { surfaces }),
  };
}

function infoOf(name: string, secret: Secret): SecretInfo {
  return {
    name,
    placeholder: secret.placeholder,
    allowed_hosts: secret.allowed_hosts,
    surfaces: secret.surfaces ?? ['headers'],
    ...(secret.oauth !== undefined && { token_url: secret.oauth.token_url }),
  };
}
