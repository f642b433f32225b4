/** `squash module import`: sends a squashfs file to the daemon, which checks it and takes it over. */
import { readFile } from 'node:fs/promises';
import type { Module } from '@squash/contract/module';
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import { apiPath } from '../client/client.ts';
import { imageName, openImage } from '../client/image-source.ts';
import type { Call } from '../command.ts';
import { CliFailure, errorCode, exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { withProgress } from '../output/progress.ts';
import { describeModule, noteUnstackable, showModule } from './module-upload.ts';

export async function run(call: Call): Promise<number> {
  const file = call.positionals[0] ?? '';
  const name = call.flags.text('name') ?? imageName(file);
  if (name === undefined) throw usageFailure('--name is needed when the file comes from standard input');
  // Before anything is sent.
  const manifest = await manifestBeside(file);
  const source = await openImage(file);
  const query = call.flags.isSet('replace') ? { replace: 'true' } : {};
  const body = withProgress(source.stream, { label: name, bytes: source.bytes });
  const module = await call.client.upload<Module>(
    apiPath(['v1', 'modules', name], query),
    body,
    source.bytes,
  );
  noteUnstackable(module.name);
  if (manifest !== undefined) await describeModule(call.client, module.name, manifest);
  showModule(call, module);
  return exitCodes.ok;
}

/** As `module export` leaves it, and as the daemon keeps them. */
async function manifestBeside(file: string): Promise<unknown> {
  if (file === '-') return undefined;
  const path = `${file}${manifestSuffix}`;
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return undefined;
    throw new CliFailure('file_unreadable', `can't read "${path}": ${fileProblem(cause)}`);
  }
}
