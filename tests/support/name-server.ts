/**
 * A DNS server on loopback that knows what a test tells it, over UDP and TCP alike as far as resolvers need it.
 */
import dgram from 'node:dgram';
import { once } from 'node:events';
import { type DnsRecord, encodeAnswer, encodeName, parseQuery } from '../../egress/src/dns/message.ts';

/** Of one name: addresses (`A`), or wire form of other types. A name without an entry does not exist. */
export type Zone = Map<string, readonly DnsRecord[] | 'failure' | 'silence'>;

export class NameServer implements AsyncDisposable {
  readonly zone: Zone = new Map();
  /** Every question, as `name/type`. */
  readonly asked: string[] = [];
  readonly #socket = dgram.createSocket('udp4');

  static async listen(): Promise<NameServer> {
    const server = new NameServer();
    server.#socket.on('message', (message, peer) => {
      const answer = server.#answer(message);
      if (answer !== undefined) server.#socket.send(answer, peer.port, peer.address);
    });
    server.#socket.bind(0, '127.0.0.1');
    await once(server.#socket, 'listening');
    return server;
  }

  get address(): string {
    return `127.0.0.1:${this.#socket.address().port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    await once(this.#socket, 'close');
  }

  #answer(message: Uint8Array): Uint8Array | undefined {
    const parsed = parseQuery(message);
    if (parsed.kind !== 'query') return undefined;
    const { query } = parsed;
    const name = query.labels.join('.').toLowerCase();
    this.asked.push(`${name}/${query.type}`);
    const found = this.zone.get(name);
    if (found === 'silence') return undefined;
    if (found === 'failure') return encodeAnswer(query, { code: 2, records: [] }, 1_232);
    const records = (found ?? []).filter((record) => record.type === query.type);
    return encodeAnswer(query, { code: found === undefined ? 3 : 0, records }, 1_232);
  }
}

export function addressRecord(address: string, ttl = 60): DnsRecord {
  return { type: 1, ttl, data: Uint8Array.from(address.split('.'), Number) };
}

/** A query as a stub resolver writes it. */
export function queryFor(name: string, type: number, edns?: number): Uint8Array {
  const wire = encodeName(name) ?? new Uint8Array(1);
  const head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, edns === undefined ? 0 : 1];
  const tail = edns === undefined ? [] : [0, 0, 41, edns >>> 8, edns & 0xff, 0, 0, 0, 0, 0, 0];
  return Uint8Array.from([head, [...wire], [type >>> 8, type & 0xff, 0, 1], tail].flat());
}

/** What an answer says: its code, and the data of its records. */
export function readAnswer(message: Buffer): { code: number; isCut: boolean; data: Buffer[] } {
  const question = message.indexOf(0, 12) + 5;
  const data: Buffer[] = [];
  let at = question;
  for (let left = message.readUInt16BE(6); left > 0; left -= 1) {
    const length = message.readUInt16BE(at + 10);
    data.push(message.subarray(at + 12, at + 12 + length));
    at += 12 + length;
  }
  return { code: message.readUInt8(3) & 15, isCut: (message.readUInt8(2) & 2) !== 0, data };
}
