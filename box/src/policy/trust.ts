/**
 * Which projects' policy files a person has read and agreed to: by path and by the SHA-256 of their bytes. A file that
 * changes is no longer trusted; neither is the same file in another repository, where its paths mean other things.
 *
 * The list lies where no box can write it. One that cannot be read counts as an error, never as agreement.
 */
import { closeSync, constants, fstatSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { z } from 'zod';
import { startLock } from '../start-lock.ts';
import { errnoOf, PolicyProblem } from '../policy-problem.ts';

const entrySchema = z.strictObject({
  path: z.string(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** ISO 8601. */
  added: z.string(),
});
export type TrustEntry = Readonly<z.infer<typeof entrySchema>>;
const storeSchema = z.strictObject({ version: z.literal(1), trusted: z.array(entrySchema).max(10_000) });

const bytesMax = 8_388_608;
/** A change takes some milliseconds. */
const waitS = 5;

export function trustFile(state: string): string {
  return join(state, 'trust.json');
}

/** @throws PolicyProblem where the list is there and can't be relied on */
export function readTrust(file: string): readonly TrustEntry[] {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return [];
    throw refused(file, errnoOf(cause) ?? String(cause));
  }
  try {
    const facts = fstatSync(fd);
    if (!facts.isFile() || facts.size > bytesMax) throw refused(file, 'it is no list of this program');
    if (facts.uid !== process.geteuid?.() || (facts.mode & 0o022) !== 0)
      throw refused(file, 'somebody else may write it');
    const checked = storeSchema.safeParse(jsonOf(readFileSync(fd, 'utf8')));
    if (!checked.success) throw refused(file, 'it is no list of this program');
    return checked.data.trusted;
  } finally {
    closeSync(fd);
  }
}

export function isTrusted(entries: readonly TrustEntry[], path: string, sha256: string): boolean {
  return entries.some((entry) => entry.path === path && entry.sha256 === sha256);
}

/** One file has one trusted content: an older one is no longer. */
export async function addTrust(file: string, entry: TrustEntry): Promise<void> {
  await change(file, (entries) => [...entries.filter(({ path }) => path !== entry.path), entry]);
}

/** @returns whether it was trusted */
export async function revokeTrust(file: string, path: string): Promise<boolean> {
  if (!readTrust(file).some((entry) => entry.path === path)) return false;
  await change(file, (entries) => entries.filter((entry) => entry.path !== path));
  return true;
}

async function change(
  file: string,
  changed: (entries: readonly TrustEntry[]) => readonly TrustEntry[],
): Promise<void> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // Of two changes at once neither may be lost: a revocation that is undone would be trust that nobody gave.
  using lock = await startLock(`${file}.lock`, waitS);
  if (lock === undefined) throw refused(file, 'another program keeps changing it');
  const store = storeSchema.parse({ version: 1, trusted: changed(readTrust(file)) });
  await writeFileAtomic(file, `${JSON.stringify(store, null, 2)}\n`, 0o600);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function refused(file: string, why: string): PolicyProblem {
  return new PolicyProblem([`the list of trusted policies, ${file}, can't be relied on: ${why}`]);
}
