/** `squash secret ls`: the secrets by name, with what sandboxes see and where the value goes. Never a value. */
import type { SecretInfo } from '@squash/contract/secrets';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const secrets = await call.client.get<readonly SecretInfo[]>(secretsPath());
  if (call.json) printJson(secrets);
  else {
    printTable<SecretInfo>(
      [
        { title: 'NAME', text: (each) => each.name },
        { title: 'HOSTS', text: (each) => each.allowed_hosts.join(',') },
        { title: 'SURFACES', text: (each) => each.surfaces.join(',') },
        { title: 'PLACEHOLDER', text: (each) => each.placeholder },
      ],
      secrets,
    );
  }
  return exitCodes.ok;
}

export function secretsPath(name?: string): string {
  return apiPath(['v1', 'secrets', ...(name === undefined ? [] : [name])]);
}
