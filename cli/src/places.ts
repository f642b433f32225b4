/**
 * Where the project's other parts lie, for commands that start one of them.
 *
 * The only file that may ask where it is: in the built CLI all sources are one file, which
 * `tools/setup/build-cli.ts` tells this folder's path.
 */
import { join } from 'node:path';

export function projectPath(path: string): string {
  return join(import.meta.dirname, '../..', path);
}
