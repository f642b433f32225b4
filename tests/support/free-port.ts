/**
 * Ports for servers that tests start. Between a look at whether one is free and the server's own `listen` others look as well: so each is
 * held by a name in the kernel's abstract namespace of sockets until this process ends, and lies where the kernel gives nobody one by itself.
 */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { isErrno } from '@squash/base/errno';

/** Below `net.ipv4.ip_local_port_range`, above what servers of a machine have. */
const [first, last] = [20_000, 32_000];

/** Of loopback: nobody listens there, and no other test gets it as long as this process lives. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(first, last);
    const held = await listening({ path: `\0squash-test-port-${port}` });
    if (held === undefined) continue;
    held.unref();
    const server = await listening({ port, host: '127.0.0.1' });
    if (server === undefined) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** Undefined: somebody else does. */
async function listening(at: {
  readonly path?: string;
  readonly port?: number;
  readonly host?: string;
}): Promise<Server | undefined> {
  const server = createServer().listen(at);
  try {
    await once(server, 'listening');
    return server;
  } catch (error) {
    if (isErrno(error, 'EADDRINUSE')) return undefined;
    throw error;
  }
}
