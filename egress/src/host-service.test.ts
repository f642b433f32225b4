/** The real process, with a launcher and relays that the test plays: services of the host's loopback, and whose word opens them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { markApiPort } from '@squash/base/api-ports';
import { EgressUnderTest } from '../../tests/support/egress-process.ts';
import { queryFor, readAnswer } from '../../tests/support/name-server.ts';
import type { ScriptedRelay } from '../../tests/support/scripted-relay.ts';

const A = 1;
const stack = new AsyncDisposableStack();
let egress: EgressUnderTest;
let greeter: { readonly port: number };
let greeted = 0;
let instance = 100;

async function addressOf(relay: ScriptedRelay, name: string): Promise<string> {
  const answer = readAnswer(await relay.ask(queryFor(name, A)));
  assert.equal(answer.code, 0, name);
  return answer.data[0]?.join('.') ?? assert.fail(`${name} has no address`);
}

before(async () => {
  const server = createServer((socket) => {
    greeted += 1;
    socket.on('error', () => undefined);
    socket.end('220 ready\r\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => void server.close());
  greeter = server.address() as AddressInfo;
  egress = stack.use(await EgressUnderTest.start({}));
});
after(() => stack.disposeAsync());

test('a service of the host is reached by its word, where the operator permits it', async () => {
  const rules = { policy: { allow: [`host.squash.internal:${greeter.port}`] } };
  const ceiling = { allow: ['*', `host.squash.internal:${greeter.port}`] };
  const cases: [changes: Parameters<EgressUnderTest['sync']>[1], isReached: boolean, isBox?: true][] = [
    [{ allowCidrs: [] }, false],
    [{ allowCidrs: [] }, true, true],
    [{ allowCidrs: [], ceiling: { allow: ['*'] } }, false, true],
    [{ allowCidrs: ['127.0.0.1'] }, true],
    [{ allowCidrs: [], ceiling }, true],
    [{ allowCidrs: ['127.0.0.1'], ceiling: { allow: ['*'] } }, false],
  ];
  for (const [changes, isReached, isBox = false] of cases) {
    await egress.sync({ served: { ...rules, ...(isBox && { reachesHost: true }) } }, changes);
    const served = await egress.launcher.relay((instance += 1), 'served');
    const program = served.open(await addressOf(served, 'host.squash.internal'), greeter.port);
    if (isReached) await program.read('220 ready');
    else assert.notEqual(await program.closed(), 0);
    program.reset();
  }
  assert.deepEqual(
    egress.names.asked.filter((one) => one.includes('squash')),
    [],
  );
});

test('a port where any daemon of the machine says that it serves is refused whatever allows it', async () => {
  const rules = { policy: { allow: [`host.squash.internal:${greeter.port}`] }, reachesHost: true };
  await egress.sync({ served: rules }, { allowCidrs: ['127.0.0.0/8'] });
  const served = await egress.launcher.relay((instance += 1), 'served');
  const address = await addressOf(served, 'host.squash.internal');
  {
    using _mark = await markApiPort(greeter.port);
    const before = greeted;
    assert.notEqual(await served.open(address, greeter.port).closed(), 0);
    assert.equal(greeted, before);
  }
  await served.open(address, greeter.port).read('220 ready');
});
