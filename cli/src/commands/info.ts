/** `squash info`: one sandbox, field by field, under the API's own names. */
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { isUnknownOperation, sandboxPath, sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine, visible } from '../output/print.ts';

export async function run({ client, positionals, json }: Call): Promise<number> {
  const [id = ''] = positionals;
  const { warnings, ...info } = await client.get<SandboxInfo>(sandboxPath(id));
  const record = await client.get<SandboxRecord>(sandboxRecordPath(id)).catch((error: unknown) => {
    if (isUnknownOperation(error)) return undefined;
    throw error;
  });
  // Both spellings: each tells something that the other has not.
  const all = { ...info, ...record, warnings: record?.warnings ?? warnings };
  if (json) printJson(all);
  else printInfo(all);
  return exitCodes.ok;
}

/** Shared with commands that answer with the sandbox as it is now. */
export function printInfo(info: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(info)) {
    const [first = '-', ...more] = describe(name, value);
    printLine(`${`${name}:`.padEnd(16)} ${visible(first)}`);
    for (const line of more) printLine(`${' '.repeat(17)}${visible(line)}`);
  }
}

/** Short values in one line, sentences one a line. */
function describe(name: string, value: unknown): readonly string[] {
  if (value === null || value === undefined) return [];
  if (typeof value === 'number' && name.endsWith('_bytes')) return [`${value} (${formatBytes(value)})`];
  if (!Array.isArray(value)) return typeof value === 'object' ? pairs(value) : [String(value as Plain)];
  const lines: string[] = [];
  const words: string[] = [];
  for (const each of value as readonly (string | Snapshot | Warning)[]) {
    if (typeof each === 'string') words.push(each);
    else if ('label' in each) words.push(`${each.label} (${formatBytes(each.size)})`);
    else lines.push(`${each.message} (${each.code})`);
  }
  return words.length > 0 ? [words.join(', '), ...lines] : lines;
}

type Plain = string | number | boolean;
type Snapshot = SandboxInfo['snapshots'][number];
type Warning = SandboxInfo['warnings'][number];

/** Labels and variables: one a line, because a value may be long. */
function pairs(value: object): readonly string[] {
  return Object.entries(value).map(([key, each]) => `${key}=${each}`);
}
