/** Tunnels that pass this process, over real sockets: they take turns as what is read does. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { test } from 'node:test';
import { setImmediate as nextRound } from 'node:timers/promises';
import { byteTurns } from '../flow/byte-turns.ts';
import { egressLimits as limits } from '../limits.ts';
import { carryTunnel } from './carried.ts';
import { carryUndecided, type UndecidedHost } from './undecided-host.ts';

const tunnels = 16;
const tunnelBytes = 1_048_576;

class Place implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets: Socket[] = [];
  #accepted = Promise.withResolvers<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket) => this.#accepted.resolve(socket));
  }

  static async listen(): Promise<Place> {
    const server = createServer({ allowHalfOpen: true });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Place(server);
  }

  /** Two ends of one connection. */
  async pair(): Promise<[Socket, Socket]> {
    const address = this.#server.address();
    assert.ok(address !== null && typeof address === 'object');
    this.#accepted = Promise.withResolvers();
    const near = connect({ port: address.port, host: '127.0.0.1', allowHalfOpen: true });
    const far = await this.#accepted.promise;
    for (const each of [near, far]) this.#sockets.push(each.on('error', () => undefined));
    return [near, far];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

function hostOf(dial: Promise<Socket>): UndecidedHost {
  const verdict = { isAllowed: true, rule: 'allow[0] *' };
  return {
    sandbox: 'box',
    dial: () => dial,
    planOf: () => ({ kind: 'tunnel', verdict }),
    settle: () => undefined,
    leave: () => true,
    read: () => false,
    cut: () => undefined,
    end: () => undefined,
  };
}

for (const [what, carry] of [
  ['carried', carryTunnel],
  ['undecided', carryUndecided],
] as const) {
  test(`a sandbox’s ${what} tunnels pass a turn’s bytes in a round where another one has some`, async () => {
    await using place = await Place.listen();
    const go = Promise.withResolvers<void>();
    let arrived = 0;
    const carried: Promise<void>[] = [];
    for (let at = 0; at < tunnels; at += 1) {
      const [inside, program] = await place.pair();
      const [server, outside] = await place.pair();
      outside.on('data', (piece: Buffer) => (arrived += piece.length)).on('end', () => outside.end());
      carried.push(carry(program, hostOf(go.promise.then(() => server))));
      // No first line of a request, and as much of it as there is room for stands ready.
      inside.end(Buffer.alloc(tunnelBytes, 0xff));
      inside.resume();
    }
    byteTurns.enter('neighbour');
    go.resolve();
    let rounds = 0;
    for (; arrived < tunnels * tunnelBytes; rounds += 1) await nextRound();
    byteTurns.leave('neighbour');
    await Promise.all(carried);
    // Each tunnel passes a piece before it is counted.
    const counted = tunnels * (tunnelBytes - 2 * limits.pieceBytes);
    assert.ok(rounds >= counted / limits.turnBytes, `${rounds} rounds`);
  });
}
