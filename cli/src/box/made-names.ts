/** What a box has made in a repository that it writes itself, and programs obey: nothing could keep it from that, so it is told. */
import type { BoxRules } from '@squash/box/base-rules';
import { printNote, visible } from '../output/print.ts';

/** More is read by nobody. */
const toldMax = 10;

export function noteMade(maker: 'box' | 'command', path: string): void {
  printNote(
    `squash: the ${maker} made ${visible(path)}, which programs obey: look at it before you go on here`,
  );
}

/** Before its command runs. @returns tells what is there more than now */
export async function lookForMadeNames({ repository, paths }: BoxRules): Promise<() => void> {
  if (repository === undefined || paths[repository] !== 'rw') return () => {};
  const { protectedNames } = await import('@squash/box/protected-names');
  const before = new Set(protectedNames(repository, 'first'));
  return () => {
    const made = protectedNames(repository, 'first').filter((path) => !before.has(path));
    for (const path of made.slice(0, toldMax)) noteMade('box', path);
    if (made.length > toldMax) printNote(`squash: and ${made.length - toldMax} more such names`);
  };
}
