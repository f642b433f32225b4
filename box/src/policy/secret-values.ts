/**
 * Reads the values of a policy's secrets, in the moment a box is made. Only what the person's own files, the managed one or his
 * command line name is here: `mergeSecrets` lets no other through. No message holds a value.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type OwnSecrets, ownSecretsSchema, secretLimits } from '@squash/contract/secrets';
import type { ResolvedSecret } from './merge-secrets.ts';
import { sourceText } from './layers.ts';
import { errnoOf, PolicyProblem, whyUnread } from '../policy-problem.ts';

export interface SecretPlace {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
}

const commandMs = 30_000;

/** @throws PolicyProblem where one can't be read */
export function readSecrets(secrets: ReadonlyMap<string, ResolvedSecret>, place: SecretPlace): OwnSecrets {
  const read = [...secrets].map(([name, { from, hosts, surfaces, source }]) => {
    const complain = (what: string): never => {
      throw new PolicyProblem([`secret ${name} of ${sourceText(source)}: ${what}`]);
    };
    const value = valueOf(from, place, complain).replace(/\r?\n$/, '');
    const secret = {
      value,
      allowed_hosts: [...hosts],
      ...(surfaces !== undefined && { surfaces: [...surfaces] }),
    };
    if (value.length < secretLimits.valueCharsMin)
      complain(
        `its value is shorter than ${secretLimits.valueCharsMin} characters, which can't be told from other text`,
      );
    const checked = ownSecretsSchema.safeParse({ [name]: secret });
    if (checked.success) return [name, checked.data[name]] as const;
    return complain(checked.error.issues.map(({ message }) => message).join('; '));
  });
  if (read.length > secretLimits.ownSecretsMax)
    throw new PolicyProblem([`${read.length} secrets: a box has ${secretLimits.ownSecretsMax} at most`]);
  return Object.fromEntries(read.flatMap(([name, secret]) => (secret === undefined ? [] : [[name, secret]])));
}

function valueOf(from: string, { env, home }: SecretPlace, complain: (what: string) => never): string {
  const at = from.indexOf(':');
  const [kind, word] = [from.slice(0, at), from.slice(at + 1)];
  if (kind === 'env') return env[word] ?? complain(`the variable ${word} is not set`);
  if (kind === 'file') return fileText(word.startsWith('~/') ? join(home, word.slice(2)) : word, complain);
  // In the home directory: a relative program of the repository must not be found.
  const { status, signal, error, stdout } = spawnSync('/bin/sh', ['-c', word], {
    cwd: home,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: commandMs,
    maxBuffer: secretLimits.valueCharsMax * 4,
  });
  if (error !== undefined) complain(`its command failed: ${errnoOf(error) ?? error.message}`);
  if (status !== 0) complain(`its command ended with ${status ?? signal ?? 'nothing'}`);
  return stdout;
}

function fileText(path: string, complain: (what: string) => never): string {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (cause) {
    return complain(`${path} can't be read: ${whyUnread(cause)}`);
  }
  try {
    const facts = fstatSync(fd);
    if (!facts.isFile() || facts.size > secretLimits.valueCharsMax * 4)
      complain(`${path} is no file of one value`);
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}
