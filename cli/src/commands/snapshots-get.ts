/** `squash snapshots get`: a snapshot whole, as one squashfs file. */
import { snapshotPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { withProgress } from '../output/progress.ts';
import { formatBytes, printJson, printLine } from '../output/print.ts';
import { save, writeOut } from '../output/saved-file.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', label = '', file = `${id}-${label}.squashfs`] = call.positionals;
  const response = await call.client.open(snapshotPath(id, [label, 'file']), {});
  const bytes = Number(response.headers.get('content-length') ?? 0);
  const body = withProgress(response.body(), { label, bytes });
  if (file === '-') return await writeOut(body);
  await save(body, file, call.flags.isSet('force'));
  if (call.json) printJson({ label, file, size: bytes });
  else printLine(`${file}  ${formatBytes(bytes)}`);
  return exitCodes.ok;
}
