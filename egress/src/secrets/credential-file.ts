/**
 * `egress/credentials.json`: the tokens that credentials of `secrets.json` have now, since they were refreshed. This process is its only
 * writer, as the daemon and the operator are of `secrets.json`: nobody's edit can bring back a refresh token that is used up.
 *
 * What a newcomer would get wrong: an entry is found by the digest of the refresh token that the operator has written. Another
 * one in `secrets.json` is another credential, which begins anew; whatever else is edited there, the tokens stay.
 */
import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { errorText } from '@squash/base/bug';
import { Failure } from '@squash/base/failure';
import type { Log } from '@squash/base/log';
import { type OAuth, valueSchema } from '@squash/contract/secrets';
import { parsePrivateJson, readPrivateFile } from '@squash/installation/private-file';
import { z } from 'zod';

/** Two tokens of the longest kind and one more, for each of 128 secrets. */
const bytesMax = 8_388_608;
/** After a write that failed: the disk is full, most often. */
const againMs = 5_000;

const tokensSchema = z.strictObject({
  access_token: valueSchema,
  /** The one before, which may be good for a while: answers must not hold it either. */
  previous_token: valueSchema.optional(),
  refresh_token: valueSchema,
  /** Milliseconds since 1970. */
  expires_at_ms: z.number().optional(),
  refresh_at_ms: z.number().optional(),
});
export type HeldTokens = z.infer<typeof tokensSchema>;

const fileSchema = z.strictObject({ credentials: z.record(z.string(), tokensSchema) });

/** What is known of a credential by the refresh token that the operator wrote. */
export function keyOf({ refresh_token: token }: OAuth): string {
  return createHash('sha256').update(token).digest('base64url');
}

export class CredentialFile {
  readonly #path: string;
  readonly #log: Log;
  #held: Readonly<Record<string, HeldTokens>> = {};
  #writing: Promise<void> = Promise.resolve();
  #again: NodeJS.Timeout | undefined;
  /** What it holds is newer than what the disk has. */
  #isUnsaved = false;

  constructor(path: string, log: Log) {
    this.#path = path;
    this.#log = log;
  }

  /** As the file has it now. @throws Failure where there is a file and it can't be used: a token in it may be the only good one */
  read(key: string): HeldTokens | undefined {
    if (!this.#isUnsaved) this.#held = this.#load();
    return this.#held[key];
  }

  /** On the disk when it resolves, or told in the log and tried again. Never rejects. */
  async write(key: string, tokens: HeldTokens): Promise<void> {
    this.#held = { ...this.#held, [key]: tokens };
    await this.#save();
  }

  /** Only these are wanted still. What can't be read is left as it is. */
  retain(keys: ReadonlySet<string>): void {
    try {
      this.read('');
    } catch {
      return;
    }
    const kept = Object.entries(this.#held).filter(([key]) => keys.has(key));
    if (kept.length === Object.keys(this.#held).length) return;
    this.#held = Object.fromEntries(kept);
    void this.#save();
  }

  /** When what is being written is written. */
  async settled(): Promise<void> {
    clearTimeout(this.#again);
    await this.#writing;
  }

  #save(): Promise<void> {
    this.#isUnsaved = true;
    clearTimeout(this.#again);
    this.#writing = this.#writing.then(async () => {
      const held = this.#held;
      try {
        mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
        await writeFileAtomic(this.#path, `${JSON.stringify({ credentials: held })}\n`, 0o600);
        if (this.#held === held) this.#isUnsaved = false;
      } catch (error) {
        this.#log.error('credentials.unsaved', { error: errorText(error) });
        this.#again = setTimeout(() => void this.#save(), againMs).unref();
      }
    });
    return this.#writing;
  }

  #load(): Readonly<Record<string, HeldTokens>> {
    const refused = (problem: string): Failure =>
      new Failure('credentials_unreadable', `${JSON.stringify(this.#path)} ${problem}`);
    const read = readPrivateFile(this.#path, bytesMax, refused);
    if (read === undefined) return {};
    const { data } = fileSchema.safeParse(parsePrivateJson(read.text, refused));
    if (data === undefined) throw refused('is not valid');
    return data.credentials;
  }
}
