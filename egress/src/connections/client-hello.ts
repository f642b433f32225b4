/**
 * Reads the server name out of a TLS ClientHello, as its bytes come in.
 *
 * Everything here is written by code in the sandbox. What a newcomer would get wrong: a hello may be cut into many
 * records and many segments, with post-quantum keys it never fits one segment, and the name may stand behind everything else. So
 * nothing is concluded before the whole message is there; what is malformed counts as a hello without a name.
 */
import { hostName } from '../dns/name.ts';

export type ClientHello =
  /** The bytes so far are the beginning of one. It can't be whole before there are `bytesMin` of them. */
  | { readonly kind: 'more'; readonly bytesMin: number }
  | {
      readonly kind: 'hello';
      /** Lower case, no trailing dot; `undefined`: none, more than one, or none that is a host name. */
      readonly serverName: string | undefined;
      /** Carries Encrypted ClientHello (or its predecessor): the name that counts may be another, unseen one. */
      readonly hasEch: boolean;
    };

const recordHandshake = 22;
/** Change of cipher, alert, handshake, data, heartbeat: some servers take others before the hello, and go on. */
const recordFirst = 20;
const recordLast = 24;
const messageClientHello = 1;
const extensionServerName = 0;
const extensionEch = 0xfe0d;
const extensionEsni = 0xffce;
/** TLS 1.3's bound on one record of plain text. */
const recordBytesMax = 16_384;
const nothing = { kind: 'hello', serverName: undefined, hasEch: false } as const;

/** True where the first bytes can only be TLS, or the hello of SSL 2 that some TLS servers still take. */
export function looksLikeTls(bytes: Uint8Array): boolean {
  const [type = 0] = bytes;
  if (type >= recordFirst && type <= recordLast) return bytes.length < 2 || bytes[1] === 3;
  return isSsl2(bytes);
}

/** Call where `looksLikeTls`. Never throws. */
export function readClientHello(bytes: Uint8Array): ClientHello {
  if (isSsl2(bytes)) return nothing;
  const handshake = joinRecords(bytes);
  if (handshake === undefined) return nothing;
  const length = messageBytes(handshake);
  if (length === undefined) return { kind: 'more', bytesMin: bytes.length + 1 };
  if (handshake[0] !== messageClientHello) return nothing;
  if (handshake.length < length) {
    return { kind: 'more', bytesMin: bytes.length + length - handshake.length };
  }
  return readExtensions(new Reader(handshake.subarray(4, length)));
}

function isSsl2(bytes: Uint8Array): boolean {
  return ((bytes[0] ?? 0) & 0x80) !== 0 && bytes[2] === messageClientHello && bytes[3] === 3;
}

/** The handshake bytes of the records so far; `undefined` where the records are no handshake. */
function joinRecords(bytes: Uint8Array): Uint8Array | undefined {
  const joined = new Uint8Array(bytes.length);
  let total = 0;
  for (let at = 0; at < bytes.length; ) {
    // What follows a whole hello may be anything: early data.
    if (total >= (messageBytes(joined.subarray(0, total)) ?? Number.POSITIVE_INFINITY)) break;
    if (bytes[at] !== recordHandshake) return undefined;
    if (bytes.length - at < 5) break;
    const length = ((bytes[at + 3] ?? 0) << 8) | (bytes[at + 4] ?? 0);
    if (bytes[at + 1] !== 3 || length === 0 || length > recordBytesMax) return undefined;
    const part = bytes.subarray(at + 5, at + 5 + length);
    joined.set(part, total);
    total += part.length;
    at += 5 + length;
  }
  return joined.subarray(0, total);
}

/** Of the first handshake message, its header included; `undefined` before that is there. */
function messageBytes(handshake: Uint8Array): number | undefined {
  if (handshake.length < 4) return undefined;
  return 4 + (((handshake[1] ?? 0) << 16) | ((handshake[2] ?? 0) << 8) | (handshake[3] ?? 0));
}

function readExtensions(hello: Reader): ClientHello {
  hello.skip(2 + 32);
  hello.take(hello.u8());
  hello.take(hello.u16());
  hello.take(hello.u8());
  const extensions = new Reader(hello.take(hello.u16()));
  const names: Uint8Array[] = [];
  let hasEch = false;
  while (extensions.left > 0 && !extensions.isBroken) {
    const type = extensions.u16();
    const data = extensions.take(extensions.u16());
    if (type === extensionServerName) names.push(data);
    if (type === extensionEch || type === extensionEsni) hasEch = true;
  }
  if (hello.isBroken || extensions.isBroken || names.length !== 1) return { ...nothing, hasEch };
  return { kind: 'hello', serverName: readServerName(new Reader(names[0] ?? new Uint8Array())), hasEch };
}

/** A list in which the one entry that anybody has ever defined is a host name: more than one is an ambiguity. */
function readServerName(extension: Reader): string | undefined {
  const list = new Reader(extension.take(extension.u16()));
  const type = list.u8();
  const name = list.take(list.u16());
  if (type !== 0 || list.isBroken || extension.isBroken || list.left > 0 || extension.left > 0)
    return undefined;
  const text = Buffer.from(name).toString('latin1').replace(/\.$/, '');
  return hostName(text.split('.'));
}

/** Reads big-endian fields; past the end everything is zero and empty, and `isBroken` says so. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;
  isBroken = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  u8(): number {
    return this.take(1)[0] ?? 0;
  }

  u16(): number {
    const [high = 0, low = 0] = this.take(2);
    return (high << 8) | low;
  }

  skip(length: number): void {
    this.take(length);
  }

  take(length: number): Uint8Array {
    if (length > this.left) {
      this.isBroken = true;
      this.#at = this.#bytes.length;
      return new Uint8Array();
    }
    const taken = this.#bytes.subarray(this.#at, this.#at + length);
    this.#at += length;
    return taken;
  }
}
