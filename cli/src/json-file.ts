/** JSON out of a file or standard input: a policy, a tier, a list. What it means is the daemon's matter; here it only has to be JSON. */
import { readFileSync } from 'node:fs';
import { fileProblem, usageFailure } from './failure.ts';

/** @param what what stands in it, as a person calls it @throws usage */
export function readJsonFile(path: string, what: string): unknown {
  let text: string;
  try {
    text = readFileSync(path === '-' ? 0 : path, 'utf8');
  } catch (cause) {
    throw usageFailure(`can't read the ${what} "${path}": ${fileProblem(cause)}`);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw usageFailure(`the ${what} "${path}" is no JSON: ${(cause as Error).message}`);
  }
}
