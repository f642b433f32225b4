/**
 * One relay's control connection: its sandbox's connections and DNS queries come in, verdicts go out.
 *
 * A relay stands at the sandbox's edge. A frame that has no business here ends the link: the relay is then broken, and
 * a new one comes with the next connection. Nothing a relay says reaches beyond the one sandbox that the launcher named.
 */
import { Failure } from '@squash/base/failure';
import { encodeFields, type FieldFrameName, FrameError } from '@squash/contract/guest/codec';
import type { FieldReader } from '@squash/contract/guest/fields';
import { type Address, formatAddress, unmapped } from '@squash/policy/address/address';
import { FramePipe } from '../channel/frame-pipe.ts';
import type { ControlLink } from '../channel/relay-listener.ts';
import { isVirtual } from '../dns/virtual-addresses.ts';
import { egressLimits as limits } from '../limits.ts';
import type { Destination } from '@squash/policy/policy';
import type { Socket } from 'node:net';
import { Connection } from './connection.ts';
import type { ConnectionServices, RelaySide } from './connection-services.ts';
import type { Sandbox } from './sandbox.ts';

const dnsPort = 53;
const peerBytesMax = 64;
const connectionsMax = 2 * limits.sandboxConnectionsMax;

export class RelayLink implements RelaySide {
  readonly instance: number;
  readonly sandbox: Sandbox;
  readonly #services: ConnectionServices;
  readonly #connections = new Map<number, Connection>();
  readonly #pipe: FramePipe;
  #hasEnded = false;

  constructor(
    services: ConnectionServices,
    side: { readonly instance: number; readonly sandbox: Sandbox },
    link: ControlLink & { readonly onEnd: (reason: Error | undefined) => void },
  ) {
    this.#services = services;
    this.instance = side.instance;
    this.sandbox = side.sandbox;
    this.#pipe = new FramePipe(
      link.socket,
      {
        onFrame: (type, fields) => this.#take(type, fields),
        onEnd: (reason) => {
          this.#hasEnded = true;
          for (const connection of this.#connections.values()) connection.finish(undefined);
          this.#connections.clear();
          link.onEnd(reason);
        },
      },
      link.decoder,
    );
    this.#pipe.take(link.rest);
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  close(): void {
    this.#pipe.close();
  }

  /** Closes when the relay has what was said to it. */
  finish(): void {
    this.#pipe.finish();
  }

  has(connection: number): boolean {
    return this.#connections.has(connection);
  }

  /** A stream that the launcher has brought for one of the connections. */
  takeStream(connection: number, socket: Socket): void {
    const found = this.#connections.get(connection);
    if (found === undefined) socket.destroy();
    else found.takeStream(socket);
  }

  hold(connection: number, offset: number): void {
    this.#post('connectionHold', [
      ['connection', connection],
      ['bytesMax', limits.firstBytesMax],
      ['offset', offset],
    ]);
  }

  release(connection: number): void {
    this.#post('connectionRelease', [['connection', connection]]);
  }

  reset(connection: number): void {
    this.#post('connectionReset', [['connection', connection]]);
  }

  #post(type: FieldFrameName, fields: Parameters<typeof encodeFields>[1]): void {
    this.#pipe.post(encodeFields(type, fields));
    if (this.#pipe.queuedBytes > limits.relayQueueBytesMax)
      this.#pipe.close(new Failure('reads_nothing', 'it reads nothing'));
  }

  #take(type: FieldFrameName, fields: FieldReader): void {
    if (type === 'connectionOpen') this.#open(fields);
    else if (type === 'connectionFirst') this.#first(fields);
    else if (type === 'connectionClosed') this.#closed(fields);
    else if (type === 'dnsQuery') this.#query(fields);
    else throw new FrameError('type', `"${type}" is not for the egress process`);
  }

  #open(fields: FieldReader): void {
    const number = fields.integer('connection');
    const address = unmapped(fields.bytes('address', 16));
    const port = fields.integer('port', { max: 65_535 });
    fields.done();
    if (address.length !== 4 && address.length !== 16)
      throw new FrameError('field', 'no address has this length');
    // Connections that were ended from here are a relay's to close; one that never does has lost its mind.
    if (this.#connections.size >= connectionsMax)
      throw new FrameError('field', 'these are too many connections');
    if (this.#connections.has(number)) throw new FrameError('field', `connection ${number} is open already`);
    this.#services.counters.total += 1;
    const { sandbox } = this;
    sandbox.traffic.connections += 1;
    const isFull = sandbox.connections.size >= limits.sandboxConnectionsMax;
    const { destination, isKnown } = this.#destination(address, port);
    const connection = new Connection(this.#services, this, { number, destination });
    this.#connections.set(number, connection);
    if (isFull) connection.refuse('connection_limit');
    else if (port === dnsPort) connection.serveDns();
    else if (isKnown) connection.admit();
    else connection.refuse('unknown_address');
  }

  /** A virtual address that belongs to no name is known to nobody, and never dialled. */
  #destination(address: Address, port: number): { destination: Destination; isKnown: boolean } {
    if (!isVirtual(address)) {
      return { destination: { host: undefined, address: formatAddress(address), port }, isKnown: true };
    }
    const host = this.sandbox.names.hostOf(address, this.#services.wallMs());
    if (host === undefined) {
      return { destination: { host, address: formatAddress(address), port }, isKnown: false };
    }
    return { destination: { host, address: undefined, port }, isKnown: true };
  }

  #first(fields: FieldReader): void {
    const connection = this.#connections.get(fields.integer('connection'));
    const bytes = fields.bytes('firstBytes', limits.firstBytesMax);
    const hasEnded = fields.flag('ended');
    fields.done();
    connection?.takeFirst(bytes, hasEnded);
  }

  #closed(fields: FieldReader): void {
    const number = fields.integer('connection');
    const [bytesUp, bytesDown] = [fields.integer('bytesUp'), fields.integer('bytesDown')];
    const end = { bytesUp, bytesDown, isWhole: fields.integer('reason') === 0 };
    fields.done();
    const { traffic } = this.sandbox;
    traffic.bytesUp += end.bytesUp;
    traffic.bytesDown += end.bytesDown;
    const connection = this.#connections.get(number);
    // An adopted tunnel is known by its number only.
    if (connection === undefined && this.sandbox.adopted.delete(number)) {
      this.#services.tunnels.remove({ instance: this.instance, connection: number });
    }
    connection?.finish(end);
    this.#connections.delete(number);
  }

  #query(fields: FieldReader): void {
    const peer = fields.bytes('peer', peerBytesMax);
    const message = fields.bytes('message', limits.queryBytesMax);
    fields.done();
    const { dns } = this.#services;
    const isBusy = this.#pipe.queuedBytes > limits.relayQueueBytes;
    if (isBusy || !this.sandbox.queries.take(this.#services.monoMs())) {
      dns.stats.dropped += 1;
      return;
    }
    const answer = dns.answer(this.sandbox, message, 'udp');
    if (answer instanceof Promise) void answer.then((bytes) => this.#answer(peer, bytes));
    else this.#answer(peer, answer);
  }

  #answer(peer: Uint8Array, message: Uint8Array | undefined): void {
    if (message === undefined) return;
    this.#post('dnsAnswer', [
      ['peer', peer],
      ['message', message],
    ]);
  }
}
