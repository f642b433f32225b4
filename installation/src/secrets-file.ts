/**
 * `secrets.json`: read, checked, changed. The daemon writes it for its API, the egress process only reads, an operator
 * edits it with whatever he likes.
 *
 * What a newcomer would get wrong: the file's mode is a part of its validity. A file that others can read has already
 * given its values away, one that others can write is not the operator's word; both are refused like a syntax error.
 */
import { constants } from 'node:fs';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { issueSentence, placeOf } from '@squash/contract/issue-sentence';
import { type SecretsFile, secretsFileSchema } from '@squash/contract/secrets';
import { writeFileAtomic } from '@squash/base/atomic-file';

/** 256 secrets of the longest kind are 3 MB. */
const bytesMax = 8_388_608;

/** Says what is wrong with the file and what would mend it; never contains a value. */
export class SecretsFileError extends Error {
  constructor(path: string, problem: string) {
    super(`${JSON.stringify(path)} ${problem}`);
    this.name = 'SecretsFileError';
  }
}

export interface ReadSecrets {
  readonly file: SecretsFile;
  /** Differs where the file does. */
  readonly mark: string;
}

/** Of one sandbox alone, in the same form: outside of what snapshots, `sandbox.json` and the database hold. */
export function ownSecretsPath(dataDir: string, sandbox: string): string {
  return join(dataDir, ownSecretsFolder, `${sandbox}.json`);
}

/** Relative to the data directory. */
export const ownSecretsFolder = 'secrets';

const noSecrets: SecretsFile = { secrets: {} };

/** A file that is not there holds no secrets. @throws SecretsFileError */
export function readSecretsFile(path: string): ReadSecrets {
  let descriptor: number;
  try {
    // Not blocking: a pipe of that name must not hold up everything.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return { file: noSecrets, mark: 'absent' };
    throw new SecretsFileError(path, `can not be read: ${code ?? 'unknown error'}`);
  }
  try {
    // Before the reading: what is written meanwhile gives another mark, and is read again.
    const found = fstatSync(descriptor, { bigint: true });
    if (!found.isFile()) throw new SecretsFileError(path, 'is not a regular file');
    if (Number(found.uid) !== process.geteuid?.()) {
      throw new SecretsFileError(path, 'belongs to another user than the one Squash runs as');
    }
    if ((found.mode & 0o077n) !== 0n) {
      throw new SecretsFileError(path, 'can be read or written by others: chmod 600 it');
    }
    if (found.size > bytesMax) throw new SecretsFileError(path, `is larger than ${bytesMax} bytes`);
    return { file: parseSecrets(path, readFileSync(descriptor, 'utf8')), mark: markOf(found) };
  } finally {
    closeSync(descriptor);
  }
}

/** Changes with every write of the file and every file put in its place. */
export function markOf(found: {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly size: bigint;
  readonly ctimeNs: bigint;
  readonly mtimeNs: bigint;
}): string {
  return `${found.dev}.${found.ino}.${found.size}.${found.ctimeNs}.${found.mtimeNs}`;
}

/** Puts a whole new file in place: readers see the old or the new one. Mode 0600. */
export async function writeSecretsFile(path: string, file: SecretsFile): Promise<void> {
  // What is written has to be readable again, whoever made it.
  const checked = parseSecrets(path, JSON.stringify(file));
  await writeFileAtomic(path, `${JSON.stringify(checked, undefined, 2)}\n`, 0o600);
}

function parseSecrets(path: string, text: string): SecretsFile {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // JSON.parse quotes what it stumbled over, which may be a value.
    throw new SecretsFileError(path, 'is not JSON');
  }
  const parsed = secretsFileSchema.safeParse(json, { error: issueSentence });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = placeOf(issue?.path);
  const said = issue?.message ?? 'it is malformed';
  throw new SecretsFileError(path, `is not valid: ${said.includes(place) ? said : `${said} (${place})`}`);
}
