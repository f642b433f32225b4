/**
 * Keys of SSH, and the logins with them: who has shown that he holds a key gets a token for as long as he uses it.
 *
 * The trust argument: the gateway speaks with the world and may be taken over. It holds no credential, and what a client signs names the
 * session that the client itself took part in. So a gateway that lies can be those who log in by way of it, and nobody else: it can neither
 * make a signature nor use one twice, also not at a later daemon. What it can is keep one that it was given, tell the client that the login
 * is refused, and use it later, once: nothing in a session's id says when that was.
 */
import { createHash, hash, randomBytes } from 'node:crypto';
import { AppError } from '@squash/contract/errors';
import { sandboxIdSchema } from '@squash/contract/ids';
import { userNameSchema } from '@squash/contract/exec';
import { keyPrefix } from '@squash/contract/key-token';
import type { HeldKey } from '@squash/contract/keys';
import { limits } from '@squash/contract/limits';
import { sshLimits } from '@squash/contract/ssh-limits';
import type { SshKey, SshKeyBody, SshLogin } from '@squash/contract/ssh-keys';
import { type Clock, rfc3339 } from '@squash/base/clock';
import type { SshKeyRow } from '#store/ssh-keys.ts';
import type { Store } from '#store/store.ts';
import {
  isSignedBy,
  parsePublicKey,
  parseSigned,
  type SignedRequest,
  type SshPublicKey,
} from './ssh-signature.ts';

export interface SshKeys {
  readonly count: number;
  /** The key of a login that has this token; it counts as used. */
  find(token: string): HeldKey | undefined;
  /** Whether a key that was found holds still. */
  holds(id: string): boolean;
  /** @throws invalid_request, key_limit, ssh_key_exists, disk_full */
  create(body: SshKeyBody): SshKey;
  /** Sorted by id. */
  list(): readonly SshKey[];
  /** @throws key_not_found */
  get(id: string): SshKey;
  /** @throws key_not_found, disk_full */
  remove(id: string): void;
  /** @param mayAsk of a key's owner @throws ssh_login_refused */
  offer(key: Buffer, mayAsk: (owner: string) => boolean): void;
  /** @throws ssh_login_refused, key_limit, disk_full */
  login(
    shown: { readonly signed: Buffer; readonly signature: Buffer },
    mayAsk: (owner: string) => boolean,
  ): SshLogin;
}

interface Held extends SshKeyRow {
  readonly parsed: SshPublicKey;
}

interface Login {
  readonly key: string;
  readonly endMs: number;
  usedMs: number;
}

export class LocalSshKeys implements SshKeys {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #byId = new Map<string, Held>();
  readonly #byBlob = new Map<string, Held>();
  readonly #lastUsedMs = new Map<string, number>();
  /** By the hash of their tokens. */
  readonly #logins = new Map<string, Login>();

  constructor({ store, clock }: { readonly store: Store; readonly clock: Clock }) {
    this.#store = store;
    this.#clock = clock;
    for (const row of store.read(() => store.sshKeys.all())) this.#add(row);
  }

  get count(): number {
    return this.#byId.size;
  }

