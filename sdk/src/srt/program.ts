/** The program `squash`, as words to start it with. */
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Undefined where there is none. */
export function findSquash(named: string | undefined): readonly string[] | undefined {
  if (named !== undefined) return [named];
  // In a checkout only: what lies beside an installed package is anybody's.
  if (import.meta.url.endsWith('/sdk/src/srt/program.ts')) {
    const beside = fileURLToPath(new URL('../../../cli/bin/squash.cjs', import.meta.url));
    if (existsSync(beside)) return [process.execPath, beside];
  }
  for (const directory of (process.env['PATH'] ?? '').split(delimiter)) {
    if (!isAbsolute(directory)) continue;
    const path = join(directory, 'squash');
    try {
      accessSync(path, constants.X_OK);
      return [path];
    } catch {
      // It is further on, or nowhere.
    }
  }
  return undefined;
}

export function shellWord(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
