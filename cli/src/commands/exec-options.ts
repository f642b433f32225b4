/** The options that `exec`, `shell` and `run` share, read into what the stream wants. */
import { isatty } from 'node:tty';
import { limits } from '@squash/contract/limits';
import type { Flags } from '../arguments.ts';
import type { Call } from '../command.ts';
import { usageFailure } from '../failure.ts';
import type { ExecWish } from '../terminal/exec-stream.ts';

export function readExecWish(call: Call): ExecWish {
  const { flags } = call;
  const tty = flags.isSet('tty');
  if (flags.isSet('interactive') && flags.isSet('no-stdin')) {
    throw usageFailure('--interactive and --no-stdin exclude each other');
  }
  const timeoutS = flags.number('timeout', { min: 0.001, max: limits.jobTimeoutSMax });
  return {
    argv: readArgv(call),
    env: readEnvironment(flags),
    cwd: readWorkdir(flags),
    user: readUser(flags),
    timeoutMs: timeoutS === undefined ? undefined : Math.round(timeoutS * 1000),
    tty,
    stdin: !flags.isSet('no-stdin') && (tty || flags.isSet('interactive') || !isatty(0)),
    output: call.json ? 'discard' : 'print',
  };
}

/** The command's words, or `/bin/sh -c TEXT WORDS…`. */
function readArgv({ flags, rest }: Pick<Call, 'flags' | 'rest'>): readonly string[] {
  const text = flags.text('shell');
  if (text !== undefined) return ['/bin/sh', '-c', text, ...(rest.length > 0 ? ['sh', ...rest] : [])];
  if (rest.length === 0) throw usageFailure('the command is missing; give its words, or --shell TEXT');
  return rest;
}

export function readEnvironment(flags: Flags): Readonly<Record<string, string>> {
  const entries: [string, string][] = [];
  for (const word of flags.list('env')) {
    const equals = word.indexOf('=');
    const name = equals < 0 ? word : word.slice(0, equals);
    if (name === '') throw usageFailure(`--env takes NAME=VALUE, not "${word}"`);
    // As in container engines: a name alone copies our value, and nothing where we have none.
    const value = equals < 0 ? process.env[name] : word.slice(equals + 1);
    if (value !== undefined) entries.push([name, value]);
  }
  return Object.fromEntries(entries);
}

export function readWorkdir(flags: Flags): string | undefined {
  const path = flags.text('workdir');
  if (path !== undefined && !path.startsWith('/'))
    throw usageFailure(`--workdir must be absolute, not "${path}"`);
  return path;
}

export function readUser(flags: Flags): ExecWish['user'] {
  const text = flags.text('user');
  if (text === undefined) return undefined;
  const match = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text);
  if (match === null) {
    if (/^[A-Za-z_][^:]*$/.test(text)) return text;
    throw usageFailure(`--user takes UID, UID:GID in numbers or a name, not "${text}"`);
  }
  const uid = Number(match[1]);
  return match[2] === undefined ? uid : { uid, gid: Number(match[2]) };
}
