/** What listens in a sandbox, and who may see it. */
import type { Connection, Signal } from './connection.ts';
import type { Operations, Port, PortChange, PortLink, PortLinkWish, PortList } from './records.gen.ts';

const waitMsDefault = 30_000;

export class Ports {
  readonly #connection: Connection;
  readonly #sandbox: string;

  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection;
    this.#sandbox = sandbox;
  }

  /** `port.list` */
  async list(options: Signal = {}): Promise<PortList> {
    return await this.#connection.call('port.list', { path: { id: this.#sandbox }, ...options });
  }

  /** `port.set`: public or not. */
  async set(port: number, { signal, ...body }: PortChange & Signal): Promise<Port> {
    return await this.#connection.call('port.set', { path: this.#pathOf(port), body, signal });
  }

  /** `port.url`: a link that shows the port to whoever has it, for `expires_s` seconds. */
  async url(port: number, { signal, ...body }: PortLinkWish & Signal = {}): Promise<PortLink> {
    return await this.#connection.call('port.url', { path: this.#pathOf(port), body, signal });
  }

  /** `port.wait`: until it accepts connections; 30,000 ms unless given. @throws SquashError `port_unreachable` */
  async wait(
    port: number,
    { signal, ...query }: Operations['port.wait']['query'] & Signal = {},
  ): Promise<Port> {
    const takesMs = query.timeout_ms ?? waitMsDefault;
    return await this.#connection.call('port.wait', { path: this.#pathOf(port), query, signal, takesMs });
  }

  #pathOf(port: number): { readonly id: string; readonly port: string } {
    return { id: this.#sandbox, port: String(port) };
  }
}
