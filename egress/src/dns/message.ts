/**
 * DNS messages (RFC 1035, EDNS of RFC 6891): reads questions from sandboxes, writes the answers.
 *
 * Questions are hostile input: nothing is believed about lengths, and a compression pointer in a question is
 * refused, because none can be legitimate there. Only the question is read: what else a query carries is skipped
 * except EDNS's size. The question's bytes are copied into the answer as they came, so that a resolver which checks
 * its own odd case (0x20) finds it again.
 */

/** Answers of more than this are cut over UDP and fetched again over TCP: what DNS Flag Day 2020 settled on. */
export const udpAnswerBytesMax = 1_232;
/** What a client without EDNS takes. */
const plainAnswerBytesMax = 512;
const headerBytes = 12;
const nameBytesMax = 255;

export const recordTypes = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  MX: 15,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  NAPTR: 35,
  OPT: 41,
  SVCB: 64,
  HTTPS: 65,
  ANY: 255,
  CAA: 257,
} as const;

export const responseCodes = {
  noError: 0,
  formatError: 1,
  serverFailure: 2,
  nameError: 3,
  notImplemented: 4,
  refused: 5,
} as const;
export type ResponseCode = (typeof responseCodes)[keyof typeof responseCodes];

export interface DnsQuery {
  readonly id: number;
  readonly isRecursionDesired: boolean;
  /** Labels as the client wrote them, case included. One character is one byte. */
  readonly labels: readonly string[];
  readonly type: number;
  readonly class: number;
  /** The question section as it came. */
  readonly question: Uint8Array;
  /** Payload size of the client's EDNS; `undefined`: it does not speak EDNS. */
  readonly ednsBytesMax: number | undefined;
}

export interface DnsRecord {
  readonly type: number;
  readonly ttl: number;
  readonly data: Uint8Array;
}

/** What could be understood of bytes that are no query we answer: enough for a refusal, or nothing. */
export type ParsedQuery =
  | { readonly kind: 'query'; readonly query: DnsQuery }
  | { readonly kind: 'refuse'; readonly id: number; readonly code: ResponseCode }
  | { readonly kind: 'drop' };

/** Never throws. A message that is an answer, or too short to have an id, is dropped: replying could loop. */
export function parseQuery(message: Uint8Array): ParsedQuery {
  if (message.length < headerBytes) return { kind: 'drop' };
  const view = new DataView(message.buffer, message.byteOffset, message.length);
  const id = view.getUint16(0);
  const flags = view.getUint16(2);
  if ((flags & 0x8000) !== 0) return { kind: 'drop' };
  if ((flags & 0x7800) !== 0) return { kind: 'refuse', id, code: responseCodes.notImplemented };
  if (view.getUint16(4) !== 1 || view.getUint16(6) !== 0) {
    return { kind: 'refuse', id, code: responseCodes.formatError };
  }
  const name = readName(message, headerBytes);
  if (name === undefined || name.end + 4 > message.length) {
    return { kind: 'refuse', id, code: responseCodes.formatError };
  }
  const end = name.end + 4;
  return {
    kind: 'query',
    query: {
      id,
      isRecursionDesired: (flags & 0x0100) !== 0,
      labels: name.labels,
      type: view.getUint16(name.end),
      class: view.getUint16(name.end + 2),
      question: message.subarray(headerBytes, end),
      ednsBytesMax: readEdns(view, end, view.getUint16(8) + view.getUint16(10)),
    },
  };
}

function readName(message: Uint8Array, start: number): { labels: string[]; end: number } | undefined {
  const labels: string[] = [];
  for (let at = start; at < message.length && at - start < nameBytesMax; ) {
    const length = message[at] ?? 0;
    if (length === 0) return { labels, end: at + 1 };
    if (length > 63 || at + 1 + length > message.length) return undefined;
    labels.push(String.fromCharCode(...message.subarray(at + 1, at + 1 + length)));
    at += 1 + length;
  }
  return undefined;
}

