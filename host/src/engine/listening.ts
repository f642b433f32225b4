/**
 * What listens in a sandbox, as its own /proc tells it, read through PID 1. Root in the sandbox can make it say anything: what
 * comes is bounded, and every field is parsed.
 */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { Guest } from '../guest/guest.ts';

export interface ListeningPort {
  readonly port: number;
  readonly addresses: readonly string[];
  /** Undefined where no process of root's holds it. */
  readonly process: { readonly pid: number; readonly name: string } | undefined;
}

interface Socket {
  readonly port: number;
  readonly address: string;
  readonly inode: string;
}

/** Of the relay that takes the sandbox's own connections out: nobody inside listens there. */
const relayPort = 65_533;
/** `TCP_LISTEN` of <net/tcp_states.h>. */
const listenState = '0A';

/** By number. @throws guest_failed, file_failed */
export async function listeningPorts(guest: Guest): Promise<readonly ListeningPort[]> {
  const texts = await Promise.all(['tcp', 'tcp6'].map((name) => readText(guest, `/proc/net/${name}`)));
  const sockets = texts.flatMap((text) => text.split('\n').flatMap(socketOf));
  const holders = await holdersOf(guest, new Set(sockets.map(({ inode }) => inode)));
  const ports = [...new Set(sockets.map(({ port }) => port))].sort((a, b) => a - b);
  return ports.slice(0, limits.portsListedMax).map((port) => {
    const those = sockets.filter((socket) => socket.port === port);
    return {
      port,
      addresses: [...new Set(those.map(({ address }) => address))],
      process: those.map(({ inode }) => holders.get(inode)).find((holder) => holder !== undefined),
    };
  });
}

async function readText(guest: Guest, path: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of guest.files.read(path)) {
    bytes += chunk.length;
    if (bytes > limits.procFileBytesMax) break;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('latin1');
}

/** A line of /proc/net/tcp: number, local address, remote address, state, …, inode. */
function socketOf(line: string): readonly Socket[] {
  const words = line.trim().split(/\s+/);
  const [, hexAddress = '', hexPort = ''] =
    /^((?:[0-9A-F]{8}){1}|[0-9A-F]{32}):([0-9A-F]{4})$/.exec(words[1] ?? '') ?? [];
  const inode = words[9] ?? '';
  const port = Number.parseInt(hexPort, 16);
  if (words[3] !== listenState || hexAddress === '' || port === relayPort || !/^\d{1,20}$/.test(inode))
    return [];
  return [{ port, address: addressOf(hexAddress), inode }];
}

/** The kernel prints words of 32 bits in the machine's order, which is little-endian wherever we run. */
function addressOf(hex: string): string {
  const bytes = [...hex.matchAll(/.{8}/g)].flatMap(([word]) => [...Buffer.from(word, 'hex')].reverse());
  if (bytes.length === 4) return bytes.join('.');
  const groups = Array.from({ length: 8 }, (_, i) =>
    ((bytes[2 * i] ?? 0) * 256 + (bytes[2 * i + 1] ?? 0)).toString(16),
  );
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1);
}

/** Inode of a socket → who holds it, as far as root may look. */
async function holdersOf(
  guest: Guest,
  inodes: ReadonlySet<string>,
): Promise<ReadonlyMap<string, { readonly pid: number; readonly name: string }>> {
  const holders = new Map<string, { readonly pid: number; readonly name: string }>();
  if (inodes.size === 0) return holders;
  for (const pid of await processIds(guest)) {
    if (holders.size === inodes.size) break;
    const held = await socketsOf(guest, pid, inodes);
    if (held.length === 0) continue;
    const name = (await readText(guest, `/proc/${pid}/comm`).catch(passGone(''))).trim().slice(0, 64);
    for (const inode of held) if (!holders.has(inode)) holders.set(inode, { pid, name });
  }
  return holders;
}

async function processIds(guest: Guest): Promise<readonly number[]> {
  const pids: number[] = [];
  for await (const { path } of guest.files.list('/proc')) {
    const text = path.toString('latin1');
    if (/^[1-9]\d{0,6}$/.test(text)) pids.push(Number(text));
    if (pids.length === limits.procProcessesMax) break;
  }
  return pids;
}

async function socketsOf(guest: Guest, pid: number, inodes: ReadonlySet<string>): Promise<readonly string[]> {
  const held: string[] = [];
  let seen = 0;
  try {
    for await (const { stat } of guest.files.list(`/proc/${pid}/fd`)) {
      const [, inode = ''] = /^socket:\[(\d{1,20})\]$/.exec(stat.target?.toString('latin1') ?? '') ?? [];
      if (inodes.has(inode)) held.push(inode);
      seen += 1;
      if (seen === limits.procDescriptorsMax) break;
    }
  } catch (error) {
    passGone(undefined)(error);
  }
  return held;
}

/** It ended meanwhile, or is of another user: then nothing is told of it. */
function passGone<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof AppError && error.code === 'file_failed') return instead;
    throw error;
  };
}
