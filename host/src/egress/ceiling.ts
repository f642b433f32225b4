/**
 * `egress-ceiling.json`: the operator's policy that no sandbox's can exceed. Read once: who changes it restarts the
 * daemon, which tells the egress process anew. A file that can't be used refuses the start: without it everything
 * would be open.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { issueSentence } from '@squash/contract/issue-sentence';
import { type PolicySource, policySchema } from '@squash/contract/policy';

/** Undefined where there is none. @throws config_invalid */
export function readCeiling(dataDir: string): PolicySource | undefined {
  const path = join(dataDir, 'egress-ceiling.json');
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw invalid(path, (error as Error).message, error);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw invalid(path, (error as Error).message, error);
  }
  const parsed = policySchema.safeParse(json, { error: issueSentence });
  if (parsed.success) return parsed.data;
  throw invalid(path, parsed.error.issues[0]?.message ?? 'it is no policy', parsed.error);
}

function invalid(path: string, why: string, cause: unknown): AppError {
  return new AppError('config_invalid', `Cannot use "${path}": ${why}`, { cause });
}
