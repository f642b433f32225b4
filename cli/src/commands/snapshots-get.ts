/**
 * `squash snapshots get`: a snapshot whole, as one squashfs file. The file has its name when all of it is there: a
 * download that breaks off leaves nothing that looks like a backup.
 */
import { randomBytes } from 'node:crypto';
import { link, open, rename, unlink } from 'node:fs/promises';
import { snapshotPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, errorCode, exitCodes, fileProblem } from '../failure.ts';
import { withProgress } from '../output/progress.ts';
import { formatBytes, printJson, printLine, standardOutput } from '../output/print.ts';
import { openOutputSink } from '../terminal/output-sink.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', label = '', file = `${id}-${label}.squashfs`] = call.positionals;
  const response = await call.client.open(snapshotPath(id, [label, 'file']), {});
  const bytes = Number(response.headers.get('content-length') ?? 0);
  const body = withProgress(response.body(), { label, bytes });
  if (file === '-') {
    const sink = openOutputSink(standardOutput);
    try {
      for await (const part of body) await sink.write(part);
    } finally {
      sink.close();
    }
    return exitCodes.ok;
  }
  await save(body, file, call.flags.isSet('force'));
  if (call.json) printJson({ label, file, size: bytes });
  else printLine(`${file}  ${formatBytes(bytes)}`);
  return exitCodes.ok;
}

async function save(body: AsyncIterable<Buffer>, file: string, replaces: boolean): Promise<void> {
  const partial = `${file}.${randomBytes(4).toString('hex')}.part`;
  // What was written in a sandbox is its owner's affair.
  const handle = await open(partial, 'wx', 0o600).catch((cause) => unwritable(file, cause));
  try {
    try {
      for await (const part of body) await handle.appendFile(part).catch((cause) => unwritable(file, cause));
      await handle.sync();
    } finally {
      await handle.close();
    }
    // A link never replaces, whoever made the file meanwhile.
    await (replaces ? rename(partial, file) : link(partial, file)).catch((cause) => unwritable(file, cause));
  } finally {
    // It is gone already where it was renamed.
    await unlink(partial).catch(() => undefined);
  }
}

function unwritable(file: string, cause: unknown): never {
  if (errorCode(cause) === 'EEXIST') {
    throw new CliFailure('file_exists', `"${file}" exists; --force replaces it`);
  }
  throw new CliFailure('file_unwritable', `can't write "${file}": ${fileProblem(cause)}`);
}
