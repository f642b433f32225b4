/**
 * The operator's certificate for previews: two files of the data directory, looked at again while the daemon runs, so that whoever renews it
 * only puts the new ones there. A pair that can't be used leaves the one before in force.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { errorText } from '@squash/base/bug';
import type { Log } from '@squash/base/log';
import { readPrivateFile } from '@squash/installation/private-file';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';

export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

const certificateFile = 'preview-cert.pem';
const keyFile = 'preview-cert.key';
/** A chain of some certificates is 10 KB. */
const bytesMax = 1_048_576;

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
    const key = readPrivateFile(keyPath, bytesMax, refused)?.text;
    if (key === undefined) throw refused('is missing, and SQUASH_PREVIEW_TLS_PORT is set');
    try {
      const pair = { cert: readFileSync(certPath, 'utf8'), key };
      // Whether they belong together is found out here, not at the first visitor.
      createSecureContext(pair);
      return pair;
    } catch (cause) {
      throw new AppError('config_invalid', `Cannot use "${certPath}" with its key: ${errorText(cause)}`, {
        cause,
      });
    }
  }
}
