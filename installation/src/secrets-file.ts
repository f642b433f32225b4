/**
 * `secrets.json`: read, checked, changed. The daemon writes it for its API, the egress process only reads, an operator
 * edits it with whatever he likes.
 */
import { join } from 'node:path';
import { issueSentence, placeOf } from '@squash/contract/issue-sentence';
import { type SecretsFile, secretsFileSchema } from '@squash/contract/secrets';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { parsePrivateJson, readPrivateFile } from './private-file.ts';

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

/** The mark of a file that is not there. */
export const absentMark = 'absent';

const noSecrets: SecretsFile = { secrets: {} };

/** A file that is not there holds no secrets. @throws SecretsFileError */
export function readSecretsFile(path: string): ReadSecrets {
  const read = readPrivateFile(path, bytesMax, (problem) => new SecretsFileError(path, problem));
  if (read === undefined) return { file: noSecrets, mark: absentMark };
  return { file: parseSecrets(path, read.text), mark: markOf(read.found) };
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
  const json = parsePrivateJson(text, (problem) => new SecretsFileError(path, problem));
  const parsed = secretsFileSchema.safeParse(json, { error: issueSentence });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = placeOf(issue?.path);
  const said = issue?.message ?? 'it is malformed';
  throw new SecretsFileError(path, `is not valid: ${said.includes(place) ? said : `${said} (${place})`}`);
}
