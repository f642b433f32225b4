/**
 * The operator's files beside the database. Read once: who changes one restarts the daemon, which tells the egress process
 * anew. A file that can't be used refuses the start: without it more would be open, or less than somebody relies on.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { issueSentence } from '@squash/contract/issue-sentence';
import type { z } from 'zod';

export interface OperatorFile {
  readonly dataDir: string;
  readonly name: string;
  readonly isPrivate?: boolean;
}

/** @param isPrivate it holds passwords: one that others can read is refused. @returns undefined where there is none. @throws config_invalid */
export function readOperatorFile<T extends z.ZodType>(
  { dataDir, name, isPrivate = false }: OperatorFile,
  schema: T,
): z.infer<T> | undefined {
  const path = join(dataDir, name);
  let text: string;
  try {
    if (isPrivate && (statSync(path).mode & 0o077) !== 0) {
      throw invalid(path, 'others can read or write it: chmod 600 it', undefined);
    }
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof AppError) throw error;
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw invalid(path, (error as Error).message, error);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw invalid(path, (error as Error).message, error);
  }
  const parsed = schema.safeParse(json, { error: issueSentence });
  if (parsed.success) return parsed.data;
  throw invalid(path, parsed.error.issues[0]?.message ?? 'it is malformed', parsed.error);
}

function invalid(path: string, why: string, cause: unknown): AppError {
  return new AppError('config_invalid', `Cannot use "${path}": ${why}`, { cause });
}
