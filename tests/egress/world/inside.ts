/**
 * The little Internet itself: a process in a network namespace of its own, whose loopback device carries public, private
 * and special addresses, with servers on all of them. `world.ts` starts it and asks it over IPC what it has seen.
 *
 * It is started in a mount namespace as well, so that the daemon beside it finds the tests' authority and resolver
 * where a host has them; nothing of the machine itself changes.
 */
import { execFileSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { DnsWorld } from './dns.ts';
import { canary, Witness } from './events.ts';
import { makeFiles } from './files.ts';
import { places, ports } from './places.ts';
import { WebWorld } from './web.ts';

export type WorldCall =
  | { readonly id: number; readonly call: 'mark' }
  | { readonly id: number; readonly call: 'since'; readonly mark: number }
  | { readonly id: number; readonly call: 'reset' };

const [, , directory = ''] = process.argv;
/** A socket without a file, which belongs to a network namespace alone. */
const abstractSocket = '\0squash-world';
const witness = new Witness();
const dns = new DnsWorld(witness);

async function main(): Promise<void> {
  makeAddresses();
  coverHostFiles();
  const filesDir = join(directory, 'files');
  await makeFiles(filesDir);
  const pem = (name: string): string => readFileSync(join(directory, name), 'utf8');
  const web = new WebWorld({
    witness,
    good: { key: pem('server.key'), cert: pem('server.pem') },
    bad: { key: pem('bad.key'), cert: pem('bad.pem') },
    filesDir,
  });
  await web.listen();
  await dns.listen([places.resolver, places.otherResolver, places.evil, places.loopback, places.private10]);
  for (const address of [places.evil, places.otherResolver, places.front, places.private10]) {
    await hearDatagrams(address, ports.udp);
    await hearDatagrams(address, ports.https);
  }
  createServer((socket) => socket.on('error', () => socket.destroy()).end(canary)).listen(abstractSocket);
  process.on('message', (message: WorldCall) => process.send?.({ id: message.id, result: answer(message) }));
  // Whoever started it is gone: so is the world.
  process.on('disconnect', () => process.exit(0));
  process.send?.({ ready: true });
}

function answer(message: WorldCall): unknown {
  switch (message.call) {
    case 'mark':
      return witness.count;
    case 'since':
      return witness.since(message.mark);
    case 'reset':
      dns.reset();
      return null;
  }
}

function makeAddresses(): void {
  const ip = (...words: string[]): void => void execFileSync('ip', words, { stdio: 'pipe' });
  ip('link', 'set', 'lo', 'up');
  // As distributions have it: everybody may ping.
  writeFileSync('/proc/sys/net/ipv4/ping_group_range', '0 2147483647');
  ip('link', 'add', 'own0', 'type', 'veth', 'peer', 'name', 'own1');
  ip('address', 'add', `${places.own}/32`, 'dev', 'own0');
  for (const end of ['own0', 'own1']) ip('link', 'set', end, 'up');
  for (const address of Object.values(places)) {
    if (address.startsWith('127.') || address === places.own) continue;
    if (address.includes(':')) ip('-6', 'address', 'add', `${address}/128`, 'dev', 'lo', 'nodad');
    else ip('address', 'add', `${address}/32`, 'dev', 'lo');
  }
}

/** The host's resolver, its names and its authorities, as this world has them. */
function coverHostFiles(): void {
  const covered = { 'resolv.conf': '/etc/resolv.conf', hosts: '/etc/hosts' };
  for (const [name, path] of Object.entries(covered)) {
    execFileSync('mount', ['--bind', join(directory, name), path]);
  }
  execFileSync('mount', ['--bind', join(directory, 'authorities.pem'), '/etc/ssl/certs/ca-certificates.crt']);
}

async function hearDatagrams(address: string, port: number): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('message', (message, from) => {
    witness.add({ kind: 'datagram', address, port, text: message.toString('latin1').slice(0, 256) });
    socket.send(canary, from.port, from.address);
  });
  socket.bind(port, address);
  await once(socket, 'listening');
}

await main();
