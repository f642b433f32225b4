/** Sends a squashfs file to the daemon and shows what it made of it: shared by `module build`, `module import` and `quickstart`. */
import { createReadStream, statSync } from 'node:fs';
import type { Module } from '@squash/contract/module';
import { apiPath, type Client, isUnknownOperation, modulePath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { formatBytes, printJson, printLine, printNote, visible } from '../output/print.ts';
import { withProgress } from '../output/progress.ts';

/** A module of any name can be kept, but only three digits say where in a stack it lies. */
export function noteUnstackable(name: string): void {
  if (/^\d{3}-/.test(name)) return;
  printNote(
    `squash: warning: no sandbox can be made of "${visible(name)}": its name does not begin with three digits and "-"`,
  );
}

/** @param module from a daemon of the first release, which calls its size otherwise */
export function showModule(call: Pick<Call, 'json'>, module: Module & { readonly size?: number }): void {
  if (call.json) printJson(module);
  else printLine(`${visible(module.name)}  ${formatBytes(module.size_bytes ?? module.size)}`);
}

export async function uploadModule(
  client: Client,
  path: string,
  module: { readonly name: string; readonly replace: boolean; readonly manifest: object },
): Promise<Module> {
  const bytes = statSync(path).size;
  const source = createReadStream(path, { highWaterMark: 262_144 });
  const query = module.replace ? { replace: 'true' } : {};
  const answer = await client.upload<Module>(
    apiPath(['v1', 'modules', module.name], query),
    withProgress(source, { label: module.name, bytes }),
    bytes,
  );
  noteUnstackable(module.name);
  await describeModule(client, module.name, module.manifest);
  return answer;
}

/** Says what it is made of. An older daemon does not want to know. */
export async function describeModule(client: Client, name: string, manifest: unknown): Promise<void> {
  await client.put(modulePath(name, ['manifest']), manifest).catch((error: unknown) => {
    if (!isUnknownOperation(error)) throw error;
  });
}
