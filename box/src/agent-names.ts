/**
 * Names of agents' settings in a home: `.claude`, `.claude.json` and what lies beside them.
 *
 * A home of ten thousand entries takes an eighth of a box's start to list. What was found holds as long as the directory was not changed,
 * so that a command line which stands by has listed it before it is called.
 */
import { readdirSync, statSync } from 'node:fs';

const pattern = /^\.claude(?:$|[.-])/;
/** What is changed in the moment of a listing may have the time of before: some file systems tell times in steps of two seconds. */
const settledMs = 2_500;
const listed = new Map<string, { readonly mark: string; readonly names: readonly string[] }>();

/** @param home canonical */
export function agentNames(home: string): readonly string[] {
  try {
    const { dev, ino, ctimeNs, ctimeMs } = statSync(home, { bigint: true });
    const mark = [dev, ino, ctimeNs].join(':');
    const known = listed.get(home);
    if (known?.mark === mark) return known.names;
    const isSettled = BigInt(Date.now()) - ctimeMs > settledMs;
    const names = readdirSync(home).filter((name) => pattern.test(name));
    if (isSettled) listed.set(home, { mark, names });
    return names;
  } catch {
    // No home, or one that may not be listed: there is nothing to be opened in it.
    return [];
  }
}
