/**
 * A connection of which nobody can say yet what it will be: the program waits, for its server or for itself, or has
 * written half a line. Its server is dialled from here and both are heard, until the program's first line says more.
 *
 * What a newcomer would get wrong: what looks like the beginning of a request is let go to the server after a moment, because
 * most such words belong to protocols without lines. If the rest makes a request of it after all, the connection is cut before
 * that rest leaves: no server gets a whole request that nobody has read. And as long as neither side has gone too far,
 * the connection is handed back, to be read from its first byte.
 */
import type { Socket } from 'node:net';
import { byteTurns } from '../flow/byte-turns.ts';
import { leaveServer, passOn } from '../flow/pump.ts';
import { egressLimits as limits } from '../limits.ts';
import { looksLikeTls } from './client-hello.ts';
import { type FirstBytes, readFirstBytes } from './first-bytes.ts';

export interface UndecidedParts {
  /** In whose turns its bytes pass. */
  readonly sandbox: string;
  /** Resolved, judged and connected. @throws DialRefused, or an Error with `code` */
  readonly dial: (signal: AbortSignal) => Promise<Socket>;
  /** `pass`: whatever it is, it passes. `take`: it has to be read or refused in words. */
  readonly decide: (first: FirstBytes) => 'pass' | 'take';
  /** The server has broken off: so does the program’s connection, whose bytes come by a socket that can't be reset. */
  readonly cut: () => void;
}

export type UndecidedEnd =
  /** Both sides are closed, or the program's is gone. */
  | { readonly kind: 'ended' }
  /** The program's stream begins with its first byte again, and nothing was sent to it. */
  | { readonly kind: 'taken'; readonly first: FirstBytes }
  /** It has to be read, and that is too late. */
  | { readonly kind: 'late' }
  | { readonly kind: 'undialled'; readonly error: unknown };

/** Destroys the server's side; the program's is the caller's. */
export async function serveUndecided(program: Socket, parts: UndecidedParts): Promise<UndecidedEnd> {
  using undecided = new Undecided(program, parts);
  return await undecided.ended;
}

class Undecided implements Disposable {
  readonly #program: Socket;
  readonly #parts: UndecidedParts;
  readonly #dialling = new AbortController();
  readonly #end = Promise.withResolvers<UndecidedEnd>();
  #server: Socket | undefined;
  #seen: Buffer = Buffer.alloc(0);
  /** Of what was seen, bytes that have left. */
  #sent = 0;
  #timer: NodeJS.Timeout | undefined;
  /** It is time to let go what is there. */
  #isDue = false;
  #hasServerSpoken = false;
  #isDecided = false;
  #hasProgramEnded = false;

  constructor(program: Socket, parts: UndecidedParts) {
    this.#program = program;
    this.#parts = parts;
    program.on('readable', this.#onReadable).on('end', this.#onProgramEnd).on('close', this.#onClose);
    program.on('error', this.#onClose);
    void this.#connect();
  }

  get ended(): Promise<UndecidedEnd> {
    return this.#end.promise;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#dialling.abort();
    this.#detach();
    if (this.#server !== undefined) leaveServer(this.#server, this.#program);
  }

  /** Read piece by piece, not in flow: whoever takes the stream over finds it as new. */
  readonly #onReadable = (): void => {
    while (!this.#isDecided) {
      const piece = this.#program.read() as Buffer | null;
      if (piece === null) return;
      this.#look(piece);
    }
  };

  #look(piece: Buffer): void {
    this.#seen = Buffer.concat([this.#seen, piece]);
    const isFull = this.#seen.length >= limits.firstLineMax;
    const found = readFirstBytes(this.#seen, isFull);
    if (found.kind !== 'more') {
      // No server takes a first line of that length for a request's.
      return this.#decide(
        found.kind === 'unfinished' && !looksLikeTls(this.#seen) ? { kind: 'other' } : found,
      );
    }
    if (this.#isDue) return this.#letGo();
    const isTls = looksLikeTls(this.#seen);
    this.#timer ??= setTimeout(
      () => (isTls ? this.#decide({ kind: 'unfinished' }) : this.#letGo()),
      isTls ? limits.helloBytesMs : limits.unfinishedMs,
    );
  }

  readonly #onProgramEnd = (): void => {
    this.#hasProgramEnded = true;
    if (!this.#isDecided) {
      const found = readFirstBytes(this.#seen, true, true);
      this.#decide(found.kind === 'more' ? { kind: 'unfinished' } : found);
    }
  };

  readonly #onClose = (): void => this.#end.resolve({ kind: 'ended' });

  async #connect(): Promise<void> {
    try {
      const server = await this.#parts.dial(this.#dialling.signal);
      if (this.#dialling.signal.aborted) return void server.destroy();
      this.#server = server;
      server.on('error', this.#parts.cut);
      const pay = byteTurns.payer(this.#parts.sandbox);
      passOn(server, this.#program, (size) => {
        this.#hasServerSpoken = true;
        return pay(size);
      });
      if (this.#isDecided) this.#pass(server);
      else if (this.#isDue) this.#letGo();
    } catch (error) {
      this.#end.resolve({ kind: 'undialled', error });
    }
  }

  #letGo(): void {
    this.#isDue = true;
    if (this.#server === undefined) return;
    this.#server.write(this.#seen.subarray(this.#sent));
    this.#sent = this.#seen.length;
  }

  #decide(first: FirstBytes): void {
    if (this.#isDecided) return;
    this.#isDecided = true;
    clearTimeout(this.#timer);
    this.#program.off('readable', this.#onReadable);
    if (this.#parts.decide(first) === 'take') {
      const isLate = this.#hasServerSpoken || this.#sent > 0;
      this.#detach();
      if (!isLate && this.#seen.length > 0) this.#program.unshift(this.#seen);
      return this.#end.resolve(isLate ? { kind: 'late' } : { kind: 'taken', first });
    }
    if (this.#server !== undefined) this.#pass(this.#server);
  }

  /** From here on the bytes are nobody's business. */
  #pass(server: Socket): void {
    if (this.#sent < this.#seen.length) server.write(this.#seen.subarray(this.#sent));
    this.#seen = Buffer.alloc(0);
    if (this.#hasProgramEnded) server.end();
    else passOn(this.#program, server, byteTurns.payer(this.#parts.sandbox));
  }

  #detach(): void {
    const program = this.#program;
    program.off('readable', this.#onReadable).off('end', this.#onProgramEnd);
    program.off('close', this.#onClose).off('error', this.#onClose);
    // What it still says interests nobody here.
    program.on('error', () => undefined);
  }
}
