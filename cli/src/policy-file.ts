/** A policy out of a file or standard input. What it means is the daemon's matter; here it only has to be JSON. */
import { readFileSync } from 'node:fs';
import { fileProblem, usageFailure } from './failure.ts';

export function readPolicyFile(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path === '-' ? 0 : path, 'utf8');
  } catch (cause) {
    throw usageFailure(`can't read the policy "${path}": ${fileProblem(cause)}`);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw usageFailure(`the policy "${path}" is no JSON: ${(cause as Error).message}`);
  }
}
