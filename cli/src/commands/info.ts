/** `squash info`: one sandbox, field by field, under the API's own names. */
import type { SandboxInfo } from '@squash/contract/sandbox';
import { sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine, visible } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const info = await call.client.get<SandboxInfo>(sandboxPath(call.positionals[0] ?? ''));
  if (call.json) printJson(info);
  else printInfo(info);
  return exitCodes.ok;
}

/** Shared with `activate` and `restore`, which answer with the sandbox as it is now. */
export function printInfo(info: SandboxInfo): void {
  for (const [name, value] of Object.entries(info)) {
    const [first = '-', ...more] = describe(name, value);
    printLine(`${`${name}:`.padEnd(17)}${visible(first)}`);
    for (const line of more) printLine(`${' '.repeat(17)}${visible(line)}`);
  }
}

/** Short values in one line, sentences one a line. */
function describe(name: string, value: SandboxInfo[keyof SandboxInfo]): readonly string[] {
  if (value === null) return [];
  if (name === 'upper_bytes' && typeof value === 'number') return [`${value} (${formatBytes(value)})`];
  if (!Array.isArray(value)) return [`${value}`];
  const lines: string[] = [];
  const words: string[] = [];
  for (const each of value) {
    if (typeof each === 'string') words.push(each);
    else if ('label' in each) words.push(`${each.label} (${formatBytes(each.size)})`);
    else lines.push(`${each.message} (${each.code})`);
  }
  return words.length > 0 ? [words.join(', '), ...lines] : lines;
}
