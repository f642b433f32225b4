/**
 * Ports of callers that programs in sandboxes connect to. The network carries the connections; here stands whose each is, and an
 * offer ends with its sandbox, whatever gets the id next.
 */
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import type { CallerEvent } from '@squash/contract/callers';
import type { CallerNetwork } from '../sandbox/network.ts';
import type { Residents } from './residents.ts';

/** A port of a caller, as programs of a sandbox name it. */
export interface CallerPort {
  readonly id: SandboxId;
  readonly port: number;
}

export interface CallerConnection extends CallerPort {
  readonly connection: string;
}

/** What its client is told. */
export type Offered = Exclude<CallerEvent, { type: 'error' }>;

/** An open one. */
export interface Taken {
  readonly stream: Duplex;
  /** The program gets a reset, instead of an end. Never rejects. */
  break(): Promise<void>;
}

export interface Callers {
  /**
   * Offers the port while it is iterated.
   * @throws sandbox_not_found, also when it is removed; port_offered, offer_limit, sandbox_not_ready, egress_unavailable
   */
  offer(at: CallerPort, signal: AbortSignal): AsyncGenerator<Offered, void>;
  /** @throws connection_gone unless a program waits on it */
  check(connection: CallerConnection): void;
  /** @throws connection_gone, egress_unavailable */
  take(connection: CallerConnection): Promise<Taken>;
  /** Its program gets a reset; nothing where it waits no more. @throws egress_unavailable */
  refuse(connection: CallerConnection): Promise<void>;
}

interface Told extends CallerPort {
  isTaken: boolean;
  stream: Duplex | undefined;
}

export class LocalCallers implements Callers {
  readonly #network: CallerNetwork;
  readonly #residents: Residents;
  /** By connection, until it ends. */
  readonly #told = new Map<string, Told>();

  constructor(network: CallerNetwork, residents: Residents) {
    this.#network = network;
    this.#residents = residents;
  }

  async *offer({ id, port }: CallerPort, signal: AbortSignal): AsyncGenerator<Offered, void> {
    const sandbox = this.#residents.find(id);
    const removed = sandbox.removal.signal;
    const those = new Set<string>();
    try {
      const ending = AbortSignal.any([signal, removed]);
      for await (const event of this.#network.followOffer({ sandbox: id, port }, ending)) {
        if (this.#residents.peek(id) !== sandbox) throw gone(id);
        if (event.type === 'broken') {
          this.#end(event.connection);
          those.delete(event.connection);
          continue;
        }
        if (event.type === 'connection') {
          // Those that have ended in order are told of by nobody.
          for (const connection of those) if (!this.#told.has(connection)) those.delete(connection);
          those.add(event.connection);
          this.#told.set(event.connection, { id, port, isTaken: false, stream: undefined });
        }
        yield event;
      }
    } catch (error) {
      throw removed.aborted || this.#residents.peek(id) !== sandbox ? gone(id) : error;
    } finally {
      await Promise.all([...those].map((connection) => this.#break(connection)));
    }
  }

  check(asked: CallerConnection): void {
    this.#waiting(asked);
  }

  async take(asked: CallerConnection): Promise<Taken> {
    const { connection } = asked;
    const told = this.#waiting(asked);
    told.isTaken = true;
    const stream = await this.#network.takeConnection(connection);
    // Whoever carries it hears of an error; this is for the time before and after.
    stream.on('error', () => undefined).once('close', () => this.#told.delete(connection));
    told.stream = stream;
    if (this.#told.get(connection) !== told) stream.destroy(brokenOff());
    return {
      stream,
      break: () => this.#break(connection, stream),
    };
  }

  async refuse(asked: CallerConnection): Promise<void> {
    const told = this.#told.get(asked.connection);
    if (told?.isTaken === false && isOf(told, asked)) await this.#network.refuseConnection(asked.connection);
  }

  /** @throws connection_gone */
  #waiting(asked: CallerConnection): Told {
    const told = this.#told.get(asked.connection);
    if (told?.isTaken === false && isOf(told, asked)) return told;
    throw new AppError(
      'connection_gone',
      `No program of sandbox "${asked.id}" waits on this connection to port ${asked.port}`,
    );
  }

  /** The program has broken off. */
  #end(connection: string): void {
    const told = this.#told.get(connection);
    this.#told.delete(connection);
    told?.stream?.destroy(brokenOff());
  }

  /** The network is told first: where it finds the stream closed before, the program gets an end like any other. */
  async #break(connection: string, stream = this.#told.get(connection)?.stream): Promise<void> {
    this.#told.delete(connection);
    // A process that does not answer has ended it already, or does so when it finds the socket closed.
    await this.#network.refuseConnection(connection).catch(() => undefined);
    stream?.destroy(brokenOff());
  }
}

function isOf(told: Told, { id, port }: CallerPort): boolean {
  return told.id === id && told.port === port;
}

function gone(id: SandboxId): AppError {
  return new AppError('sandbox_not_found', `Sandbox "${id}" was removed`);
}

function brokenOff(): AppError {
  return new AppError('connection_gone', 'The program broke off, or the offer has ended');
}