/** The first record is EDNS's OPT at the root name, or there is none that matters: answers then stay small. */
function readEdns(view: DataView, at: number, records: number): number | undefined {
  if (records === 0 || at + 11 > view.byteLength) return undefined;
  if (view.getUint8(at) !== 0 || view.getUint16(at + 1) !== recordTypes.OPT) return undefined;
  return view.getUint16(at + 3);
}

export interface DnsAnswer {
  readonly code: ResponseCode;
  readonly records: readonly DnsRecord[];
}

/** `bytesMax`: what the transport takes. Records that do not fit are left out, and the answer says that it is cut. */
export function encodeAnswer(query: DnsQuery, answer: DnsAnswer, bytesMax: number): Uint8Array {
  const edns = query.ednsBytesMax === undefined ? 0 : 11;
  const base = headerBytes + query.question.length + edns;
  const whole = answer.records.reduce((sum, record) => sum + recordBytes(record), base);
  // A question alone always fits: names are bounded below the smallest answer.
  const message = new Uint8Array(Math.max(base, Math.min(whole, bytesMax)));
  const view = new DataView(message.buffer);
  message.set(query.question, headerBytes);
  let at = headerBytes + query.question.length;
  let count = 0;
  for (const record of answer.records) {
    if (at + recordBytes(record) + edns > message.length) break;
    // The owner is the question's name: a pointer behind the header.
    view.setUint16(at, 0xc000 | headerBytes);
    view.setUint16(at + 2, record.type);
    view.setUint16(at + 4, 1);
    view.setUint32(at + 6, record.ttl);
    view.setUint16(at + 10, record.data.length);
    message.set(record.data, at + 12);
    at += recordBytes(record);
    count += 1;
  }
  const isCut = count < answer.records.length;
  writeHeader(view, query, { code: answer.code, isCut, count });
  if (edns > 0) {
    view.setUint16(10, 1);
    view.setUint16(at + 1, recordTypes.OPT);
    view.setUint16(at + 3, udpAnswerBytesMax);
    at += edns;
  }
  return message.subarray(0, at);
}

function recordBytes(record: DnsRecord): number {
  return 12 + record.data.length;
}

function writeHeader(
  view: DataView,
  query: DnsQuery,
  { code, isCut, count }: { code: ResponseCode; isCut: boolean; count: number },
): void {
  const desired = query.isRecursionDesired ? 0x0100 : 0;
  view.setUint16(0, query.id);
  view.setUint16(2, 0x8080 | desired | (isCut ? 0x0200 : 0) | code);
  view.setUint16(4, 1);
  view.setUint16(6, count);
}

/** What a UDP client takes. */
export function udpBytesMax(query: DnsQuery): number {
  return Math.min(udpAnswerBytesMax, Math.max(plainAnswerBytesMax, query.ednsBytesMax ?? 0));
}

/** A header alone, for what could not be read as a query. */
export function encodeRefusal(id: number, code: ResponseCode): Uint8Array {
  const message = new Uint8Array(headerBytes);
  const view = new DataView(message.buffer);
  view.setUint16(0, id);
  view.setUint16(2, 0x8080 | code);
  return message;
}

/** A name in wire form, uncompressed; `undefined` where it has no such form. No trailing dot is needed. */
export function encodeName(name: string): Uint8Array | undefined {
  const plain = name.endsWith('.') ? name.slice(0, -1) : name;
  const labels = plain === '' ? [] : plain.split('.').map((label) => Buffer.from(label, 'latin1'));
  if (labels.some((label) => label.length === 0 || label.length > 63)) return undefined;
  const total = labels.reduce((sum, label) => sum + 1 + label.length, 1);
  if (total > nameBytesMax) return undefined;
  const bytes = new Uint8Array(total);
  let at = 0;
  for (const label of labels) {
    bytes[at] = label.length;
    bytes.set(label, at + 1);
    at += 1 + label.length;
  }
  return bytes;
}
