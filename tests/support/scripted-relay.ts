/**
 * The egress process's other side, played by the test over real sockets: a launcher that really dials, and relays whose
 * programs are the test's own. What the native ones do byte by byte is done here in a few lines, so that each order of
 * events can be brought about on purpose.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import { encodeFields, type FieldFrameName, FrameDecoder } from '../../contract/src/guest/codec.ts';
import { FieldReader } from '../../contract/src/guest/fields.ts';
import type { FieldName } from '../../contract/src/guest/frames.ts';
import { waitFor } from './wait.ts';

type FieldList = readonly (readonly [FieldName, number | string | Uint8Array])[];

function onFrames(socket: Socket, take: (type: FieldFrameName, fields: FieldReader) => void): void {
  const decoder = new FrameDecoder();
  socket.on('data', (chunk: Buffer) => {
    for (const frame of decoder.decode(chunk)) {
      assert.ok(frame.kind === 'fields');
      take(frame.type, new FieldReader(frame.fields));
    }
  });
  socket.on('error', () => undefined);
}

/** `run/launch.sock`, as far as the egress process uses it. */
export class ScriptedLauncher implements AsyncDisposable {
  readonly #runDir: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly relays = new Map<number, ScriptedRelay>();
  /** Every `dialOut`, as address:port. */
  readonly dialled: string[] = [];
  readonly #late: (() => void)[] = [];
  attached = 0;
  /** Answers about dials wait for `answerLate`; the sockets do not. */
  isLate = false;

