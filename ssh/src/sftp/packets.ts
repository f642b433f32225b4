/**
 * The frames and fields of SFTP version 3 (draft-ietf-secsh-filexfer-02), which is what every client speaks.
 *
 * Names are bytes, never text: a file's name need not be UTF-8, and goes back as it came.
 */

export const types = {
  init: 1,
  version: 2,
  open: 3,
  close: 4,
  read: 5,
  write: 6,
  lstat: 7,
  fstat: 8,
  setstat: 9,
  fsetstat: 10,
  opendir: 11,
  readdir: 12,
  remove: 13,
  mkdir: 14,
  rmdir: 15,
  realpath: 16,
  stat: 17,
  rename: 18,
  readlink: 19,
  symlink: 20,
  status: 101,
  handle: 102,
  data: 103,
  name: 104,
  attributes: 105,
  extended: 200,
  extendedReply: 201,
} as const;

export const statusCodes = {
  ok: 0,
  eof: 1,
  noSuchFile: 2,
  permissionDenied: 3,
  failure: 4,
  badMessage: 5,
  unsupported: 8,
} as const;
export type StatusCode = (typeof statusCodes)[keyof typeof statusCodes];

/** What one read or write may carry; OpenSSH asks for it by `limits@openssh.com`. */
export const dataBytesMax = 261_120;
export const packetBytesMax = dataBytesMax + 1_024;

/** What a client does wrong in the protocol itself: the end of its session. */
export class BadPacketError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BadPacketError';
  }
}

export interface Attributes {
  readonly size?: number;
  readonly owner?: { readonly uid: number; readonly gid: number };
  readonly permissions?: number;
  /** Seconds. */
  readonly modified?: number;
}

const flags = { size: 1, owner: 2, permissions: 4, times: 8, extended: 0x80000000 } as const;

/** Takes a packet apart, from its front. @throws BadPacketError where it ends early */
export class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  byte(): number {
    return this.#take(1).readUInt8();
  }

  integer(): number {
    return this.#take(4).readUInt32BE();
  }

  /** Offsets beyond what a number holds exactly are none that a file has. */
  long(): number {
    const value = this.#take(8).readBigUInt64BE();
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new BadPacketError('an offset is too large');
    return Number(value);
  }

  bytes(): Buffer {
    return this.#take(this.integer());
  }

  text(): string {
    return this.bytes().toString();
  }

  attributes(): Attributes {
    const has = this.integer();
    const size = (has & flags.size) === 0 ? undefined : this.long();
    const owner = (has & flags.owner) === 0 ? undefined : { uid: this.integer(), gid: this.integer() };
    const permissions = (has & flags.permissions) === 0 ? undefined : this.integer() & 0o7777;
    const times = (has & flags.times) === 0 ? undefined : [this.integer(), this.integer()];
    return {
      ...(size === undefined ? {} : { size }),
      ...(owner === undefined ? {} : { owner }),
      ...(permissions === undefined ? {} : { permissions }),
      ...(times?.[1] === undefined ? {} : { modified: times[1] }),
    };
  }

  #take(count: number): Buffer {
    if (this.#at + count > this.#bytes.length) throw new BadPacketError('a packet ends early');
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }
}

export function integer(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function long(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}

export function string(value: Uint8Array | string): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value;
  return Buffer.concat([integer(bytes.length), bytes]);
}

/** `permissions` holds the file's type, too. */
export function attributes(all: Required<Attributes>): Buffer {
  const has = flags.size | flags.owner | flags.permissions | flags.times;
  // Both times are the one that is known.
  const words = [all.owner.uid, all.owner.gid, all.permissions, all.modified, all.modified];
  return Buffer.concat([integer(has), long(all.size), ...words.map((word) => integer(word >>> 0))]);
}

/** A packet as it is sent, with its length. */
export function packet(type: number, ...fields: readonly Uint8Array[]): Buffer {
  const bytes = fields.reduce((sum, field) => sum + field.length, 1);
  return Buffer.concat([integer(bytes), Buffer.from([type]), ...fields]);
}

/** Packets of a stream of bytes, one at a time. @throws BadPacketError */
export async function* packetsOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  let parts: Buffer[] = [];
  let have = 0;
  for await (const chunk of input) {
    parts.push(chunk);
    have += chunk.length;
    while (have >= 4) {
      const head = parts.length > 1 && (parts[0]?.length ?? 0) < 4 ? Buffer.concat(parts) : parts[0];
      if (head === undefined) break;
      if (head !== parts[0]) parts = [head];
      const length = head.readUInt32BE();
      if (length < 1 || length > packetBytesMax)
        throw new BadPacketError('a packet’s length is out of range');
      if (have < 4 + length) break;
      const all = parts.length === 1 ? head : Buffer.concat(parts);
      yield all.subarray(4, 4 + length);
      parts = [all.subarray(4 + length)];
      have -= 4 + length;
    }
  }
}
