/**
 * The one connection to `squash-launch`: it dials for the relays, which hold no right to connect themselves.
 *
 * It comes back by itself when the launcher was away; what was asked and not answered then has failed. Errors are
 * errno numbers, as the launcher gives them: a connection that could not be made is nothing exceptional here.
 */
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { encodeFields, type FieldFrameName } from '@squash/contract/guest/codec';
import type { FieldReader } from '@squash/contract/guest/fields';
import type { FieldName } from '@squash/contract/guest/frames';
import { errorText } from '@squash/base/bug';
import { Failure } from '@squash/base/failure';
import type { Log } from '@squash/base/log';
import { pause } from '@squash/base/pause';
import type { SocketDirectory } from '@squash/base/socket-directory';
import type { Address } from '@squash/policy/address/address';
import { egressLimits as limits } from '../limits.ts';
import { FramePipe } from './frame-pipe.ts';

/** One connection of one relay, as both sides name it. */
export interface ConnectionName {
  readonly instance: number;
  readonly connection: number;
}

export interface DialTarget {
  readonly address: Address;
  readonly port: number;
  readonly timeoutMs: number;
}

/** What an answer may take beyond the time of the dial itself: a launcher that is stopped must hold no place. */
const answerSlackMs = 5_000;
/** What `dialed` says where the launcher can't be asked. */
const notConnected = constants.errno.ENOTCONN;

export class LaunchChannel implements AsyncDisposable {
  readonly #sockets: SocketDirectory;
  readonly #log: Log;
  readonly #waiting = new Map<string, (errno: number) => void>();
  readonly #stop = new AbortController();
  #pipe: FramePipe | undefined;
  #isAttached = false;
  #running: Promise<void> | undefined;

  constructor(sockets: SocketDirectory, log: Log) {
    this.#sockets = sockets;
    this.#log = log;
  }

  /** Begins to connect, and goes on until disposed. */
  start(): void {
    this.#running ??= this.#run();
  }

  get isAttached(): boolean {
    return this.#isAttached;
  }

  /** Resolves with 0 when the relay has the connected socket, else with the errno. */
  dialOut(name: ConnectionName, target: DialTarget): Promise<number> {
    const fields = [
      ['address', target.address],
      ['port', target.port],
      ['timeoutMs', target.timeoutMs],
    ] as const;
    return this.#ask('dialOut', name, { fields, answerMs: target.timeoutMs + answerSlackMs });
  }

  /** The stream itself arrives on `egress.sock`. */
  streamOut(name: ConnectionName): Promise<number> {
    return this.#ask('streamOut', name, { fields: [], answerMs: answerSlackMs });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#pipe?.close();
    await this.#running;
  }

  #ask(
    type: FieldFrameName,
    name: ConnectionName,
    {
      fields,
      answerMs,
    }: { fields: readonly (readonly [FieldName, number | Uint8Array])[]; answerMs: number },
  ): Promise<number> {
    const pipe = this.#pipe;
    const key = keyOf(name);
    if (pipe === undefined || !this.#isAttached) return Promise.resolve(notConnected);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(key);
        resolve(constants.errno.ETIMEDOUT);
      }, answerMs);
      // One question per connection at a time: an older one's answer would be taken for this one's.
      this.#waiting.get(key)?.(constants.errno.ECANCELED);
      this.#waiting.set(key, (errno) => {
        clearTimeout(timer);
        resolve(errno);
      });
      pipe.post(
        encodeFields(type, [['instance', name.instance], ['connection', name.connection], ...fields]),
      );
    });
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#serve(await this.#sockets.connect('launch.sock', signal));
      } catch (error) {
        if (!signal.aborted) this.#log.debug('launcher.away', { reason: errorText(error) });
      }
      if (!signal.aborted) await pause(limits.launcherRetryMs, signal);
    }
  }

  /** Resolves when the connection has ended. */
  #serve(socket: Socket): Promise<void> {
    return new Promise((resolve) => {
      const pipe = new FramePipe(socket, {
        onFrame: (type, fields) => this.#take(type, fields),
        onEnd: (reason) => {
          if (this.#isAttached) this.#log.warn('launcher.gone', { reason: reason?.message ?? 'closed' });
          this.#isAttached = false;
          this.#pipe = undefined;
          for (const answer of this.#waiting.values()) answer(notConnected);
          this.#waiting.clear();
          resolve();
        },
      });
      this.#pipe = pipe;
      pipe.post(encodeFields('egressAttach', []));
    });
  }

  #take(type: FieldFrameName, fields: FieldReader): void {
    if (type === 'ok') {
      this.#isAttached = true;
      this.#log.info('launcher.attached');
      return;
    }
    if (type === 'error') {
      const code = fields.text('errorCode', 64);
      this.#pipe?.close(new Failure(code, fields.optionalText('message', 1_024) ?? code));
      return;
    }
    if (type !== 'dialed') return;
    const key = keyOf({ instance: fields.integer('instance'), connection: fields.integer('connection') });
    const errno = fields.integer('errno');
    const answer = this.#waiting.get(key);
    this.#waiting.delete(key);
    answer?.(errno);
  }
}

function keyOf({ instance, connection }: ConnectionName): string {
  return `${instance}/${connection}`;
}
