/** `squash module import`: sends a squashfs file to the daemon, which checks it and takes it over. */
import { createReadStream, type ReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import type { ModuleAnswer } from '@squash/contract/module';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { withProgress } from '../output/progress.ts';
import { formatBytes, printJson, printLine, visible } from '../output/print.ts';
import { noteUnstackable } from './module-upload.ts';

interface Source {
  readonly stream: AsyncIterable<Buffer>;
  readonly bytes: number | undefined;
}

export async function run(call: Call): Promise<number> {
  const file = call.positionals[0] ?? '';
  const name = call.flags.text('name') ?? nameOf(file);
  const source = await openSource(file);
  const query = call.flags.isSet('replace') ? { replace: 'true' } : {};
  const body = withProgress(source.stream, { label: name, bytes: source.bytes });
  const module = await call.client.upload<ModuleAnswer>(
    apiPath(['v1', 'modules', name], query),
    body,
    source.bytes,
  );
  noteUnstackable(module.name);
  if (call.json) printJson(module);
  else printLine(`${visible(module.name)}  ${formatBytes(module.size)}`);
  return exitCodes.ok;
}

function nameOf(file: string): string {
  if (file === '-') throw usageFailure('--name is needed when the file comes from standard input');
  return basename(file).replace(/\.(squashfs|sqfs)$/, '');
}

async function openSource(file: string): Promise<Source> {
  if (file === '-') return { stream: process.stdin as AsyncIterable<Buffer>, bytes: undefined };
  try {
    const handle = await open(file);
    const facts = await handle.stat();
    if (facts.isDirectory()) throw new Error('it is a directory');
    const stream: ReadStream = createReadStream('', { fd: handle, highWaterMark: 262_144 });
    return { stream, bytes: facts.isFile() ? facts.size : undefined };
  } catch (cause) {
    throw new CliFailure('file_unreadable', `can't read "${file}": ${fileProblem(cause)}`);
  }
}
