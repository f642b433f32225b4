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
    printLine(`${`${name}:`.padEnd(17)}${visible(describe(name, value))}`);
  }
}

function describe(name: string, value: SandboxInfo[keyof SandboxInfo]): string {
  if (value === null) return '-';
  if (name === 'upper_bytes' && typeof value === 'number') return `${value} (${formatBytes(value)})`;
  if (!Array.isArray(value)) return `${value}`;
  const words = value.map((each) => {
    if (typeof each === 'string') return each;
    return 'label' in each ? `${each.label} (${formatBytes(each.size)})` : `${each.message} (${each.code})`;
  });
  return words.length === 0 ? '-' : words.join(', ');
}
