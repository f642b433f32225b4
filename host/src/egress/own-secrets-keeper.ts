/**
 * Secrets of single sandboxes: `secrets/<id>.json`, one file for each that has any, in the form of `secrets.json`. Written at
 * the create, read by the egress process, removed with the sandbox. Values pass through on their way into the file.
 *
 * What a newcomer would get wrong: the sandbox's row says which names it has, not the file. A file without its sandbox
 * means nothing, and a sandbox without its file reaches nothing, rather than the installation's secret of the same name.
 */
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { errorText } from '@squash/base/bug';
import { isDiskFull, isErrno } from '@squash/base/errno';
import type { Log } from '@squash/base/log';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import type { OwnSecrets, Secret } from '@squash/contract/secrets';
import {
  ownSecretsFolder,
  ownSecretsPath,
  readSecretsFile,
  SecretsFileError,
  writeSecretsFile,
} from '@squash/installation/secrets-file';
import { generatePlaceholder, placeholderPrefixFor } from './placeholder.ts';

export class OwnSecretsKeeper {
  readonly #dataDir: string;
  readonly #log: Log;
  readonly #placeholders = new Map<SandboxId, Readonly<Record<string, string>>>();

  constructor(dataDir: string, log: Log) {
    this.#dataDir = dataDir;
    this.#log = log;
  }

  /** With a new placeholder for each, which commands see from then on. @throws invalid_request, disk_full */
  async keep(id: SandboxId, own: OwnSecrets): Promise<void> {
    if (Object.keys(own).length === 0) return;
    const secrets: Record<string, Secret> = Object.fromEntries(
      Object.entries(own).map(([name, secret]) => [
        name,
        { ...secret, placeholder: generatePlaceholder(placeholderPrefixFor(secret.value)) },
      ]),
    );
    try {
      mkdirSync(join(this.#dataDir, ownSecretsFolder), { mode: 0o700, recursive: true });
      await writeSecretsFile(ownSecretsPath(this.#dataDir, id), { secrets });
    } catch (error) {
      if (error instanceof SecretsFileError) {
        throw new AppError('invalid_request', `own_secrets: ${error.message}`, { cause: error });
      }
      if (!isDiskFull(error)) throw error;
      throw new AppError('disk_full', `Cannot keep the secrets of sandbox "${id}": the disk is full`, {
        cause: error,
      });
    }
    this.#placeholders.set(id, placeholdersOf(secrets));
  }

  /** Variable and placeholder of each; none where the file can't be read. */
  placeholders(id: SandboxId): Readonly<Record<string, string>> {
    const known = this.#placeholders.get(id);
    if (known !== undefined) return known;
    try {
      const { file, mark } = readSecretsFile(ownSecretsPath(this.#dataDir, id));
      const read = placeholdersOf(file.secrets);
      // One that is not there may come yet, or be that of the id's next sandbox.
      if (mark !== 'absent') this.#placeholders.set(id, read);
      return read;
    } catch (error) {
      if (!(error instanceof SecretsFileError)) throw error;
      this.#log.error('secrets.refused', { sandbox: id, error: error.message });
      return {};
    }
  }

  forget(id: SandboxId): void {
    this.#placeholders.delete(id);
    this.#remove(ownSecretsPath(this.#dataDir, id));
  }

  /** Files of sandboxes that were removed by a daemon that died before it came to them. */
  sweep(present: ReadonlyMap<SandboxId, unknown>): void {
    const folder = join(this.#dataDir, ownSecretsFolder);
    for (const name of this.#filesIn(folder)) {
      const id = basename(name, '.json');
      // One that the database does not know may be taken in again: "squash doctor --repair".
      const isWanted = present.has(id as SandboxId) || existsSync(join(this.#dataDir, 'sandboxes', id));
      if (!isWanted) this.#remove(join(folder, name));
    }
  }

  /** None where it is no folder: then no secret can be kept, which its sandbox's create is told. */
  #filesIn(folder: string): readonly string[] {
    try {
      return readdirSync(folder);
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) this.#log.error('secrets.folder', { error: errorText(error) });
      return [];
    }
  }

  #remove(path: string): void {
    try {
      rmSync(path, { force: true });
    } catch (error) {
      // A next start tries again; until then nobody's rules name it.
      this.#log.error('secrets.kept', { error: errorText(error) });
    }
  }
}

function placeholdersOf(secrets: Readonly<Record<string, Secret>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(secrets).map(([name, { placeholder }]) => [name, placeholder]));
}
