/**
 * The operator's certificate for previews: two files of the data directory, looked at again while the daemon runs, so that whoever renews it
 * only puts the new ones there. A pair that can't be used leaves the one before in force.
 */
import { closeSync, constants, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readAtMost } from '@squash/base/bounded-read';
import { errorText } from '@squash/base/bug';
import { Failure } from '@squash/base/failure';
import type { Log } from '@squash/base/log';
import {
  type CertificatePair,
  certificateBytesMax,
  certificateFile,
  fittingPair,
  keyFile,
} from '@squash/installation/preview-certificate';
import { readPrivateFile } from '@squash/installation/private-file';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';

export class PreviewCertificate implements Disposable {
  readonly #dataDir: string;
  readonly #log: Log;
  #mark: string;
  #timer: NodeJS.Timeout | undefined;
  readonly pair: CertificatePair;

  /** @throws config_invalid where there is none that can be used */
  constructor(dataDir: string, log: Log) {
    this.#dataDir = dataDir;
    this.#log = log;
    this.#mark = this.#look();
    this.pair = this.#read();
  }

  /** Calls `take` with each pair that comes. */
  watch(take: (pair: CertificatePair) => void): void {
    this.#timer = setInterval(() => {
      const mark = this.#look();
      if (mark === this.#mark) return;
      this.#mark = mark;
      try {
        take(this.#read());
        this.#log.info('preview.certificate');
      } catch (error) {
        this.#log.warn('preview.certificate', { reason: errorText(error) });
      }
    }, limits.previewCertificateLookMs);
    this.#timer.unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): string {
    return [certificateFile, keyFile]
      .map((name) => {
        const found = statSync(join(this.#dataDir, name), { bigint: true, throwIfNoEntry: false });
        return `${found?.ino} ${found?.mtimeNs} ${found?.size}`;
      })
      .join(' ');
  }

  #read(): CertificatePair {
    const certPath = join(this.#dataDir, certificateFile);
    const keyPath = join(this.#dataDir, keyFile);
    const refused = (problem: string): AppError =>
      new AppError('config_invalid', `Cannot use "${keyPath}": it ${problem}`);
    const key = readPrivateFile(keyPath, certificateBytesMax, refused)?.text;
    if (key === undefined) {
      throw refused(
        'is missing, and SQUASH_PREVIEW_TLS_PORT is set: put a certificate there, or run squash certificate',
      );
    }
    try {
      const isThere = statSync(certPath, { throwIfNoEntry: false }) !== undefined;
      return fittingPair(key, isThere ? chainAt(certPath) : undefined);
    } catch (cause) {
      throw new AppError('config_invalid', `Cannot use "${certPath}" with its key: ${errorText(cause)}`, {
        cause,
      });
    }
  }
}

/** Not blocking: a pipe of that name must not hold up everything. */
function chainAt(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const bytes = readAtMost(file, certificateBytesMax);
    if (bytes === undefined) throw new Failure('too_large', `it is larger than ${certificateBytesMax} bytes`);
    return bytes.toString('utf8');
  } finally {
    closeSync(file);
  }
}