  find(token: string): HeldKey | undefined {
    if (this.#logins.size === 0) return undefined;
    const login = this.#logins.get(hash('sha256', token, 'hex'));
    const key = login === undefined ? undefined : this.#byId.get(login.key);
    if (login === undefined || key === undefined || !this.#isOpen(login)) return undefined;
    login.usedMs = this.#clock.monoMs();
    return key;
  }

  holds(id: string): boolean {
    const key = this.#byId.get(id);
    if (key === undefined || !this.#isInTime(key)) return false;
    return this.#logins.values().some((login) => login.key === id && this.#isOpen(login));
  }

  create({ name, owner, scope, public_key: line, expires_at: expiresAt }: SshKeyBody): SshKey {
    const blob = blobOf(line);
    const parsed = blob === undefined ? undefined : parsePublicKey(blob);
    if (blob === undefined || parsed === undefined) {
      throw new AppError(
        'invalid_request',
        'public_key must be the line of a public key: Ed25519, ECDSA (nistp256, nistp384) or RSA from 2,048 bits',
      );
    }
    const createdMs = this.#clock.wallMs();
    const expiresMs = expiresAt ? Date.parse(expiresAt) : null;
    if (expiresMs !== null && expiresMs <= createdMs) {
      throw new AppError('invalid_request', `expires_at is ${rfc3339(expiresMs)}, which has passed`);
    }
    const text = blob.toString('base64');
    const known = this.#byBlob.get(text);
    if (known !== undefined)
      throw new AppError('ssh_key_exists', `This public key is registered as "${known.id}"`);
    if (this.#byId.size >= limits.keysMax) {
      throw new AppError('key_limit', `Cannot add a key: there are ${limits.keysMax}, the most there can be`);
    }
    const id = `sshkey_${randomBytes(8).toString('hex')}`;
    const row: SshKeyRow = { id, blob: text, name, owner, scope, createdMs, expiresMs };
    this.#store.durably(() => this.#store.sshKeys.insert(row));
    this.#add(row);
    return this.get(id);
  }

  list(): readonly SshKey[] {
    return [...this.#byId.keys()].sort().map((id) => this.get(id));
  }

  get(id: string): SshKey {
    const { name, owner, scope, blob, parsed, createdMs, expiresMs } = this.#row(id);
    const lastUsedMs = this.#lastUsedMs.get(id);
    const digest = createHash('sha256')
      .update(Buffer.from(blob, 'base64'))
      .digest('base64')
      .replace(/=+$/, '');
    return {
      id,
      name,
      owner,
      scope,
      public_key: `${parsed.algorithm} ${blob}`,
      fingerprint: `SHA256:${digest}`,
      created_at: rfc3339(createdMs),
      expires_at: expiresMs === null ? null : rfc3339(expiresMs),
      last_used_at: lastUsedMs === undefined ? null : rfc3339(lastUsedMs),
    };
  }

  remove(id: string): void {
    const { blob } = this.#row(id);
    // What was revoked does not come back after a power cut.
    this.#store.durably(() => this.#store.sshKeys.delete(id));
    this.#byId.delete(id);
    this.#byBlob.delete(blob);
    this.#lastUsedMs.delete(id);
  }

  offer(key: Buffer, mayAsk: (owner: string) => boolean): void {
    this.#known(key, mayAsk);
  }

  login(
    { signed, signature }: { readonly signed: Buffer; readonly signature: Buffer },
    mayAsk: (owner: string) => boolean,
  ): SshLogin {
    const request = parseSigned(signed);
    if (request === undefined) throw refused('what is signed is no request of SSH');
    const key = this.#known(request.key, mayAsk);
    const target = targetOf(request.user);
    if (target === undefined) throw refused('the user’s name must be SANDBOX or USER+SANDBOX');
    if (!isSignedBy(key.parsed, { algorithm: request.algorithm, signed, signature })) {
      throw refused('the signature is not by this key');
    }
    this.#take(request);
    const token = this.#lend(key);
    return { token, key: key.id, ...target };
  }

  #known(blob: Buffer, mayAsk: (owner: string) => boolean): Held {
    const key = this.#byBlob.get(blob.toString('base64'));
    if (key === undefined || !this.#isInTime(key) || !mayAsk(key.owner)) {
      throw refused('the key is not registered, or has expired');
    }
    return key;
  }

  /** @throws ssh_login_refused where the session has logged in before, disk_full */
  #take({ key, session }: SignedRequest): void {
    const digest = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();
    // What was used does not come back after a power cut.
    const isNew = this.#store.durably(() =>
      this.#store.sshKeys.takeSession(digest(key), digest(session), sshLimits.sessionsKept),
    );
    if (!isNew) throw refused('this session has logged in before');
  }

  #lend({ id }: Held): string {
    for (const [token, login] of this.#logins) if (!this.#isOpen(login)) this.#logins.delete(token);
    if (this.#logins.size >= sshLimits.loginsMax) {
      throw new AppError(
        'key_limit',
        `Cannot log in: there are ${sshLimits.loginsMax} logins over SSH already`,
      );
    }
    const token = `${keyPrefix}${randomBytes(20).toString('hex')}`;
    const nowMs = this.#clock.monoMs();
    this.#logins.set(hash('sha256', token, 'hex'), {
      key: id,
      endMs: nowMs + sshLimits.loginMsMax,
      usedMs: nowMs,
    });
    this.#lastUsedMs.set(id, this.#clock.wallMs());
    return token;
  }

  #isOpen({ key, endMs, usedMs }: Login): boolean {
    const held = this.#byId.get(key);
    const nowMs = this.#clock.monoMs();
    const isUsed = nowMs - usedMs < sshLimits.loginRestMs;
    return held !== undefined && this.#isInTime(held) && nowMs < endMs && isUsed;
  }

  #isInTime({ expiresMs }: SshKeyRow): boolean {
    return expiresMs === null || this.#clock.wallMs() < expiresMs;
  }

  #add(row: SshKeyRow): void {
    const parsed = parsePublicKey(Buffer.from(row.blob, 'base64'));
    // A row that this version takes no more is there to be removed, and lets nobody in.
    if (parsed === undefined) return;
    const held = { ...row, parsed };
    this.#byId.set(row.id, held);
    this.#byBlob.set(row.blob, held);
  }

  #row(id: string): Held {
    const row = this.#byId.get(id);
    if (row === undefined) throw new AppError('key_not_found', `Cannot find key "${id.slice(0, 64)}"`);
    return row;
  }
}

function refused(why: string): AppError {
  return new AppError('ssh_login_refused', `Cannot log in over SSH: ${why}`);
}

/** The key in a line of a file of public keys: its kind, base64, perhaps a comment. */
function blobOf(line: string): Buffer | undefined {
  const [, kind, text] = /^\s*([\w@.-]+)[ \t]+([A-Za-z0-9+/]+={0,2})(?:[ \t][^\r\n]*)?\s*$/.exec(line) ?? [];
  if (kind === undefined || text === undefined) return undefined;
  const blob = Buffer.from(text, 'base64');
  return blob.toString('latin1').includes(kind) ? blob : undefined;
}

function targetOf(user: string): Pick<SshLogin, 'sandbox' | 'user'> | undefined {
  const plus = user.lastIndexOf('+');
  const name = plus < 0 ? 'root' : user.slice(0, plus);
  const sandbox = sandboxIdSchema.safeParse(user.slice(plus + 1));
  if (!sandbox.success || !userNameSchema.safeParse(name).success) return undefined;
  return { sandbox: sandbox.data, user: name === 'root' ? null : name };
}
