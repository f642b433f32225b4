/** Files of a layer in which a program of this host runs, and a static one finds how to resolve names. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A program of this host with the libraries it is linked to, by paths in a sandbox. */
export function glibcProgram(path: string): Record<string, Uint8Array> {
  const linked = execFileSync('ldd', [path], { encoding: 'utf8' });
  const libraries = [...linked.matchAll(/(\/\S+\.so\S*)/g)].map(([, library = '']) => library);
  return Object.fromEntries([path, ...libraries].map((one) => [one.slice(1), readFileSync(one)]));
}
