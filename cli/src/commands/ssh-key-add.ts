/** `squash ssh-key add`: registers a public key from its file. A private one is not sent anywhere. */
import { readFileSync } from 'node:fs';
import type { SshKey, SshKeyWish } from '@squash/contract/ssh-keys';
import type { Call } from '../command.ts';
import { exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { momentOf } from '../moment.ts';
import { printJson, printLine } from '../output/print.ts';
import { sshKeysPath } from './ssh-key-ls.ts';

export async function run(call: Call): Promise<number> {
  const [file = ''] = call.positionals;
  const { flags } = call;
  const owner = flags.text('owner');
  if (owner === undefined) throw usageFailure('a key needs --owner OWNER');
  const line = publicLine(file);
  const expires = flags.text('expires');
  const scope = flags.text('scope');
  const made = await call.client.post<SshKey>(sshKeysPath(), {
    name:
      flags.text('name') ??
      (line
        .split(/[ \t]+/)
        .slice(2)
        .join(' ') ||
        'ssh'),
    owner,
    public_key: line,
    // The daemon says which there are.
    ...(scope !== undefined && { scope: scope as 'exec' }),
    ...(expires !== undefined && { expires_at: momentOf(expires, 1, 'expires') }),
  } satisfies SshKeyWish);
  if (call.json) printJson(made);
  else printLine(made.id);
  return exitCodes.ok;
}

function publicLine(file: string): string {
  let text: string;
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (cause) {
    throw usageFailure(`can't read "${file}": ${fileProblem(cause)}`);
  }
  if (text.includes('PRIVATE KEY'))
    throw usageFailure(`"${file}" is a private key: give the file that ends in .pub`);
  const lines = text.split('\n').filter((each) => each.trim() !== '' && !each.startsWith('#'));
  const [line = ''] = lines;
  if (lines.length !== 1)
    throw usageFailure(`"${file}" must hold one public key, and holds ${lines.length} lines`);
  return line.trim();
}
