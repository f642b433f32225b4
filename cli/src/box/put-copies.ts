/** Writes into a new box the files that it has a copy of, as its user would have written them. */
import type { FileCopy } from '@squash/box/copies';
import { type Client, filesPath, sandboxRecordPath } from '../client/client.ts';

export async function putCopies(client: Client, id: string, copies: readonly FileCopy[]): Promise<void> {
  try {
    await Promise.all(copies.map(async (copy) => await put(client, id, copy)));
  } catch (failure) {
    // Without its settings a program might do what they forbid.
    await client.delete(sandboxRecordPath(id));
    throw failure;
  }
}

async function put(client: Client, id: string, { path, mode, content }: FileCopy): Promise<void> {
  const owner = `${process.geteuid?.()}:${process.getegid?.()}`;
  const query = { path, as: owner, mode: mode.toString(8), parents: 'true' };
  await client.upload(filesPath(id, [], query), once(content), content.length);
}

async function* once(content: Buffer): AsyncIterable<Uint8Array> {
  if (content.length > 0) yield content;
}
