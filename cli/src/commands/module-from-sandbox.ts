/**
 * `squash module from-sandbox`: what a sandbox has on top of its modules, as a module of its own.
 *
 * It is a snapshot under a module's name. A download of a snapshot is whole, also where the sandbox was restored before
 * and its upper is only a part of what it has.
 */
import { randomBytes } from 'node:crypto';
import type { Module, ModuleDetails } from '@squash/contract/module';
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import type { SnapshotTaken } from '@squash/contract/native-snapshot';
import { apiPath, type Client, modulePath, snapshotPath } from '../client/client.ts';
import type { HttpResponse } from '../client/http.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { withProgress } from '../output/progress.ts';
import { describeModule, noteUnstackable, showModule } from './module-upload.ts';

/** Of a manifest's `provenance`. */
const wordCharactersMax = 4_096;

export async function run(call: Call): Promise<number> {
  const { client, flags } = call;
  const [id = '', name = `900-${id}`] = call.positionals;
  const label = flags.text('snapshot');
  const { layers } = await client.get<SandboxRecord>(apiPath(['v1', 'sandboxes', id]));
  const file =
    label === undefined
      ? await openNow(client, id)
      : await client.open(snapshotPath(id, [label, 'file']), {});
  const bytes = Number(file.headers.get('content-length') ?? 0);
  const query = flags.isSet('replace') ? { replace: 'true' } : {};
  const body = withProgress(file.body(), { label: name, bytes });
  const module = await client.upload<Module>(apiPath(['v1', 'modules', name], query), body, bytes);
  noteUnstackable(name);
  const { sha256 } = await client.get<ModuleDetails>(modulePath(name));
  await describeModule(client, name, {
    schema: 1,
    name,
    built_at: new Date().toISOString(),
    builder: 'squash module from-sandbox',
    // The modules may have been replaced since the sandbox was made: their names are known, their digests are not.
    base: null,
    packages: [],
    squashfs_sha256: sha256,
    provenance: {
      sandbox: id,
      layers: layers.join(' ').slice(0, wordCharactersMax),
      ...(label !== undefined && { snapshot: label }),
    },
  });
  showModule(call, module);
  return exitCodes.ok;
}

/** The sandbox as it is. The daemon holds the file open, so the snapshot can go at once: whatever ends this call leaves none. */
async function openNow(client: Client, id: string): Promise<HttpResponse> {
  const label = `from-sandbox-${randomBytes(4).toString('hex')}`;
  await client.post<SnapshotTaken>(snapshotPath(id), { label });
  try {
    return await client.open(snapshotPath(id, [label, 'file']), {});
  } finally {
    await client.delete(snapshotPath(id, [label]));
  }
}
