/** `squash module verify`: has a module become another than it was? All of its file is read. */
import type { Module, ModuleDetails } from '@squash/contract/module';
import { apiPath, type Client, modulePath } from '../client/client.ts';
import { everyItem } from '../client/every-item.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { styled } from '../output/table.ts';

interface Verified {
  readonly name: string;
  readonly ok: boolean;
  readonly sha256?: string;
  readonly error?: { readonly code: string; readonly message: string };
}

export async function run({ client, positionals, json }: Call): Promise<number> {
  const names =
    positionals.length > 0
      ? positionals
      : (await everyItem<Module>(client, modulesPage)).map(({ name }) => name);
  const all: Verified[] = [];
  // One after the other: it is the disk that takes its time.
  for (const name of names) {
    const verified = await verify(client, name);
    all.push(verified);
    if (!json) print(verified);
  }
  if (json) printJson(all);
  return all.every(({ ok }) => ok) ? exitCodes.ok : exitCodes.failed;
}

const modulesPage = (cursor: string | undefined) => apiPath(['v1', 'modules'], { cursor });

async function verify(client: Client, name: string): Promise<Verified> {
  try {
    const { sha256 } = await client.post<ModuleDetails>(modulePath(name, ['verify']), {});
    return { name, ok: true, sha256 };
  } catch (error) {
    if (!(error instanceof CliFailure) || !['layer_corrupt', 'module_not_found'].includes(error.code))
      throw error;
    return { name, ok: false, error: { code: error.code, message: error.message } };
  }
}

function print({ name, ok, sha256, error }: Verified): void {
  const said = ok ? styled('green', 'ok') : styled('red', 'FAIL');
  printLine(`${visible(name)}  ${said}  ${visible(sha256 ?? error?.message ?? '')}`);
}
