/** Where the project's other parts lie, for commands that start one of them. */
import { join } from 'node:path';

export function projectPath(path: string): string {
  return join(import.meta.dirname, '../..', path);
}
