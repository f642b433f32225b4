/**
 * `module.*`: the modules, and adding one to a sandbox. An import goes to a file in `tmp/` as it comes, then the layer store
 * verifies it and takes it over.
 *
 * What is in `tmp/` belongs to nobody: a daemon that dies in the middle leaves a file that the next start removes.
 */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { moduleOperations } from '@squash/contract/operations/modules';
import type { Engine } from '../engine/engine.ts';
import { empty, json } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { receiveUpload } from '../http/upload.ts';

type ModuleHandlers = HandlersOf<typeof moduleOperations>;

/** @param temporaryDir absolute path of the data directory's `tmp/` */
export function moduleHandlers({ modules }: Engine, temporaryDir: string): ModuleHandlers {
  return {
    'module.list': async ({ query }) => {
      const all = await modules.list();
      if (query.format === 'names') return json({ modules: all.map(({ name }) => name) });
      return json(all.map(({ name, size, location }) => ({ name, size, location })));
    },
    'module.import': importing(modules, temporaryDir),
    'module.remove': async ({ params }) => {
      await modules.remove(params.name);
      return empty;
    },
    'sandbox.activate': async ({ params, body }) => json(await modules.activate(params.id, body.module)),
  };
}

function importing(
  modules: Engine['modules'],
  temporaryDir: string,
): Handler<(typeof moduleOperations)['module.import']> {
  let running = 0;
  return async ({ params, query, incoming }) => {
    if (running >= limits.uploadsMax) {
      throw new AppError('stream_limit', `${limits.uploadsMax} uploads are in progress: try again later`);
    }
    running += 1;
    try {
      await using upload = await receiveUpload(incoming, temporaryDir);
      const isReplaced = query.replace === 'true';
      const { name, size, location } = await modules.import(upload.path, params.name, {
        replace: isReplaced,
      });
      return json({ name, size, location });
    } finally {
      running -= 1;
    }
  };
}
