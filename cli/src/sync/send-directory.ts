/** A whole directory of this machine into a sandbox, in one request. */
import type { Unpacked } from '@squash/contract/file';
import { type Client, filesPath } from '../client/client.ts';
import { CliFailure, errorCode, fileProblem } from '../failure.ts';
import { withProgress } from '../output/progress.ts';
import { excludesOf } from './exclusions.ts';
import { LocalTree } from './local-tree.ts';
import { writeTar } from './tar-writer.ts';

export async function sendDirectory(
  client: Client,
  from: string,
  to: { readonly id: string; readonly path: string; readonly label: string },
): Promise<Unpacked> {
  const { id, path, label } = to;
  const body = withProgress(packed(from), { label, bytes: undefined });
  return await client.upload<Unpacked>(
    filesPath(id, ['archive'], { path, parents: 'true' }),
    body,
    undefined,
  );
}

export async function* packed(from: string): AsyncGenerator<Buffer, void, void> {
  try {
    using local = new LocalTree(from);
    const tree = local.scan(excludesOf([]));
    yield* writeTar(local, tree, [...tree.entries.keys()]);
  } catch (cause) {
    if (errorCode(cause) === undefined || cause instanceof CliFailure) throw cause;
    throw new CliFailure('file_unreadable', `can't read all of "${from}": ${fileProblem(cause)}`);
  }
}
