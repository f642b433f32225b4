/**
 * The resolvers of the little Internet: one zone, answered over UDP and TCP on every address, every question witnessed.
 * It has its own few lines of DNS so that a mistake in the product's can not hide behind the same mistake here.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { plainAddress, type Witness } from './events.ts';
import { ports, type ZoneEntry, zone } from './places.ts';

const types = { a: 1, cname: 5, mx: 15, txt: 16, aaaa: 28, srv: 33 } as const;

interface Question {
  readonly name: string;
  readonly type: number;
  /** Where the question ends in the message. */
  readonly end: number;
}

export class DnsWorld {
  readonly #witness: Witness;
  readonly #asked = new Map<string, number>();
  readonly #udp: Socket[] = [];
  #tcp: Server | undefined;

  constructor(witness: Witness) {
    this.#witness = witness;
  }

  /** One UDP socket per address: an answer must come from where it was asked. */
  async listen(addresses: readonly string[]): Promise<void> {
    for (const address of addresses) {
      const socket = createSocket({ type: address.includes(':') ? 'udp6' : 'udp4' });
      socket.on('message', (message, from) => {
        const answer = this.answer(message, address);
        if (answer !== undefined) socket.send(answer, from.port, from.address);
      });
      socket.bind(ports.dns, address);
      await once(socket, 'listening');
      this.#udp.push(socket);
    }
    this.#tcp = createServer((socket) => {
      const address = plainAddress(socket.localAddress);
      this.#witness.add({ kind: 'connection', address, port: ports.dns });
      let pending = Buffer.alloc(0);
      socket.on('error', () => socket.destroy());
      socket.on('data', (part) => {
        pending = Buffer.concat([pending, part]);
        while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
          const end = 2 + pending.readUInt16BE(0);
          const answer = this.answer(pending.subarray(2, end), address);
          pending = pending.subarray(end);
          if (answer !== undefined) socket.write(Buffer.concat([uint16(answer.length), answer]));
        }
      });
    }).listen(ports.dns, '::');
    await once(this.#tcp, 'listening');
  }

  /** Forgets how often names were asked for, so that a name with a second answer begins anew. */
  reset(): void {
    this.#asked.clear();
  }

  answer(message: Buffer, address: string): Buffer | undefined {
    const question = readQuestion(message);
    if (question === undefined) return undefined;
    const { name, type, end } = question;
    this.#witness.add({ kind: 'query', address, name, type });
    const entry = this.#find(name.toLowerCase(), type);
    if (entry?.isSilent === true) return undefined;
    const records = entry === undefined ? [] : recordsOf(entry, type);
    const header = Buffer.concat([
      message.subarray(0, 2),
      uint16(0x8180 | (entry === undefined ? 3 : 0)),
      uint16(1),
      uint16(records.length),
      uint16(0),
      uint16(0),
    ]);
    return Buffer.concat([header, message.subarray(12, end), ...records]);
  }

  #find(name: string, type: number): ZoneEntry | undefined {
    const entry = zone[name] ?? unicode(name) ?? zone[`*.${name.split('.').slice(1).join('.')}`];
    const wild = entry ?? zone[`*.${name.split('.').slice(-2).join('.')}`];
    if (wild === undefined) return undefined;
    const asked = this.#asked.get(`${name} ${type}`) ?? 0;
    this.#asked.set(`${name} ${type}`, asked + 1);
    return asked > 0 && wild.later !== undefined ? wild.later : wild;
  }
}

function unicode(name: string): ZoneEntry | undefined {
  return Object.entries(zone).find(
    ([key]) => new URL(`http://${key.replace('*', 'x')}`).hostname === name,
  )?.[1];
}

function readQuestion(message: Buffer): Question | undefined {
  if (message.length < 17 || message.readUInt16BE(4) !== 1) return undefined;
  const labels: string[] = [];
  let at = 12;
  for (let length = message[at] ?? 0; length !== 0; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
    if (at >= message.length) return undefined;
  }
  return { name: labels.join('.'), type: message.readUInt16BE(at + 1), end: at + 5 };
}

function recordsOf(entry: ZoneEntry, type: number): Buffer[] {
  const { ttlS = 60 } = entry;
  const record = (is: number, data: Buffer): Buffer =>
    Buffer.concat([uint16(0xc00c), uint16(is), uint16(1), uint32(ttlS), uint16(data.length), data]);
  switch (type) {
    case types.a:
      return (entry.a ?? []).map((address) => record(type, Buffer.from(address.split('.').map(Number))));
    case types.aaaa:
      return (entry.aaaa ?? []).map((address) => record(type, ipv6(address)));
    case types.txt:
      return (entry.txt ?? []).map((text) => record(type, Buffer.from([text.length, ...Buffer.from(text)])));
    case types.mx:
      return (entry.mx ?? []).map(([priority, host]) =>
        record(type, Buffer.concat([uint16(priority), encodeName(host)])),
      );
    case types.srv:
      return (entry.srv ?? []).map(([priority, weight, port, host]) =>
        record(type, Buffer.concat([uint16(priority), uint16(weight), uint16(port), encodeName(host)])),
      );
    case types.cname:
      return entry.cname === undefined ? [] : [record(type, encodeName(entry.cname))];
    default:
      return [];
  }
}

export function encodeName(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label, 'latin1')]));
  return Buffer.concat([...labels, Buffer.from([0])]);
}

function ipv6(text: string): Buffer {
  const canonical = new URL(`http://[${text}]/`).hostname.slice(1, -1);
  const [head = '', tail] = canonical.split('::');
  const groups = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16));
  const [front, back] = [groups(head), groups(tail ?? '')];
  const zeros: number[] = Array.from({ length: 8 - front.length - back.length }, () => 0);
  return Buffer.concat([...front, ...zeros, ...back].map(uint16));
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
