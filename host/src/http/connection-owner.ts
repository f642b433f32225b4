/**
 * Whose a connection over loopback is. The kernel says it, of the client's end, to the netlink socket that
 * `squash-launch enter` opened out on the host and left in the place of standard input: it answers in the ids of the user namespace in
 * which that socket was opened, and in the daemon's own all strangers are one id.
 *
 * What a newcomer would get wrong: the answer is about whoever has the two addresses *now*. Four rules make it an
 * answer about the connection that was accepted. It is asked at once, before another one is accepted. The client's
 * end is connected, so it is neither a listener at that port nor somebody who only asks for a connection. It has
 * an inode, so a process holds it: of one that was closed behind its last word older kernels say that it is root's. And our own
 * end is connected still and has been accepted, so nobody else can have had these addresses in between.
 */
import { fstatSync, readSync, writeSync } from 'node:fs';
import { createServer, isIPv4, type Socket } from 'node:net';
import { endianness } from 'node:os';
import { once } from 'node:events';
import type { Capability } from '@squash/contract/capability';

/** `own`: of the user who started the daemon, or of root. */
export type Peer = 'own' | 'stranger' | 'unknown';

/** Set by `native/launch/enter.c` where standard input is that netlink socket: the uid of who started it. */
const starterVariable = 'SQUASHD_STARTER';
const descriptor = 0;
/** What the kernel calls an id that has no name in the starter's user namespace: many users at once. */
const overflowUid = 65_534;

interface End {
  readonly address: string;
  readonly port: number;
}

interface SocketFacts {
  readonly state: number;
  readonly uid: number;
  readonly inode: number;
}

const state = { established: 1, finWait1: 4, finWait2: 5, closeWait: 8, listen: 10 } as const;
/** A client may have said its last word: what it sent counts while it waits for the answer. */
const clientStates: readonly number[] = [state.established, state.finWait1, state.finWait2];
const ownStates: readonly number[] = [state.established, state.closeWait];

export class ConnectionOwners {
  /** The uid that started the daemon, as the host names it; undefined where nobody can be told from others. */
  readonly #starter: number | undefined;
  #sequence = 0;
  readonly #uids = new WeakMap<Socket, number>();

  constructor(env: Readonly<Record<string, string | undefined>>) {
    const starter = Number(env[starterVariable] || Number.NaN);
    const isKnown = Number.isSafeInteger(starter) && starter !== overflowUid && hasDescriptor();
    this.#starter = isKnown ? starter : undefined;
  }

