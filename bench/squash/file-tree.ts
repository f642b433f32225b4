/** Files to be snapshotted and made images of: 64 KiB each, half of them random and half text. */
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const fileBytes = 65_536;

export async function makeTree(directory: string, megabytes: number): Promise<void> {
  const line = 'def handler(request): return {"status": 200, "body": request.path}  # ordinary source text\n';
  const text = Buffer.from(line.repeat(Math.ceil(fileBytes / line.length)).slice(0, fileBytes));
  const files = (megabytes * 1_048_576) / fileBytes;
  for (let index = 0; index < files; index++) {
    const folder = join(directory, `d${Math.floor(index / 32)}`);
    if (index % 32 === 0) await mkdir(folder, { recursive: true });
    // The number makes each text file differ, else mksquashfs stores them once.
    const content =
      index % 2 === 0 ? randomBytes(fileBytes) : Buffer.concat([Buffer.from(`${index}\n`), text]);
    await writeFile(join(folder, `f${index}`), content);
  }
}
