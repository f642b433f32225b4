/**
 * Keeps Node's TypeScript parser out of the daemon's memory: 25 MB, loaded for the first file that is not in the
 * compile cache and never given back.
 *
 * A start that had to load it (the first one, and the first of a new version) writes the cache and starts the
 * program again, once, before it has touched anything. The process id stays.
 */
import { createRequire, flushCompileCache } from 'node:module';
import { loaderPath } from './programs.ts';

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

/**
 * Keeps what V8 has compiled of a built program for its next start, once: some 50 ms, in which nothing else is done.
 * @returns whether it was written; false where it runs from its sources
 */
export function keepCompiled(source: string): boolean {
  const loader = createRequire(import.meta.url)(loaderPath) as {
    readonly keepCompiled: (source: string) => boolean;
  };
  return loader.keepCompiled(source);
}
