/** What an unpacked tree takes of the disk. Nothing writes to it any more, so a name is what it was when it was listed. */
import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';

/** Of names that are asked for at once: the rest of the daemon wants its turns. */
const batchMax = 32;

/** Bytes on the disk; a file with several names counts once. */
export async function treeBytes(root: string): Promise<number> {
  const seen = new Set<bigint>();
  const waiting = [root];
  let bytes = 0;
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const batch: string[] = [];
    const measure = async (): Promise<void> => {
      const names = batch.splice(0);
      const facts = await Promise.all(names.map((name) => lstat(name, { bigint: true })));
      for (const [index, fact] of facts.entries()) {
        if (fact.isDirectory()) waiting.push(names[index] ?? '');
        else if (fact.nlink > 1n) {
          if (seen.has(fact.ino)) continue;
          seen.add(fact.ino);
        }
        bytes += Number(fact.blocks) * 512;
      }
    };
    for await (const { name } of await opendir(path)) {
      batch.push(join(path, name));
      if (batch.length >= batchMax) await measure();
    }
    await measure();
  }
  return bytes;
}
