/** A TCP server of the test, in the host's network: what sandboxes only reach where an egress process says so. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

export class HostServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(serve: (socket: Socket) => void): Promise<HostServer> {
    const host = new HostServer(createServer({ allowHalfOpen: true }));
    host.#server.on('connection', (socket) => {
      host.#sockets.add(socket);
      socket.on('error', () => undefined);
      serve(socket);
    });
    host.#server.listen(0, '127.0.0.1', 4_096);
    await once(host.#server, 'listening');
    return host;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const closed = once(this.#server, 'close');
    this.#server.close();
    await closed;
  }
}
