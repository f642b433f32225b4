/**
 * An egress process that does what a test tells it: it speaks the real frames with the real launcher and relays, and
 * decides by callbacks. It runs in the test's own process, which stands where the daemon would.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { encodeFields, FrameDecoder } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { SocketDirectory } from '@squash/base/socket-directory';

export interface Closed {
  readonly bytesUp: number;
  readonly bytesDown: number;
  readonly reason: number;
}

export interface EgressScript {
  onOpen?(connection: ScriptedConnection): void | Promise<void>;
  /** The answer, or undefined to stay silent. */
  onQuery?(message: Buffer, sandbox: string): Buffer | undefined;
}

/** One control connection, and whose it is. */
interface Control {
  readonly socket: Socket;
  readonly sandbox: string;
  readonly instance: number;
}

/** What an egress process has open. */
interface Sockets {
  readonly server: Server;
  readonly channel: Socket;
  readonly path: string;
}

const ended = { 0: 'ended', 1: 'reset by program', 2: 'reset by upstream', 3: 'reset by us' } as const;

export class ScriptedConnection {
  readonly sandbox: string;
  readonly instance: number;
  readonly id: number;
  /** Dotted or colon-separated. */
  readonly address: string;
  readonly port: number;
  readonly closed: Promise<Closed>;
  readonly #egress: ScriptedEgress;
  readonly #control: Socket;
  readonly settleClosed: (closed: Closed) => void;
  settleFirst: ((first: { bytes: Buffer; ended: boolean }) => void) | undefined;

  constructor(egress: ScriptedEgress, control: Control, open: FieldReader) {
    this.#egress = egress;
    this.#control = control.socket;
    this.sandbox = control.sandbox;
    this.instance = control.instance;
    this.id = open.integer('connection');
    this.address = addressText(open.bytes('address', 16));
    this.port = open.integer('port');
    const { promise, resolve } = Promise.withResolvers<Closed>();
    this.closed = promise;
    this.settleClosed = resolve;
  }

  /** What the program sent first: more than `offset` bytes, or all there will be. */
  async hold(bytesMax: number, offset = 0): Promise<{ bytes: Buffer; ended: boolean }> {
    const { promise, resolve } = Promise.withResolvers<{ bytes: Buffer; ended: boolean }>();
    this.settleFirst = resolve;
    this.#control.write(
      encodeFields('connectionHold', [
        ['connection', this.id],
        ['bytesMax', bytesMax],
        ...(offset > 0 ? [['offset', offset] as const] : []),
      ]),
    );
    return promise;
  }

  release(): void {
    this.#control.write(encodeFields('connectionRelease', [['connection', this.id]]));
  }

  reset(): void {
    this.#control.write(encodeFields('connectionReset', [['connection', this.id]]));
  }

  /** The errno; 0 where the relay has the socket. */
  dial(port: number, address: Uint8Array = Uint8Array.of(127, 0, 0, 1), timeoutMs = 10_000): Promise<number> {
    return this.#egress.ask(
      this,
      encodeFields('dialOut', [
        ['instance', this.instance],
        ['connection', this.id],
        ['address', address],
        ['port', port],
        ['timeoutMs', timeoutMs],
      ]),
    );
  }

  async stream(): Promise<Socket> {
    const arrived = this.#egress.streamOf(this.id);
    const errno = await this.#egress.ask(
      this,
      encodeFields('streamOut', [
        ['instance', this.instance],
        ['connection', this.id],
      ]),
    );
    assert.equal(errno, 0);
    return arrived;
  }

  async how(): Promise<string> {
    const { reason } = await this.closed;
    return ended[reason as keyof typeof ended];
  }
}

export class ScriptedEgress implements AsyncDisposable {
  readonly #script: EgressScript;
  readonly #server: Server;
  readonly #channel: Socket;
  readonly #sockets = new Set<Socket>();
  readonly #path: string;
  readonly #connections = new Map<number, ScriptedConnection>();
  readonly #dialed = new Map<number, (errno: number) => void>();
  readonly #streams = new Map<number, (stream: Socket) => void>();
  #controls = 0;

  private constructor(script: EgressScript, { server, channel, path }: Sockets) {
    this.#script = script;
    this.#server = server;
    this.#channel = channel;
    this.#path = path;
  }

