/**
 * The operator's files beside the database. Read once: who changes one restarts the daemon, which tells the egress process
 * anew. A file that can't be used refuses the start: without it more would be open, or less than somebody relies on.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { issueSentence } from '@squash/contract/issue-sentence';
import { parsePrivateJson, readPrivateFile } from '@squash/installation/private-file';
import type { z } from 'zod';

export interface OperatorFile {
  readonly dataDir: string;
  readonly name: string;
  readonly isPrivate?: boolean;
}

/** Some hundred proxies or presets with rules are 300 KB. */
const bytesMax = 8_388_608;

/** @param isPrivate it holds passwords: one that others can read is refused. @returns undefined where there is none. @throws config_invalid */
export function readOperatorFile<T extends z.ZodType>(
  { dataDir, name, isPrivate = false }: OperatorFile,
  schema: T,
): z.infer<T> | undefined {
  const path = join(dataDir, name);
  const json = isPrivate ? readPrivate(path) : readOpen(path);
  if (json === undefined) return undefined;
  const parsed = schema.safeParse(json, { error: issueSentence });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  // A place is named by its keys, and where a name should stand there may be a password.
  const isTelling = isPrivate && issue?.path.some((part) => /[^\w-]/.test(String(part))) === true;
  const why = isTelling ? undefined : issue?.message;
  throw invalid(path, why ?? 'it is malformed', isPrivate ? undefined : parsed.error);
}

function readPrivate(path: string): unknown {
  const refused = (problem: string): AppError => invalid(path, `it ${problem}`, undefined);
  const read = readPrivateFile(path, bytesMax, refused);
  return read === undefined ? undefined : parsePrivateJson(read.text, refused);
}

function readOpen(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    if ((error as NodeJS.ErrnoException).code === 'EACCES')
      throw invalid(
        path,
        'the daemon may not read it: chmod 644, or give it to the owner of the data directory',
        undefined,
      );
    throw invalid(path, (error as Error).message, undefined);
  }
}

function invalid(path: string, why: string, cause: unknown): AppError {
  return new AppError('config_invalid', `Cannot use "${path}": ${why}`, { cause });
}
