/**
 * One SSH connection, over whatever carries it: login, sessions, forwards to the sandbox's own ports, and a refusal for everything else.
 *
 * `ssh2` speaks the protocol. What it leaves open is bounded here: channels, what a client sends beyond its window, and what it makes us
 * send without reading it.
 */
import type { Duplex } from 'node:stream';
import type { Socket } from 'node:net';
import ssh2, { type AuthContext, type Connection, type ServerChannel } from 'ssh2';
import { ChannelPipe } from './channel.ts';
import type { Daemon } from './daemon.ts';
import { carryPort, dialPort, isOwnLoopback } from './forward.ts';
import { serveSession } from './session.ts';

/** Who has logged in: with what credential, into which sandbox, and as which of its users. */
export interface Login {
  readonly daemon: Daemon;
  readonly sandbox: string;
  /** Undefined: root. */
  readonly user: string | undefined;
}

export interface ConnectionOptions {
  /** A private key as OpenSSH writes it. */
  readonly hostKey: string;
  /** Decides about one request; undefined refuses it, `offered` says that a signature by this key would be looked at. */
  readonly login: (request: AuthContext) => Promise<Login | 'offered' | undefined>;
  readonly methods: readonly ('none' | 'publickey')[];
  /** Requests until the connection ends. */
  readonly attemptsMax: number;
  /** From the connection to its login. */
  readonly loginMs: number;
  /** How often a silent client is asked whether it is there, 0: never. */
  readonly keepAliveMs: number;
}

/** `ssh -D` of a browser opens some dozens. */
const channelsMax = 100;
/** Twice `ssh2`'s window: a client that sends more to a channel breaks the protocol. */
const unreadBytesMax = 4_194_304;
/** Over all channels: no more are filled to their windows at once but to fill our memory. */
const unreadBytesMaxOfAll = 67_108_864;
/** More than all windows of a client that reads; one that does not makes us hold answers and adjustments. */
const unsentBytesMax = 33_554_432;

/** Those that every client of the last years has, without SHA-1 and CBC. */
const algorithms = {
  kex: [
    'curve25519-sha256',
    'curve25519-sha256@libssh.org',
    'ecdh-sha2-nistp256',
    'diffie-hellman-group14-sha256',
  ],
  cipher: ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'aes128-ctr', 'aes256-ctr'],
  hmac: ['hmac-sha2-256-etm@openssh.com', 'hmac-sha2-512-etm@openssh.com', 'hmac-sha2-256', 'hmac-sha2-512'],
  compress: ['none'],
} as const;

/** Resolves when the connection is over. Never throws: what a client does wrong ends its connection. */
export async function serveConnection(socket: Duplex, options: ConnectionOptions): Promise<void> {
  const closed = Promise.withResolvers<void>();
  const gone = new AbortController();
  const timer = setTimeout(() => socket.destroy(), options.loginMs);
  const bounds = new Bounds(socket);
  socket.once('close', () => {
    clearTimeout(timer);
    gone.abort();
    closed.resolve();
  });
  // A client that says nothing more has gone: SSH has no half of a connection.
  socket.once('end', () => socket.destroy());
  const server = new ssh2.Server(
    {
      hostKeys: [options.hostKey],
      ident: 'Squash',
      keepaliveInterval: options.keepAliveMs,
      algorithms: {
        ...algorithms,
        kex: [...algorithms.kex],
        cipher: [...algorithms.cipher],
        hmac: [...algorithms.hmac],
        compress: ['none'],
      },
    },
    (client) => {
      client.on('error', () => {
        // Whatever it is, `ssh2` ends the connection behind it.
      });
      authenticate(client, options, (login) => {
        clearTimeout(timer);
        serveChannels(client, { login, socket, bounds, gone: gone.signal });
      });
    },
  );
  // It asks nothing of a socket that a pair of pipes has not.
  server.injectSocket(socket as Socket);
  await closed.promise;
}

function authenticate(client: Connection, options: ConnectionOptions, ready: (login: Login) => void): void {
  let attempts = 0;
  let login: Login | undefined;
  client.on('authentication', (request) => {
    attempts += 1;
    if (attempts > options.attemptsMax) {
      client.end();
      return;
    }
    options.login(request).then(
      (decision) => {
        if (decision !== 'offered') login = decision;
        if (decision === undefined) request.reject([...options.methods]);
        else request.accept();
      },
      () => request.reject([...options.methods]),
    );
  });
  client.once('ready', () => {
    if (login === undefined) client.end();
    else ready(login);
  });
}

interface Serving {
  readonly login: Login;
  readonly socket: Duplex;
  readonly bounds: Bounds;
  readonly gone: AbortSignal;
}

function serveChannels(client: Connection, { login, socket, bounds, gone }: Serving): void {
  client.on('session', (accept, reject) => {
    if (!bounds.hasRoom) return reject();
    const session = accept();
    const leaving = new AbortController();
    const release = bounds.take();
    session.once('close', () => {
      release();
      leaving.abort();
    });
    const signal = AbortSignal.any([gone, leaving.signal]);
    serveSession(session, {
      login,
      socket,
      gone: signal,
      opened: (channel) => bounds.watch(channel, signal),
    });
  });
  client.on('tcpip', (accept, reject, { destIP, destPort }) => {
    if (!bounds.hasRoom || !isOwnLoopback(destIP) || destPort < 1 || destPort > 65_535) return reject();
    const release = bounds.take();
    dialPort(login.daemon, login.sandbox, destPort).then(
      (messages) => {
        const channel = accept();
        const leaving = new AbortController();
        // `ssh2` tells it of a channel, and of each where the connection is gone.
        channel.once('close', () => leaving.abort());
        const signal = AbortSignal.any([gone, leaving.signal]);
        bounds.watch(channel, signal);
        void carryPort(messages, new ChannelPipe(channel, socket, signal)).finally(release);
      },
      () => {
        release();
        reject();
      },
    );
  });
  client.on('request', (_accept, reject) => reject?.());
}

/** What one connection may hold. */
class Bounds {
  readonly #socket: Duplex;
  readonly #channels = new Set<ServerChannel>();
  #taken = 0;

  constructor(socket: Duplex) {
    this.#socket = socket;
    socket.on('data', () => this.#look());
  }

  get hasRoom(): boolean {
    return this.#taken < channelsMax;
  }

  take(): () => void {
    this.#taken += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.#taken -= 1;
      isTaken = false;
    };
  }

  watch(channel: ServerChannel, gone: AbortSignal): void {
    this.#channels.add(channel);
    gone.addEventListener('abort', () => this.#channels.delete(channel), { once: true });
  }

  #look(): void {
    let [most, all] = [0, 0];
    for (const { readableLength } of this.#channels) {
      most = Math.max(most, readableLength);
      all += readableLength;
    }
    const isFlooding = most > unreadBytesMax || all > unreadBytesMaxOfAll;
    if (isFlooding || this.#socket.writableLength > unsentBytesMax) this.#socket.destroy();
  }
}
