/**
 * What a request and its answer are between the program's side (`front-*.ts`) and the server's side (`upstream-*.ts`),
 * whichever version of HTTP either of them speaks. Types and two errors.
 *
 * What a newcomer would get wrong: headers are flat lists, names and values in turn, as Node's `rawHeaders`. An object
 * would lose the order, the spelling and the repetitions, and servers and signatures depend on all three.
 */
import type { Readable, Writable } from 'node:stream';

/** Names and values in turn. Each character is a byte. */
export type HeaderList = readonly string[];

export interface RequestHead {
  readonly method: string;
  /** As it was sent: `/path?query`, `*`, or a whole URL. */
  readonly target: string;
  /** `Host` or `:authority`, as it was sent. */
  readonly authority: string | undefined;
  /** What concerns more than this one hop; without `Host`. */
  readonly headers: HeaderList;
  readonly hasBody: boolean;
  readonly expectsContinue: boolean;
  /** What it leaves HTTP for, lower case; undefined: it is an ordinary request. */
  readonly upgrade?: string | undefined;
  /** Why the message is refused before anything else is looked at; undefined: it is well formed. */
  readonly malformed: string | undefined;
}

export interface AnswerHead {
  readonly status: number;
  /** HTTP/1.1's words behind the status; often empty. */
  readonly reason: string;
  readonly headers: HeaderList;
  /** False: nothing follows the head, not even an empty body (HEAD, 204, 304, `END_STREAM`). */
  readonly hasBody: boolean;
}

/** One request of a program, and the way to answer it. */
export interface FrontExchange {
  readonly head: RequestHead;
  readonly body: Readable;
  /** Of the request, known when its body has ended. */
  trailers(): HeaderList;
  /** The program does not wait for the answer any more. Told at once where that is so already. */
  onGone(listener: () => void): void;
  sendContinue(): void;
  /** 103 and its like, where the program's side can be told. */
  sendEarly(status: number, headers: HeaderList): void;
  readonly hasAnswered: boolean;
  /** Once. The body goes to what is returned. */
  answer(head: AnswerHead): Writable;
  /** After the body's last byte. */
  finish(trailers: HeaderList): void;
  /** Ends the exchange so that the program can not take it for a whole one. */
  abort(): void;
}

export interface OutgoingRequest {
  readonly method: string;
  readonly target: string;
  readonly authority: string;
  readonly headers: HeaderList;
  readonly hasBody: boolean;
  readonly expectsContinue: boolean;
  readonly onContinue: () => void;
  readonly onEarly: (status: number, headers: HeaderList) => void;
}

export interface Answer {
  readonly head: AnswerHead;
  readonly body: Readable;
  /** Known when the body has ended. */
  trailers(): HeaderList;
}

/** A request on its way to the server. */
export interface UpstreamExchange {
  readonly sink: Writable;
  /** Rejects where the server breaks off before it has answered. */
  readonly answer: Promise<Answer>;
  /** After the body's last byte. */
  finish(trailers: HeaderList): void;
  abort(): void;
}

/** The server's side of one program's connection. Requests of no other connection ever go there. */
export interface Upstream extends AsyncDisposable {
  /**
   * @param signal aborts when nobody waits for the answer any more
   * @throws DialRefused, UpstreamFailed, the signal's reason
   */
  send(request: OutgoingRequest, signal: AbortSignal): Promise<UpstreamExchange>;
}

/** The server could not be reached, or did not answer as it should. The message is for the program. */
export class UpstreamFailed extends Error {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'UpstreamFailed';
  }
}

/** A body that has to be looked through and can not be. The message is for the program. */
export class Unreadable extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Unreadable';
  }
}
