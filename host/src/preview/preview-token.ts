/**
 * Proof that its bearer may see one port of one sandbox until a moment: an expiry and a MAC over it with the installation's
 * key. Nothing is stored; another key, which is another file, ends them all.
 *
 * A sandbox that is made later under the same id is another one: when it was made is part of what is signed.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { readPrivateFile } from '@squash/installation/private-file';

/** What a token is for. */
export interface TokenSubject {
  readonly id: SandboxId;
  readonly createdMs: number;
  readonly port: number;
}

const keyFile = 'preview.key';
const keyBytes = 32;

export class PreviewTokens {
  readonly #key: Buffer;

  private constructor(key: Buffer) {
    this.#key = key;
  }

  /** Makes the key where there is none. @throws config_invalid where the file can't be what we wrote */
  static async open(dataDir: string): Promise<PreviewTokens> {
    const path = join(dataDir, keyFile);
    const refused = (problem: string): AppError =>
      new AppError('config_invalid', `Cannot use "${path}": it ${problem}; without it another one is made`);
    const found = readPrivateFile(path, 1_024, refused);
    const text = found?.text.trim() ?? randomBytes(keyBytes).toString('hex');
    if (!/^[0-9a-f]{64}$/.test(text)) throw refused(`holds no key of ${keyBytes} bytes`);
    if (found === undefined) await writeFileAtomic(path, `${text}\n`);
    return new PreviewTokens(Buffer.from(text, 'hex'));
  }

  sign(subject: TokenSubject, expiresS: number): string {
    return `${expiresS}.${this.#mac(subject, expiresS).toString('base64url')}`;
  }

  /** When the token ends, in seconds since 1970; undefined where it proves nothing now. */
  check(subject: TokenSubject, token: string, nowS: number): number | undefined {
    const [, digits = '', mac = ''] = /^(\d{1,12})\.([\w-]{43})$/.exec(token) ?? [];
    const expiresS = Number(digits);
    if (mac === '' || expiresS <= nowS) return undefined;
    const isOurs = timingSafeEqual(Buffer.from(mac, 'base64url'), this.#mac(subject, expiresS));
    return isOurs ? expiresS : undefined;
  }

  #mac({ id, createdMs, port }: TokenSubject, expiresS: number): Buffer {
    const text = ['squash preview 1', id, createdMs, port, expiresS].join('\n');
    return createHmac('sha256', this.#key).update(text).digest();
  }
}
