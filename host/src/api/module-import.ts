/**
 * `module.import`: the body goes to a file in `tmp/` as it comes, then the layer store verifies it and takes it over.
 *
 * What is in `tmp/` belongs to nobody: a daemon that dies in the middle leaves a file that the next start removes.
 */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { moduleImport } from '@squash/contract/operations/modules';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import { receiveUpload } from '../http/upload.ts';
import type { Engine } from '../sandbox/engine.ts';

export interface ModuleImportOptions {
  /** Absolute path of the data directory's `tmp/`. */
  readonly temporaryDir: string;
}

export function moduleImportHandler(
  engine: Engine,
  options: ModuleImportOptions,
): Handler<typeof moduleImport> {
  let running = 0;
  return async ({ params, query, incoming }) => {
    if (running >= limits.uploadsMax) {
      throw new AppError('stream_limit', `${limits.uploadsMax} uploads are in progress: try again later`);
    }
    running += 1;
    try {
      await using upload = await receiveUpload(incoming, options.temporaryDir);
      const isReplaced = query.replace === 'true';
      const { name, size, location } = await engine.importModule(upload.path, params.name, {
        replace: isReplaced,
      });
      return json({ name, size, location });
    } finally {
      running -= 1;
    }
  };
}
