/**
 * A file of the caller's that something is downloaded into. It has its name when all of it is there: a download that breaks off leaves
 * nothing that looks like the whole.
 */
import { randomBytes } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { link, open, rename, unlink } from 'node:fs/promises';
import { CliFailure, errorCode, exitCodes, fileProblem } from '../failure.ts';
import { openOutputSink } from '../terminal/output-sink.ts';
import { standardOutput } from './print.ts';

/** All of it to standard output. */
export async function writeOut(body: AsyncIterable<Buffer>): Promise<number> {
  const sink = openOutputSink(standardOutput);
  try {
    for await (const part of body) await sink.write(part);
  } finally {
    sink.close();
  }
  return exitCodes.ok;
}

/** Before anything is downloaded for it. @throws file_exists */
export function refuseExisting(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) throw exists(file);
}

/** @throws file_exists unless it may be replaced */
export async function save(body: AsyncIterable<Buffer>, file: string, replaces: boolean): Promise<void> {
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

function exists(file: string): CliFailure {
  return new CliFailure('file_exists', `"${file}" exists; --force replaces it`);
}

function unwritable(file: string, cause: unknown): never {
  if (errorCode(cause) === 'EEXIST') {
    throw exists(file);
  }
  throw new CliFailure('file_unwritable', `can't write "${file}": ${fileProblem(cause, true)}`);
}