  /** To be asked when the connection is accepted, in the same turn of the event loop. */
  peerOf(socket: Socket): Peer {
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    if (this.#starter === undefined || remoteAddress === undefined || localAddress === undefined)
      return 'unknown';
    const client: End = { address: remoteAddress, port: remotePort ?? 0 };
    const own: End = { address: localAddress, port: localPort ?? 0 };
    const theirs = this.#ask(client, own);
    if (theirs === undefined || theirs.inode === 0 || !clientStates.includes(theirs.state)) return 'unknown';
    const ours = this.#ask(own, client);
    if (ours === undefined || ours.inode === 0 || !ownStates.includes(ours.state)) return 'unknown';
    this.#uids.set(socket, theirs.uid);
    return theirs.uid === this.#starter || theirs.uid === 0 ? 'own' : 'stranger';
  }

  /** The client's user as the host names it, where `peerOf` has found it out. */
  uidOf(socket: Socket): number | undefined {
    return this.#uids.get(socket);
  }

  /** For `doctor`: tried on a listener of our own. @param isNeeded there is TCP, and no token for it */
  async capability(isNeeded: boolean): Promise<Capability> {
    const isKnown = await this.#works();
    return {
      name: 'connection_owner',
      state: isKnown ? 'ok' : 'missing',
      required: false,
      found: isKnown
        ? 'the kernel says whose a connection over loopback is'
        : 'it can not be found out whose a connection over loopback is',
      choice: isKnown
        ? `without a token uid ${this.#starter ?? 0} and root may use TCP, and nobody else`
        : 'without a token nobody may use TCP',
      weaker: isKnown || !isNeeded ? null : 'there is no token, so every request over TCP is refused',
      remedy: isKnown
        ? null
        : "set SQUASH_AUTH_TOKEN (openssl rand -hex 32), or start as a user of one's own after: sudo modprobe -a inet_diag tcp_diag",
    };
  }

  async #works(): Promise<boolean> {
    if (this.#starter === undefined) return false;
    const server = createServer().listen(0, '127.0.0.1');
    try {
      await once(server, 'listening');
      const address = server.address();
      if (address === null || typeof address === 'string') return false;
      return this.#ask(address, { address: '0.0.0.0', port: 0 })?.state === state.listen;
    } finally {
      server.close();
    }
  }

  /** The socket whose own address is `near` and whose other end is `far`; undefined where there is none. */
  #ask(near: End, far: End): SocketFacts | undefined {
    this.#sequence = (this.#sequence + 1) % 0x1_0000_0000;
    try {
      writeSync(descriptor, question(near, far, this.#sequence));
      // The kernel has answered before the write returns. It doesn't block: where it has not, nobody is known.
      return answerTo(this.#sequence, (into) => readSync(descriptor, into));
    } catch {
      // No answer is no owner.
      return undefined;
    }
  }
}

/** Past what a question before it has left unread, which would stand before every later answer. @throws what `read` does */
export function answerTo(sequence: number, read: (into: Buffer) => number): SocketFacts | undefined {
  const bytes = Buffer.alloc(512);
  for (;;) {
    const answer = bytes.subarray(0, read(bytes));
    if (answer.length < headerBytes) return undefined;
    if (answer.readUInt32LE(8) === sequence) return factsOf(answer);
  }
}

function hasDescriptor(): boolean {
  try {
    return endianness() === 'LE' && fstatSync(descriptor).isSocket();
  } catch {
    // Started by other means than `squash-launch enter`.
    return false;
  }
}

const headerBytes = 16;
const requestBytes = headerBytes + 56;
const answerBytes = headerBytes + 72;
const sockDiagByFamily = 20;
const isRequest = 1;
const tcp = 6;

/** `struct nlmsghdr` and `struct inet_diag_req_v2` of <linux/inet_diag.h>. */
function question(near: End, far: End, sequence: number): Buffer {
  const bytes = Buffer.alloc(requestBytes);
  bytes.writeUInt32LE(requestBytes, 0);
  bytes.writeUInt16LE(sockDiagByFamily, 4);
  bytes.writeUInt16LE(isRequest, 6);
  bytes.writeUInt32LE(sequence, 8);
  bytes.writeUInt8(isIPv4(near.address) ? 2 : 10, 16);
  bytes.writeUInt8(tcp, 17);
  // Sockets in any state, whatever their cookie.
  bytes.writeUInt32LE(0xffff_ffff, 20);
  bytes.fill(0xff, 64);
  bytes.writeUInt16BE(near.port, 24);
  bytes.writeUInt16BE(far.port, 26);
  bytes.set(addressBytes(near.address), 28);
  bytes.set(addressBytes(far.address), 44);
  return bytes;
}

/** `struct inet_diag_msg` behind its header. What else comes, an error first of all, names no socket. */
function factsOf(bytes: Buffer): SocketFacts | undefined {
  if (bytes.length < answerBytes || bytes.readUInt16LE(4) !== sockDiagByFamily) return undefined;
  return { state: bytes.readUInt8(17), uid: bytes.readUInt32LE(80), inode: bytes.readUInt32LE(84) };
}

/** Of an address as Node writes it. */
function addressBytes(text: string): Uint8Array {
  if (isIPv4(text)) return Uint8Array.from(text.split('.'), Number);
  const [head = '', tail] = text.replace(/%.*$/, '').split('::');
  const groups = (part: string): number[] =>
    part
      .split(':')
      .filter(Boolean)
      .map((group) => Number.parseInt(group, 16));
  const front = groups(head);
  const back = groups(tail ?? '');
  const all = [...front, ...Array<number>(Math.max(0, 8 - front.length - back.length)).fill(0), ...back];
  return Uint8Array.from(all.flatMap((group) => [group >> 8, group & 255]));
}
