/** The real process, with a launcher and relays that the test plays: servers that break off while their bytes pass this process. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { EgressUnderTest } from '../../tests/support/egress-process.ts';
import { HostServer } from '../../tests/support/host-server.ts';
import { addressRecord, queryFor, readAnswer } from '../../tests/support/name-server.ts';
import type { Program } from '../../tests/support/scripted-relay.ts';
import { waitFor } from '../../tests/support/wait.ts';

const stack = new AsyncDisposableStack();
let egress: EgressUnderTest;
let server: HostServer;
let taken = Promise.withResolvers<Socket>();

/** More than the buffers between two sockets hold. */
const bytes = 16_000_000;

before(async () => {
  server = stack.use(await HostServer.start((socket) => taken.resolve(socket)));
  egress = stack.use(await EgressUnderTest.start({ box: { policy: { allow: ['echo.example.com'] } } }));
  egress.names.zone.set('echo.example.com', [addressRecord('127.0.0.1')]);
});
after(() => stack.disposeAsync());

async function open(instance: number): Promise<{ program: Program; socket: Socket }> {
  const relay = await egress.launcher.relay(instance, 'box');
  const answer = readAnswer(await relay.ask(queryFor('echo.example.com', 1)));
  taken = Promise.withResolvers();
  const program = relay.open(Uint8Array.from(answer.data[0] ?? []), server.port);
  return { program, socket: await taken.promise };
}

test('a server that resets a connection nobody has said a word on resets the program, and nothing else', async () => {
  for (const instance of [1, 2]) {
    const { pid } = await egress.stats();
    const { program, socket } = await open(instance);
    socket.resetAndDestroy();
    assert.equal(await program.closed(), 3);
    assert.equal((await egress.stats()).pid, pid);
  }
});

test('what a program has said to its end reaches a server that reads it after the relay’s last word', async () => {
  const { program, socket } = await open(3);
  socket.end('bye');
  await program.read('bye');
  program.write(Buffer.alloc(bytes));
  program.endWrites();
  program.end();
  await waitFor('the relay’s word', async () => (await egress.stats()).connections.intercepted === 0);
  assert.equal((await buffer(socket)).length, bytes);
});
