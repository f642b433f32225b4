/** A compressed archive becomes a plain one, as its first bytes say, within a bound: an archive may unpack to more than any disk. */
import { spawn } from 'node:child_process';
import { closeSync, createReadStream, createWriteStream, openSync, readSync } from 'node:fs';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { Failure } from '@squash/base/failure';

export interface Unpacking {
  readonly archive: string;
  /** The plain archive that is written. */
  readonly tar: string;
  readonly bytesMax: number;
}

/** @throws where it is damaged, cut short or larger than the bound */
export async function unpack({ archive, tar, bytesMax }: Unpacking, signal: AbortSignal): Promise<void> {
  let bytes = 0;
  const bounded = new Transform({
    transform(part: Buffer, _encoding, done) {
      bytes += part.length;
      if (bytes <= bytesMax) done(null, part);
      else
        done(
          new Failure(
            'archive_too_large',
            `the archive unpacks to more than ${bytesMax} bytes, four times what the preset expects`,
          ),
        );
    },
  });
  const output = createWriteStream(tar);
  try {
    switch (formOf(archive)) {
      case 'gzip':
        await pipeline(createReadStream(archive), createGunzip(), bounded, output, { signal });
        break;
      case 'zstd':
        await pipeline(createReadStream(archive), createZstdDecompress(), bounded, output, { signal });
        break;
      case 'xz':
        await fromXz(archive, (plain) => pipeline(plain, bounded, output, { signal }));
        break;
      case 'plain':
        await pipeline(createReadStream(archive), bounded, output, { signal });
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Failure || isSystemError(error)) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new Failure('archive_damaged', `the archive is damaged: ${why}`, { cause: error });
  }
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error;
}

function formOf(archive: string): 'gzip' | 'xz' | 'zstd' | 'plain' {
  const start = Buffer.alloc(6);
  const descriptor = openSync(archive, 'r');
  readSync(descriptor, start, 0, 6, 0);
  closeSync(descriptor);
  if (start.readUInt16BE() === 0x1f_8b) return 'gzip';
  if (start.readUInt32LE() === 0xfd_2f_b5_28) return 'zstd';
  return start.equals(Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0])) ? 'xz' : 'plain';
}

/** Node has no xz. Its memory is bounded: the archive says how much it wants. */
async function fromXz(archive: string, take: (plain: Readable) => Promise<void>): Promise<void> {
  const words = [
    '--pdeathsig',
    'KILL',
    'xz',
    '--decompress',
    '--stdout',
    '--memlimit-decompress=512MiB',
    archive,
  ];
  const child = spawn('setpriv', words, { stdio: ['ignore', 'pipe', 'pipe'] });
  let complaint = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-500);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  try {
    await take(child.stdout);
  } catch (error) {
    child.kill('SIGKILL');
    await ended;
    throw error;
  }
  if ((await ended) !== 0)
    throw new Failure(
      'archive_damaged',
      `the archive is damaged: ${complaint.trim().replaceAll(archive, 'xz')}`,
    );
}
