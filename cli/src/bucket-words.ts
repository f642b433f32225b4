/** What commands for the bucket are told: `NNN-name` is a module, `ID/LABEL` a snapshot; and how it is brought there and back. */
import { apiPath, type Client } from './client/client.ts';
import { printLine, visible } from './output/print.ts';

export const bucketPath = (rest: readonly string[], query: Readonly<Record<string, string>> = {}): string =>
  apiPath(['v1', 'bucket', ...rest], query);

/** The daemon checks what a name may be. */
function wishOf(word: string): Readonly<Record<string, string>> {
  const at = word.indexOf('/');
  return at < 0 ? { module: word } : { sandbox: word.slice(0, at), snapshot: word.slice(at + 1) };
}

export interface Moved {
  readonly name: string;
  readonly did: 'push' | 'pull';
}

/** Each waits until it is done, and is told then. */
export async function move(
  client: Client,
  {
    did,
    names,
    replace,
  }: { readonly did: Moved['did']; readonly names: readonly string[]; readonly replace?: boolean },
  isQuiet: boolean,
): Promise<readonly Moved[]> {
  const moved: Moved[] = [];
  for (const name of names) {
    const wish = replace === true ? { ...wishOf(name), replace } : wishOf(name);
    await client.post(bucketPath([did]), wish);
    moved.push({ name, did });
    if (!isQuiet) printLine(`${did === 'push' ? 'pushed' : 'pulled'} ${visible(name)}`);
  }
  return moved;
}
