/**
 * Records as c-ares gives them, in wire form. c-ares has parsed what came from the network; what does not fit the wire
 * (a name too long, a number out of range) is left out.
 */
import type { MxRecord, NaptrRecord, SoaRecord, SrvRecord } from 'node:dns';
import { type DnsRecord, encodeName, recordTypes } from './message.ts';

/** Types that are asked of the host's resolvers for allowed names; addresses are not among them. */
export const passedTypes = ['NS', 'CNAME', 'SOA', 'PTR', 'MX', 'TXT', 'SRV', 'NAPTR', 'CAA'] as const;
export type PassedType = (typeof passedTypes)[number];

const passedByNumber = new Map<number, PassedType>(passedTypes.map((name) => [recordTypes[name], name]));

export function passedType(type: number): PassedType | undefined {
  return passedByNumber.get(type);
}

export function encodeRecord(name: PassedType, value: unknown, ttl: number): DnsRecord | undefined {
  const data = encoders[name](value);
  return data === undefined ? undefined : { type: recordTypes[name], ttl, data: Uint8Array.from(data) };
}

type Bytes = readonly number[] | undefined;

const encoders: Readonly<Record<PassedType, (value: unknown) => Bytes>> = {
  NS: (value) => nameOf(value),
  CNAME: (value) => nameOf(value),
  PTR: (value) => nameOf(value),
  SOA: (value) => {
    const { nsname, hostmaster, serial, refresh, retry, expire, minttl } = value as SoaRecord;
    const words = [serial, refresh, retry, expire, minttl].flatMap((word) => [
      ...u16(word >>> 16),
      ...u16(word),
    ]);
    return joined([nameOf(nsname), nameOf(hostmaster), words]);
  },
  MX: (value) => {
    const { priority, exchange } = value as MxRecord;
    return joined([u16(priority), nameOf(exchange)]);
  },
  TXT: (value) => joined((value as string[]).map(characters)),
  SRV: (value) => {
    const { priority, weight, port, name } = value as SrvRecord;
    return joined([u16(priority), u16(weight), u16(port), nameOf(name)]);
  },
  NAPTR: (value) => {
    const { order, preference, flags, service, regexp, replacement } = value as NaptrRecord;
    const texts = [flags, service, regexp].map(characters);
    return joined([u16(order), u16(preference), ...texts, nameOf(replacement)]);
  },
  CAA: (value) => {
    const { critical, ...rest } = value as { critical: number } & Record<string, unknown>;
    // The one property beside the flag and c-ares's own `type` is the tag, with the value.
    const [tag, text] = Object.entries(rest).find(([name]) => name !== 'type') ?? [];
    if (tag === undefined || typeof text !== 'string') return undefined;
    return joined([[critical & 0xff], characters(tag), [...Buffer.from(text, 'latin1')]]);
  },
};

function nameOf(value: unknown): Bytes {
  const name = encodeName(String(value));
  return name === undefined ? undefined : [...name];
}

/** A character string: at most 255 bytes behind their count. */
function characters(value: unknown): Bytes {
  const bytes = Buffer.from(String(value), 'latin1');
  return bytes.length > 255 ? undefined : [bytes.length, ...bytes];
}

function u16(value: number): number[] {
  return [(value >>> 8) & 0xff, value & 0xff];
}

function joined(parts: readonly Bytes[]): Bytes {
  return parts.some((part) => part === undefined) ? undefined : parts.flatMap((part) => part ?? []);
}
