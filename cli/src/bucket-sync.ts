/** Which modules, or snapshots of a sandbox, are here alone, and which in the bucket alone. */
import type { ModuleAnswer } from '@squash/contract/module';
import type { SnapshotDetails } from '@squash/contract/native-snapshot';
import { apiPath, type Client, modulesPath } from './client/client.ts';
import { everyItem } from './client/every-item.ts';

export interface Sides {
  readonly here: readonly string[];
  readonly elsewhere: readonly string[];
}

export async function moduleSides(client: Client): Promise<Sides> {
  const all = await client.get<readonly ModuleAnswer[]>(modulesPath);
  return sidesOf(all.map(({ name, location }) => ({ name, location })));
}

export async function snapshotSides(client: Client, id: string): Promise<Sides> {
  const page = (cursor: string | undefined): string =>
    apiPath(['v1', 'sandboxes', id, 'snapshots'], { cursor });
  const all = await everyItem<SnapshotDetails>(client, page);
  return sidesOf(all.map(({ label, location }) => ({ name: `${id}/${label}`, location })));
}

function sidesOf(all: readonly { readonly name: string; readonly location: string }[]): Sides {
  const at = (place: string): readonly string[] =>
    all.filter(({ location }) => location === place).map(({ name }) => name);
  return { here: at('local'), elsewhere: at('remote') };
}
