/**
 * The few pieces of DER (X.690) that a certificate is made of. Encoding only: nothing here reads foreign bytes.
 *
 * Own code because the library that fits (`@peculiar/x509`) costs 20 packages, 95 ms and 23 MB in a process whose
 * whole budget is a few times that, for one fixed shape of certificate. What is encoded is checked in tests by
 * OpenSSL, by Node and by Java, none of which share code with it.
 */
const tags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectIdentifier: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** Tag, length in the shortest form, contents. */
export function tlv(tag: number, contents: Uint8Array): Buffer {
  const size = contents.length;
  if (size < 0x80) return Buffer.concat([Buffer.from([tag, size]), contents]);
  const length = shortest(size);
  return Buffer.concat([Buffer.from([tag, 0x80 | length.length]), length, contents]);
}

export function sequence(...parts: readonly Uint8Array[]): Buffer {
  return tlv(tags.sequence, Buffer.concat(parts));
}

export function set(...parts: readonly Uint8Array[]): Buffer {
  return tlv(tags.set, Buffer.concat(parts));
}

export const trueValue: Buffer = tlv(tags.boolean, Buffer.from([0xff]));

/** A number that is not negative, big-endian. */
export function integer(value: number | Uint8Array): Buffer {
  let bytes = typeof value === 'number' ? shortest(value) : Buffer.from(value);
  while (bytes.length > 1 && bytes[0] === 0) bytes = bytes.subarray(1);
  const isNegative = ((bytes[0] ?? 0) & 0x80) !== 0;
  return tlv(tags.integer, isNegative ? Buffer.concat([Buffer.from([0]), bytes]) : bytes);
}

/** `bits` is how many of the last byte's low bits are not used. */
export function bitString(bytes: Uint8Array, bits = 0): Buffer {
  return tlv(tags.bitString, Buffer.concat([Buffer.from([bits]), bytes]));
}

export function octetString(bytes: Uint8Array): Buffer {
  return tlv(tags.octetString, bytes);
}

export function utf8String(text: string): Buffer {
  return tlv(tags.utf8String, Buffer.from(text));
}

/** `2.5.29.17`. */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return tlv(tags.objectIdentifier, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** A moment in milliseconds since 1970; seconds are cut. RFC 5280 asks for UTCTime until 2049. */
export function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '');
  const isShort = Number(text.slice(0, 4)) < 2050;
  return isShort
    ? tlv(tags.utcTime, Buffer.from(text.slice(2)))
    : tlv(tags.generalizedTime, Buffer.from(text));
}

/** `[number]`, IMPLICIT for a primitive type, or around whole elements where `isConstructed`. */
export function context(number: number, contents: Uint8Array, isConstructed = false): Buffer {
  return tlv(0x80 | (isConstructed ? 0x20 : 0) | number, contents);
}

function shortest(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return Buffer.from(bytes.length === 0 ? [0] : bytes);
}

function base128(value: number): number[] {
  const digits = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    digits.unshift((rest % 128) | 0x80);
  }
  return digits;
}
