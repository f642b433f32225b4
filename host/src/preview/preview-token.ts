/**
 * Proof that its bearer may see one port of one sandbox until a moment: an expiry, the key of who asked for it, and a MAC over both with
 * the installation's own. Nothing is stored; another file of that ends them all.
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

/** What a token says of itself. */
export interface TokenTerms {
  /** Since 1970. */
  readonly expiresS: number;
  /** Id of the key of the API with which it was asked for: it proves nothing without that. Null: the operator's. */
  readonly key: string | null;
}

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

  sign(subject: TokenSubject, terms: TokenTerms): string {
    const { expiresS, key } = terms;
    const mac = this.#mac(subject, terms).toString('base64url');
    return [expiresS, ...(key === null ? [] : [key]), mac].join('.');
  }

  /** Undefined where the token proves nothing now. Whether its key holds is the caller's to ask. */
  check(subject: TokenSubject, token: string, nowS: number): TokenTerms | undefined {
    const [, digits = '', key = null, mac = ''] =
      /^(\d{1,12})\.(?:(\w{1,64})\.)?([\w-]{43})$/.exec(token) ?? [];
    const terms = { expiresS: Number(digits), key };
    if (mac === '' || terms.expiresS <= nowS) return undefined;
    const isOurs = timingSafeEqual(Buffer.from(mac, 'base64url'), this.#mac(subject, terms));
    return isOurs ? terms : undefined;
  }

  #mac({ id, createdMs, port }: TokenSubject, { expiresS, key }: TokenTerms): Buffer {
    const text = ['squash preview 2', id, createdMs, port, expiresS, key ?? ''].join('\n');
    return createHmac('sha256', this.#key).update(text).digest();
  }
}
