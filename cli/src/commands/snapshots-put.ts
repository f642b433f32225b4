/** `squash snapshots put`: sends a squashfs file to the daemon, which checks it and keeps it as a snapshot. */
import { snapshotPath } from '../client/client.ts';
import { imageName, openImage } from '../client/image-source.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { withProgress } from '../output/progress.ts';
import { formatBytes, printJson, printLine } from '../output/print.ts';
import { type AnySnapshot, sizeOf } from './snapshots-ls.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', file = '', label = imageName(file)] = call.positionals;
  if (label === undefined) throw usageFailure('a label is needed when the file comes from standard input');
  const source = await openImage(file);
  const body = withProgress(source.stream, { label, bytes: source.bytes });
  const path = snapshotPath(id, [label, 'file']);
  const snapshot = await call.client.upload<AnySnapshot>(path, body, source.bytes);
  if (call.json) printJson(snapshot);
  else printLine(`${snapshot.label}  ${formatBytes(sizeOf(snapshot))}`);
  return exitCodes.ok;
}
