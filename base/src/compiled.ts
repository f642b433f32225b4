/**
 * Keeps Node's TypeScript parser out of the daemon's memory: 25 MB, loaded for the first file that is not in the
 * compile cache and never given back.
 *
 * A start that had to load it (the first one, and the first of a new version) writes the cache and starts the
 * program again, once, before it has touched anything. The process id stays.
 */
import { flushCompileCache } from 'node:module';

const mark = 'SQUASHD_COMPILED';

/** Does not return where the program is started again. */
export function startAgainCompiled(): void {
  const hasStarted = process.env[mark] !== undefined;
  // The second start must not look like a setting to what comes after.
  delete process.env[mark];
  if (hasStarted || process.env['NODE_COMPILE_CACHE'] === undefined || !hasParser()) return;
  flushCompileCache();
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, words, { ...process.env, [mark]: '1' } as Record<string, string>);
}

/** Node's own list of what it has loaded; a Node that does not tell is left as it is. */
function hasParser(): boolean {
  const loaded: unknown = Reflect.get(process, 'moduleLoadList');
  return Array.isArray(loaded) && loaded.some((name) => String(name).includes('amaro'));
}
