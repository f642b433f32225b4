/** The real process, with a launcher and relays that the test plays: servers that break off while their bytes pass this process. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Socket } from 'node:net';
import { EgressUnderTest } from '../../tests/support/egress-process.ts';
import { HostServer } from '../../tests/support/host-server.ts';
import { addressRecord, queryFor, readAnswer } from '../../tests/support/name-server.ts';

const stack = new AsyncDisposableStack();
let egress: EgressUnderTest;
let server: HostServer;
let taken = Promise.withResolvers<Socket>();

before(async () => {
  server = stack.use(await HostServer.start((socket) => taken.resolve(socket)));
  egress = stack.use(await EgressUnderTest.start({ box: { policy: { allow: ['echo.example.com'] } } }));
  egress.names.zone.set('echo.example.com', [addressRecord('127.0.0.1')]);
});
after(() => stack.disposeAsync());

test('a server that resets a connection nobody has said a word on resets the program, and nothing else', async () => {
  const relay = await egress.launcher.relay(1, 'box');
  const answer = readAnswer(await relay.ask(queryFor('echo.example.com', 1)));
  const address = Uint8Array.from(answer.data[0] ?? []);
  for (let at = 0; at < 2; at += 1) {
    taken = Promise.withResolvers();
    const { pid } = await egress.stats();
    const program = relay.open(address, server.port);
    (await taken.promise).resetAndDestroy();
    assert.equal(await program.closed(), 3);
    assert.equal((await egress.stats()).pid, pid);
  }
});
