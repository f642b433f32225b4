/**
 * What a person has answered for a repository, for good: a policy file of his own that this program keeps, with what boxes over that
 * repository may reach. It counts as his own file does.
 */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { writeFileAtomic } from '@squash/base/atomic-file';
import type { ApprovalInfo } from '@squash/contract/approvals';
import { answersFile, isThere, type PolicyPlaces } from '../policy-places.ts';
import { errnoOf, PolicyProblem } from '../policy-problem.ts';
import { startLock } from '../start-lock.ts';
import { parseDocument } from './document.ts';
import { checkPolicy } from './file-schema.ts';
import { type FoundFile, readOwnFile } from './files.ts';

/** A change takes some milliseconds. */
const waitS = 5;

/** @throws PolicyProblem where it is there and can't be relied on */
export function readAnswers(places: PolicyPlaces): FoundFile | undefined {
  const path = answersFile(places);
  return isThere(path) ? readOwnFile(path, 'user') : undefined;
}

/** Adds a rule to `net.allow`, once. @returns the file's path @throws PolicyProblem */
export async function addAnswer(places: PolicyPlaces, rule: ApprovalInfo['grant']): Promise<string> {
  const path = answersFile(places);
  try {
    return await add(places, path, rule);
  } catch (cause) {
    const code = errnoOf(cause);
    if (code === undefined) throw cause;
    throw new PolicyProblem([`${path} can't be written: ${code}`]);
  }
}

async function add(places: PolicyPlaces, path: string, rule: ApprovalInfo['grant']): Promise<string> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Of two answers at once neither may be lost.
  using lock = await startLock(`${path}.lock`, waitS);
  if (lock === undefined) throw new PolicyProblem([`${path}: another program keeps changing it`]);
  const file = readAnswers(places);
  const present =
    file === undefined
      ? []
      : (checkPolicy(parseDocument(file.text, file.format, path), path).net?.allow ?? []);
  const isNew = !present.some((each) => JSON.stringify(each) === JSON.stringify(rule));
  const policy = { version: 1, net: { allow: isNew ? [...present, rule] : present } };
  const about = `// What you allowed boxes over ${pathToFileURL(places.repository).href}; "squash box approve" adds to it.`;
  await writeFileAtomic(path, `${about}\n${JSON.stringify(policy, null, 2)}\n`, 0o600);
  return path;
}
