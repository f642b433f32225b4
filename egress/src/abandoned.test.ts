/** The real process and a server that is not there: what has been given up holds no turn. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { EgressUnderTest } from '../../tests/support/egress-process.ts';
import { waitFor } from '../../tests/support/wait.ts';
import { egressLimits } from './limits.ts';

/** Listens and takes nobody: connections beyond its queue of one are left without an answer. */
const voidPort = `
import socket, sys
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
port = server.getsockname()[1]
held = []
for _ in range(4):
    end = socket.socket()
    end.setblocking(False)
    end.connect_ex(("127.0.0.1", port))
    held.append(end)
print(port, flush=True)
sys.stdin.read()
`;

test('requests that are given up while they wait for their dial delay nobody', async () => {
  await using stack = new AsyncDisposableStack();
  const nobody = spawn('python3', ['-c', voidPort], { stdio: ['pipe', 'pipe', 'inherit'] });
  stack.defer(() => void nobody.stdin.end());
  const [port] = (await once(nobody.stdout, 'data')) as [Buffer];
  const server = createServer((_, response) => response.end('served')).listen(0, '127.0.0.1');
  stack.defer(() => void server.close());
  await once(server, 'listening');
  // A rule about a path has both of them read.
  const policy = { allow: [{ to: '126.0.0.0/7', paths: ['/'] }] };
  const egress = stack.use(await EgressUnderTest.start({ box: { policy } }));
  const relay = await egress.launcher.relay(1, 'box');
  const get = 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n';
  // As many as may be dialled at once, and as many again that wait.
  const programs = Array.from({ length: 2 * egressLimits.sandboxDialsMax }, () => {
    const program = relay.open('127.0.0.1', Number(port.toString()));
    program.write(get);
    return program;
  });
  await waitFor(
    'all to be read',
    async () => (await egress.stats()).connections.intercepted === programs.length,
  );
  assert.deepEqual(await egress.decisions('sandbox=box'), []);
  for (const program of programs) program.reset();
  const last = relay.open('127.0.0.1', (server.address() as AddressInfo).port);
  last.write(get);
  // Less than one dial into the void takes.
  await last.read('served', egressLimits.dialMs / 2);
  last.reset();
});
