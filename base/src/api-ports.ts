/**
 * Which TCP ports of this machine are those of Squash's daemons, for who dials from it: over loopback a daemon takes a user by the id
 * that connects, and an egress process has the id of its daemon's. Each daemon says so by an abstract Unix socket, which every
 * process of the host's network sees, and the kernel removes with the daemon. Nobody connects to it.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const nameBegin = 'squash-api-';

/** Until it is disposed of. */
export async function markApiPort(port: number): Promise<Disposable> {
  const server = createServer((socket) => socket.destroy());
  server.unref();
  // What nobody foresees, nobody has taken.
  server.listen(`\0${nameBegin}${port}-${randomBytes(8).toString('hex')}`);
  await once(server, 'listening');
  return { [Symbol.dispose]: () => server.close() };
}

/** @throws where the kernel's list can't be read */
export function isApiPort(port: number): boolean {
  return readFileSync('/proc/net/unix', 'latin1').includes(`@${nameBegin}${port}-`);
}
