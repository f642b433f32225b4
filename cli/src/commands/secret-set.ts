/**
 * `squash secret set`: makes or changes a secret. The value comes from standard input or is asked for: an argument would
 * stand in the shell's history and in the list of processes.
 */
import { readFileSync } from 'node:fs';
import type { SecretInfo } from '@squash/contract/secrets';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { askHidden } from '../terminal/hidden-input.ts';
import { secretsPath } from './secret-ls.ts';

export async function run(call: Call): Promise<number> {
  const [name = '', ...more] = call.positionals;
  if (more.length > 0)
    throw usageFailure('the value is read from standard input, never from the command line');
  const { flags } = call;
  const value = flags.isSet('keep-value') ? undefined : await readValue(name);
  const info = await call.client.put<SecretInfo>(secretsPath(name), {
    ...(value !== undefined && { value }),
    ...(flags.isSet('host') && { allowed_hosts: words(flags.list('host')) }),
    ...(flags.isSet('surface') && { surfaces: words(flags.list('surface')) }),
    ...(flags.isSet('placeholder') && { placeholder: flags.text('placeholder') }),
  });
  if (call.json) printJson(info);
  else printLine(info.placeholder);
  return exitCodes.ok;
}

/** The line break that `echo` or an editor put at its end is none of the value. */
async function readValue(name: string): Promise<string> {
  const text = process.stdin.isTTY === true ? await askHidden(`Value of ${name}: `) : readFileSync(0, 'utf8');
  const value = text.replace(/\r?\n$/, '');
  if (value === '')
    throw usageFailure('the value is empty; to change the rest of a secret give --keep-value');
  return value;
}

function words(lists: readonly string[]): readonly string[] {
  return lists.flatMap((list) => list.split(',')).map((word) => word.trim());
}
