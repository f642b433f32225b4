/**
 * `module.*`: the modules, and adding one to a sandbox. An import goes to a file in `tmp/` as it comes, then the layer store
 * verifies it and takes it over.
 *
 * What is in `tmp/` belongs to nobody: a daemon that dies in the middle leaves a file that the next start removes.
 */
import { limits } from '@squash/contract/limits';
import type { GcAnswer, Module, ModuleDetails as DetailsOf } from '@squash/contract/module';
import type { moduleOperations } from '@squash/contract/operations/modules';
import type { Engine } from '../engine/engine.ts';
import type { ModuleDetails, ModuleInfo, Sweep } from '../engine/modules.ts';
import { cutPage } from '../engine/page.ts';
import { Places } from '../http/places.ts';
import { empty, json } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { receiveUpload } from '../http/upload.ts';
import { download } from './download.ts';
import type { UploadPlace } from './snapshots.ts';

type ModuleHandlers = HandlersOf<typeof moduleOperations>;

export function moduleHandlers({ modules, sandboxes }: Engine, uploads: UploadPlace): ModuleHandlers {
  const readings = new Places('modules are being read', limits.downloadsMax);
  return {
    'module.list': async ({ query }) => {
      const all = (await modules.list()).map(moduleOf);
      return json(cutPage(all, query, { placeOf: ({ name }) => ({ createdMs: 0, id: name }) }));
    },
    'module.get': async ({ params }) => json(detailsOf(await modules.get(params.name))),
    'module.describe': async ({ params, body }) => json(detailsOf(await modules.describe(params.name, body))),
    'module.verify': ({ params, caller }) =>
      readings.hold(caller.owner, async () => json(detailsOf(await modules.verify(params.name)))),
    'module.download': ({ params, caller }) =>
      download(readings, caller.owner, () => modules.open(params.name)),
    'module.import': importing(modules, uploads),
    'module.remove': async ({ params }) => {
      await modules.remove(params.name);
      return empty;
    },
    'module.gc': async ({ body }) => json(gcOf(await modules.sweep({ isDry: body.dry_run ?? false }))),
    'module.activate': async ({ params, body }) => {
      await modules.activate(params.id, body.module);
      return json(sandboxes.describe(params.id));
    },
    'seed.modules': async ({ query }) => {
      const all = await modules.list();
      if (query.format === 'names') return json({ modules: all.map(({ name }) => name) });
      return json(all.map(({ name, size, location }) => ({ name, size, location })));
    },
    'seed.gc': async ({ body }) => {
      const done = gcOf(await modules.sweep({ isDry: body.dry_run ?? false }));
      return json({
        stored_objects: done.trees,
        live_objects: done.trees_in_use,
        swept_objects: done.trees_removed,
        bytes_freed: done.bytes_freed,
        dry_run: done.dry_run,
      });
    },
    'seed.activate': async ({ params, body }) => {
      await modules.activate(params.id, body.module);
      return json(sandboxes.get(params.id));
    },
  };
}

function moduleOf({ name, size, location }: ModuleInfo): Module {
  return { name, size_bytes: size, location };
}

function gcOf({ isDry, trees, swept, bytes }: Sweep): GcAnswer {
  return {
    dry_run: isDry,
    trees,
    trees_in_use: trees - swept,
    trees_removed: swept,
    bytes_freed: bytes,
  };
}

export function detailsOf({ digest, manifest, programs, ...info }: ModuleDetails): DetailsOf {
  return {
    ...moduleOf(info),
    sha256: digest,
    built_at: manifest?.built_at ?? null,
    builder: manifest?.builder ?? null,
    base: manifest?.base ?? null,
    packages: [...(manifest?.packages ?? [])],
    provenance: { ...manifest?.provenance },
    architecture: programs?.architecture ?? null,
    libc: programs?.libc ?? null,
  };
}

function importing(
  modules: Engine['modules'],
  { directory, places }: UploadPlace,
): Handler<(typeof moduleOperations)['module.import']> {
  return ({ params, query, incoming, caller }) =>
    places.hold(caller.owner, async () => {
      await using upload = await receiveUpload(incoming, directory);
      const isReplaced = query.replace === true;
      return json(moduleOf(await modules.import(upload.path, params.name, { replace: isReplaced })));
    });
}
