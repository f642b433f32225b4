/**
 * `--secret NAME=SOURCE@HOST,…`: a secret of the new sandbox's own. The source says where its value is read: a variable, a
 * file, standard input. What stands there instead may be a value, so no message repeats it.
 */
import { readFileSync } from 'node:fs';
import { fileProblem, usageFailure } from './failure.ts';

interface OwnSecret {
  readonly value: string;
  readonly allowed_hosts: readonly string[];
}

export function readOwnSecrets(words: readonly string[]): Readonly<Record<string, OwnSecret>> {
  const fromInput = words.filter((word) => /^[^=]+=-@/.test(word)).map((word) => word.split('=', 1)[0]);
  if (fromInput.length > 1) {
    throw usageFailure(
      `standard input is one secret's value: ${fromInput.join(' and ')} can't both be read from it`,
    );
  }
  return Object.fromEntries(
    words.map((word) => {
      const [, name = '', source = '', hosts = ''] =
        /^([^=]+)=(env|env:[^@]+|file:.+|-)@([^@]+)$/.exec(word) ?? badWord(word);
      const value = read(name, source).replace(/\r?\n$/, '');
      if (value === '') throw usageFailure(`the value of secret ${name} is empty`);
      return [name, { value, allowed_hosts: hosts.split(',').map((host) => host.trim()) }];
    }),
  );
}

function badWord(word: string): never {
  const [name = ''] = word.split('=', 1);
  if (/^[^=]+=(?:-|env|(?:env|file):[^@]*)@?$/.test(word)) {
    throw usageFailure(
      `--secret ${name}=… names no host: behind the source stands "@HOST", several with commas between them`,
    );
  }
  throw usageFailure(
    `--secret ${name}=… takes "env@HOST", "env:VARIABLE@HOST", "file:PATH@HOST" or "-@HOST" (standard input): a value is never a word of the command`,
  );
}

function read(name: string, source: string): string {
  if (source.startsWith('env')) {
    const variable = source === 'env' ? name : source.slice('env:'.length);
    const value = process.env[variable];
    if (value === undefined) throw usageFailure(`the variable ${variable} for secret ${name} is not set`);
    return value;
  }
  const path = source === '-' ? 0 : source.slice('file:'.length);
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw usageFailure(`can't read the value of secret ${name}: ${fileProblem(cause)}`);
  }
}