  constructor(runDir: string) {
    this.#runDir = runDir;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  async listen(): Promise<void> {
    this.#server.listen(join(this.#runDir, 'launch.sock'));
    await once(this.#server, 'listening');
  }

  /** Forks a relay, so to speak: its control connection is greeted for. */
  async relay(instance: number, sandbox: string, protocol?: number): Promise<ScriptedRelay> {
    const relay = new ScriptedRelay(instance, sandbox);
    this.relays.set(instance, relay);
    await this.reconnect(relay, protocol);
    return relay;
  }

  /** A relay gets another control connection. Its tunnels have gone on meanwhile. */
  async reconnect(relay: ScriptedRelay, protocol?: number): Promise<void> {
    const socket = connect(join(this.#runDir, 'egress.sock'));
    await once(socket, 'connect');
    socket.write(
      encodeFields('relayHello', [
        ['instance', relay.instance],
        ['name', relay.sandbox],
        ...(protocol === undefined ? [] : [['protocol', protocol] as const]),
      ]),
    );
    relay.take(socket);
  }

  get lateAnswers(): number {
    return this.#late.length;
  }

  answerLate(): void {
    for (const answer of this.#late.splice(0)) answer();
  }

  /** The connection to the egress process breaks. */
  drop(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const relay of this.relays.values()) relay.end();
    this.drop();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    onFrames(socket, (type, fields) => {
      if (type === 'egressAttach') {
        this.attached += 1;
        socket.write(encodeFields('ok', []));
        return;
      }
      const instance = fields.integer('instance');
      const connection = fields.integer('connection');
      const answer = (errno: number): void => {
        if (socket.destroyed) return;
        socket.write(
          encodeFields('dialed', [
            ['instance', instance],
            ['connection', connection],
            ['errno', errno],
          ]),
        );
      };
      const relay = this.relays.get(instance);
      if (relay === undefined) answer(constants.errno.ENOENT);
      else if (type === 'dialOut')
        this.#dial(fields, this.#inTime(answer), (upstream) => relay.attach(connection, upstream));
      else if (type === 'streamOut') this.#stream({ instance, connection }, answer, relay);
    });
  }

  #inTime(answer: (errno: number) => void): (errno: number) => void {
    return (errno) => {
      if (this.isLate) this.#late.push(() => answer(errno));
      else answer(errno);
    };
  }

  #dial(fields: FieldReader, answer: (errno: number) => void, attach: (upstream: Socket) => void): void {
    const bytes = fields.bytes('address', 16);
    const port = fields.integer('port');
    fields.integer('timeoutMs');
    const host = bytes.length === 4 ? bytes.join('.') : addressText(bytes);
    this.dialled.push(`${host}:${port}`);
    const upstream = connect({ host, port, allowHalfOpen: true });
    upstream.once('error', (error: NodeJS.ErrnoException) => answer(Math.abs(error.errno ?? 1)));
    upstream.once('connect', () => {
      answer(0);
      attach(upstream);
    });
  }

  #stream(
    name: { instance: number; connection: number },
    answer: (errno: number) => void,
    relay: ScriptedRelay,
  ): void {
    const stream = connect({ path: join(this.#runDir, 'egress.sock'), allowHalfOpen: true });
    stream.once('error', () => answer(constants.errno.ECONNREFUSED));
    stream.once('connect', () => {
      stream.write(
        encodeFields('relayStream', [
          ['instance', name.instance],
          ['connection', name.connection],
        ]),
      );
      answer(0);
      relay.attach(name.connection, stream);
    });
  }
}

function addressText(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString('hex')
    .replaceAll(/(.{4})(?!$)/g, '$1:');
}

/** A control connection and the connections of its sandbox's programs. */
export class ScriptedRelay {
  readonly instance: number;
  readonly sandbox: string;
  readonly #programs = new Map<number, Program>();
  readonly #answers = new Map<string, Buffer[]>();
  #socket: Socket | undefined;
  #last = 0;
  hasEnded = false;

  constructor(instance: number, sandbox: string) {
    this.instance = instance;
    this.sandbox = sandbox;
  }

  /** Its control connection. Where that ends, undecided connections end; tunnels go on. */
  take(socket: Socket): void {
    this.#socket = socket;
    this.hasEnded = false;
    socket.on('close', () => {
      this.hasEnded = true;
      for (const program of this.#programs.values()) if (!program.isTunnel) program.reset();
    });
    onFrames(socket, (type, fields) => {
      if (type === 'dnsAnswer') {
        const peer = Buffer.from(fields.bytes('peer', 64)).toString('latin1');
        const waiting = this.#answers.get(peer) ?? [];
        waiting.push(Buffer.from(fields.bytes('message', 65_535)));
        this.#answers.set(peer, waiting);
        return;
      }
      const program = this.#programs.get(fields.integer('connection'));
      if (type === 'connectionHold') {
        program?.hold(fields.optionalInteger('offset') ?? 0, fields.integer('bytesMax'));
      } else if (type === 'connectionRelease') program?.release();
      else if (type === 'connectionReset') program?.reset(3);
    });
  }

  /** A program connects. `address` as bytes or dotted text. */
  open(address: string | Uint8Array, port: number): Program {
    this.#last += 1;
    const number = this.#last;
    const bytes = typeof address === 'string' ? Uint8Array.from(address.split('.'), Number) : address;
    const program = new Program((type, fields) => this.post(type, [['connection', number], ...fields]));
    this.#programs.set(number, program);
    this.post('connectionOpen', [
      ['connection', number],
      ['address', bytes],
      ['port', port],
    ]);
    return program;
  }

  /** One DNS query and its answer. */
  async ask(message: Uint8Array, deadlineMs = 5_000): Promise<Buffer> {
    this.#last += 1;
    const peer = `peer ${this.#last}`;
    this.query(peer, message);
    return await waitFor('a DNS answer', () => this.#answers.get(peer)?.shift(), deadlineMs);
  }

  query(peer: string, message: Uint8Array): void {
    this.post('dnsQuery', [
      ['peer', peer],
      ['message', message],
    ]);
  }

  get answers(): number {
    return [...this.#answers.values()].reduce((sum, waiting) => sum + waiting.length, 0);
  }

  attach(connection: number, upstream: Socket): void {
    const program = this.#programs.get(connection);
    if (program === undefined) upstream.destroy();
    else program.attach(upstream);
  }

  post(type: FieldFrameName, fields: FieldList): void {
    if (this.#socket?.destroyed === false) this.#socket.write(encodeFields(type, fields));
  }

  /** Bytes that are no frame. */
  raw(bytes: Uint8Array): void {
    this.#socket?.write(bytes);
  }

  end(): void {
    this.#socket?.destroy();
    for (const program of this.#programs.values()) program.reset();
  }
}

type Say = ScriptedRelay['post'];

/** A program's connection: what it writes waits for the verdict, what comes back is collected. */
export class Program {
  readonly #say: Say;
  #sent = Buffer.alloc(0);
  #forwarded = 0;
  #received = Buffer.alloc(0);
  #hasEnded = false;
  #hold: { offset: number; bytesMax: number } | undefined;
  #isReleased = false;
  #upstream: Socket | undefined;
  /** `undefined` while it is open; else `reason` of `connectionClosed`. */
  reason: number | undefined;
  holds = 0;

  constructor(say: Say) {
    this.#say = say;
  }

  write(bytes: Uint8Array | string): void {
    this.#sent = Buffer.concat([this.#sent, Buffer.from(bytes as string)]);
    this.#answerHold();
    this.#forward();
  }

  endWrites(): void {
    this.#hasEnded = true;
    this.#answerHold();
    this.#forward();
  }

  get received(): Buffer {
    return this.#received;
  }

  /** Both ends are connected, by the launcher's socket and not by a stream. */
  get isTunnel(): boolean {
    return this.#isReleased && this.#upstream?.remoteAddress !== undefined;
  }

  get isOpen(): boolean {
    return this.reason === undefined;
  }

  /** Resolves when at least these bytes have come back. */
  async read(text: string, deadlineMs = 5_000): Promise<void> {
    await waitFor(
      `${JSON.stringify(text)} from the server`,
      () => {
        assert.ok(this.isOpen || this.#received.includes(text), `closed with reason ${this.reason}`);
        return this.#received.includes(text);
      },
      deadlineMs,
    );
  }

  /** Resolves with the reason. */
  async closed(deadlineMs = 5_000): Promise<number> {
    await waitFor('the end of a connection', () => !this.isOpen, deadlineMs);
    return this.reason ?? -1;
  }

  hold(offset: number, bytesMax: number): void {
    this.holds += 1;
    this.#hold = { offset, bytesMax };
    this.#answerHold();
  }

  release(): void {
    this.#isReleased = true;
    this.#forward();
  }

  attach(upstream: Socket): void {
    this.#upstream = upstream;
    upstream.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
    upstream.on('error', () => this.reset(2));
    upstream.on('close', () => this.reset(0));
    if (!this.isOpen) upstream.destroy();
    this.#forward();
  }

  /** The program closes without further ado. */
  reset(reason = 1): void {
    if (!this.isOpen) return;
    this.reason = reason;
    this.#upstream?.destroy();
    this.#sayClosed(reason);
  }

  #sayClosed(reason: number): void {
    this.#say('connectionClosed', [
      ['bytesUp', this.#forwarded],
      ['bytesDown', this.#received.length],
      ['reason', reason],
    ]);
  }

  /** The relay's last word where both sides have ended in order; what has been sent may still wait in its socket. */
  end(): void {
    this.reason = 0;
    this.#sayClosed(0);
  }

  #answerHold(): void {
    const hold = this.#hold;
    if (hold === undefined || (this.#sent.length <= hold.offset && !this.#hasEnded)) return;
    this.#hold = undefined;
    this.#say('connectionFirst', [
      ['firstBytes', this.#sent.subarray(0, hold.bytesMax)],
      ['ended', this.#hasEnded ? 1 : 0],
    ]);
  }

  #forward(): void {
    if (!this.#isReleased || this.#upstream === undefined) return;
    this.#upstream.write(this.#sent.subarray(this.#forwarded));
    this.#forwarded = this.#sent.length;
    if (this.#hasEnded) this.#upstream.end();
  }
}
