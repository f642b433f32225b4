/**
 * `squash mounts import`: NanoClaw's `mount-allowlist.json` as `host-directories.json`, printed for the operator to put into the data
 * directory. What it prints never allows more than what it read; what can't be had is told by name.
 */
import { realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { HostDirectoryEntry } from '@squash/contract/host-directory';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { jsonText, printLine, printNote, visible } from '../output/print.ts';
import { readJsonFile } from '../json-file.ts';

/** Its own, which hold for parts of names, too: `.env` blocks `.env.example`. */
const builtIn =
  '.ssh .gnupg .gpg .aws .azure .gcloud .kube .docker credentials .env .netrc .npmrc .pypirc id_rsa id_ed25519 private_key .secret';

const known: readonly string[] = ['allowedRoots', 'blockedPatterns', 'nonMainReadOnly'];

type Entry = Omit<HostDirectoryEntry, 'shows' | 'hides'>;
type Fields = Readonly<Record<string, unknown>>;

export async function run({ positionals: [file] }: Call): Promise<number> {
  const path = file ?? join(homedir(), '.config/nanoclaw/mount-allowlist.json');
  const value = readJsonFile(path, 'allow-list');
  const {
    allowedRoots: roots,
    blockedPatterns: patterns,
    nonMainReadOnly: isReadOnly,
    ...more
  } = fieldsOf(value, 'it');
  if (!Array.isArray(roots)) throw refused(`"allowedRoots" is no list`);
  if (!isTexts(patterns)) throw refused(`"blockedPatterns" is no list of words`);
  if (patterns.includes('')) throw refused('"blockedPatterns" has an empty word, which blocks everything');
  if (isReadOnly !== undefined && typeof isReadOnly !== 'boolean')
    throw refused(`"nonMainReadOnly" is neither true nor false`);
  for (const key of Object.keys(more)) printNote(`left out: ${visible(key)} is none of ${known.join(', ')}`);
  if (isReadOnly === false)
    printNote(
      'note: groups of the tiers trusted and untrusted read only; a tier of your own with "mounts": "rw" writes, too',
    );
  printNote(
    'note: "blocked" has the original’s own names as well, which hold for parts of names: take out what is too wide',
  );
  const directories = roots.flatMap((root: unknown, at) => entriesOf(root, `allowedRoots[${at}]`));
  const list = { directories, blocked: [...new Set([...builtIn.split(' '), ...patterns])] };
  const { hostDirectoriesSchema } = await import('@squash/contract/host-directory');
  // What is printed is a list that a daemon takes, or it is not printed.
  const { error } = hostDirectoriesSchema.safeParse(list);
  if (error !== undefined)
    throw refused(error.issues.map(({ path: at, message }) => `${at.join('.')}: ${message}`).join('\n'));
  printLine(jsonText(list, 2));
  return exitCodes.ok;
}

/** One, or none with a note. */
function entriesOf(root: unknown, place: string): readonly Entry[] {
  const { path, allowReadWrite, readOnly, description } = isFields(root) ? root : {};
  if (typeof path !== 'string' || !/^(?:\/|~$|~\/)/.test(path)) {
    printNote(`left out: ${place} has no path that begins with "/" or "~"`);
    return [];
  }
  const isWritable = allowReadWrite === true || (allowReadWrite === undefined && readOnly === false);
  return [
    {
      path: realPath(path, place),
      mode_max: isWritable ? 'rw' : 'ro',
      ...(typeof description === 'string' && description !== '' && { description }),
    },
  ];
}

/** A list names no links: the judge follows none. */
function realPath(path: string, place: string): string {
  const named = resolve(path.replace(/^~(?=\/|$)/, homedir()));
  try {
    const real = realpathSync(named);
    if (real !== named) printNote(visible(`note: ${place}: "${named}" is a link, and leads to "${real}"`));
    return real;
  } catch {
    printNote(visible(`note: ${place}: "${named}" is not there, or closed to you`));
    return named;
  }
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fieldsOf(value: unknown, what: string): Fields {
  if (!isFields(value)) throw refused(`${what} is no object`);
  return value;
}

function refused(problem: string): CliFailure {
  return new CliFailure('policy_refused', `Cannot import the list: ${visible(problem)}`, exitCodes.failed);
}
