/** Files and directories of this machine that a command takes along into its sandbox. */
import { stat } from 'node:fs/promises';
import { basename, posix, resolve } from 'node:path';
import { filesPath } from './client/client.ts';
import { openImage } from './client/image-source.ts';
import type { Call } from './command.ts';
import { CliFailure, fileProblem } from './failure.ts';
import { visible } from './output/print.ts';
import { sendDirectory } from './sync/send-directory.ts';

export interface TakenFile {
  /** Here. */
  readonly from: string;
  /** There, relative to the directory the command starts in. */
  readonly to: string;
}

/** By its own name. */
export const taken = (from: string): TakenFile => ({ from, to: basename(resolve(from)) });

/** Before a sandbox is made for them. @throws where one is not to be had */
export async function checkTaken(files: readonly TakenFile[]): Promise<void> {
  for (const { from } of files) {
    await stat(from).catch((cause: unknown) => {
      throw new CliFailure('file_unreadable', `can't read "${from}": ${fileProblem(cause)}`);
    });
  }
}

export async function takeAlong(
  { client }: Pick<Call, 'client'>,
  files: readonly TakenFile[],
  { id, workdir }: { readonly id: string; readonly workdir: string },
): Promise<void> {
  for (const { from, to } of files) {
    const path = posix.resolve(workdir, to);
    const facts = await stat(from);
    if (facts.isDirectory()) {
      await sendDirectory(client, from, { id, path, label: visible(basename(path)) });
      continue;
    }
    const { stream, bytes } = await openImage(from);
    const mode = (facts.mode & 0o777).toString(8).padStart(3, '0');
    await client.upload(filesPath(id, [], { path, mode, parents: 'true' }), stream, bytes);
  }
}
