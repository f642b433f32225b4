/** `squash image export`: an image as one tar, an OCI layout and a docker-archive at once. */
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine } from '../output/print.ts';
import { withProgress } from '../output/progress.ts';
import { refuseExisting, save, writeOut } from '../output/saved-file.ts';

export async function run({ client, positionals, flags, json }: Call): Promise<number> {
  const [image = '', file = ''] = positionals;
  const replaces = flags.isSet('force');
  // Before the daemon makes it.
  if (file !== '-' && !replaces) refuseExisting(file);
  const response = await client.open(apiPath(['v1', 'images', image, 'file']), {});
  const bytes = Number(response.headers.get('content-length') ?? 0);
  const body = withProgress(response.body(), { label: image, bytes });
  if (file === '-') return await writeOut(body);
  await save(body, file, replaces);
  if (json) printJson({ image, file, size: bytes });
  else printLine(`${file}  ${formatBytes(bytes)}`);
  return exitCodes.ok;
}