  static async start(runDir: string, script: EgressScript): Promise<ScriptedEgress> {
    const path = join(runDir, 'egress.sock');
    rmSync(path, { force: true });
    const server = createServer({ allowHalfOpen: true });
    server.listen(path, 4_096);
    await once(server, 'listening');
    using directory = new SocketDirectory(runDir);
    const channel = await directory.connect('launch.sock');
    const egress = new ScriptedEgress(script, { server, channel, path });
    server.on('connection', (socket) => egress.#welcome(socket));
    const attached = Promise.withResolvers<void>();
    const decoder = new FrameDecoder();
    channel.on('data', (chunk: Buffer) => {
      for (const frame of decoder.decode(chunk)) {
        assert.ok(frame.kind === 'fields');
        if (frame.type === 'ok') attached.resolve();
        else egress.#answered(new FieldReader(frame.fields));
      }
    });
    channel.on('error', () => undefined);
    channel.write(encodeFields('egressAttach', []));
    await attached.promise;
    return egress;
  }

  /** Control connections of relays so far. */
  get controls(): number {
    return this.#controls;
  }

  ask(connection: ScriptedConnection, frame: Uint8Array): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#dialed.set(connection.id, resolve);
    this.#channel.write(frame);
    return promise;
  }

  streamOf(id: number): Promise<Socket> {
    const { promise, resolve } = Promise.withResolvers<Socket>();
    this.#streams.set(id, resolve);
    return promise;
  }

  /** As a killed process would: every socket is gone at once. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#channel.destroy();
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    rmSync(this.#path, { force: true });
  }

  #answered(dialed: FieldReader): void {
    const id = dialed.integer('connection');
    this.#dialed.get(id)?.(dialed.integer('errno'));
    this.#dialed.delete(id);
  }

  /** The first frame says what it is; behind a stream's come the program's bytes. */
  #welcome(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => this.#sockets.delete(socket));
    socket.once('readable', () => {
      const header: Buffer = socket.read(8);
      const body: Buffer = socket.read(header.readUInt32LE(0));
      const [first] = new FrameDecoder().decode(Buffer.concat([header, body]));
      assert.ok(first?.kind === 'fields');
      const fields = new FieldReader(first.fields);
      if (first.type === 'relayStream') this.#streams.get(fields.integer('connection'))?.(socket);
      else this.#control({ socket, sandbox: fields.text('name', 64), instance: fields.integer('instance') });
    });
  }

  #control(control: Control): void {
    const decoder = new FrameDecoder();
    this.#controls += 1;
    control.socket.on('data', (chunk: Buffer) => {
      for (const frame of decoder.decode(chunk)) {
        assert.ok(frame.kind === 'fields');
        this.#heard(control, frame.type, new FieldReader(frame.fields));
      }
    });
    control.socket.on('end', () => control.socket.destroy());
  }

  #heard(control: Control, type: string, fields: FieldReader): void {
    if (type === 'dnsQuery') {
      const message = Buffer.from(fields.bytes('message', 4_096));
      const answer = this.#script.onQuery?.(message, control.sandbox);
      if (answer === undefined) return;
      control.socket.write(
        encodeFields('dnsAnswer', [
          ['peer', fields.bytes('peer', 64)],
          ['message', answer],
        ]),
      );
      return;
    }
    if (type === 'connectionOpen') {
      const connection = new ScriptedConnection(this, control, fields);
      assert.ok(!this.#connections.has(connection.id), 'a number is given once');
      this.#connections.set(connection.id, connection);
      void this.#script.onOpen?.(connection);
      return;
    }
    const connection = this.#connections.get(fields.integer('connection'));
    assert.ok(connection !== undefined, `${type} of an unknown connection`);
    if (type === 'connectionFirst') {
      const bytes = Buffer.from(fields.bytes('firstBytes', 16_384));
      connection.settleFirst?.({ bytes, ended: fields.flag('ended') });
      return;
    }
    assert.equal(type, 'connectionClosed');
    connection.settleClosed({
      bytesUp: fields.integer('bytesUp'),
      bytesDown: fields.integer('bytesDown'),
      reason: fields.integer('reason'),
    });
  }
}

function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return [...bytes].join('.');
  const groups = Array.from({ length: 8 }, (_, i) =>
    (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16),
  );
  return groups.join(':');
}
