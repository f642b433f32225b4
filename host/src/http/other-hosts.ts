/** What the server hands on: requests whose `Host` is not the API's, and what it knows of who sent them. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Asked } from './audit.ts';
import type { Caller } from './caller.ts';
import type { Peer } from './connection-owner.ts';

/** `tls`: TCP with the operator's certificate, for other hosts than the API's. */
export type Transport = 'tcp' | 'tls' | 'unix' | 'ssh';

/** Who sent a request to one of the other hosts. */
export interface Sender {
  readonly transport: Transport;
  readonly peer: Peer;
  readonly asked: Asked;
  /** He waits for a word before he sends the body. */
  readonly expectsContinue: boolean;
  /** He has shown that he may ask: his connection counts as no newcomer's any more. @param caller whose credential, or whose link, that was */
  welcome(caller: Caller): void;
}

/** Hosts that are not the API's. A request for one of them never reaches it. */
export interface OtherHosts {
  has(host: string | undefined): boolean;
  /** Whether a request to upgrade leaves the usual path. */
  takesUpgrade(incoming: IncomingMessage): boolean;
  /** Answers by itself, refusals too. Resolves when the request is over. */
  serve(incoming: IncomingMessage, outgoing: ServerResponse, sender: Sender): Promise<void>;
  /** @throws AppError where nothing was sent yet */
  upgrade(
    incoming: IncomingMessage,
    visitor: { readonly socket: Socket; readonly head: Buffer },
    sender: Sender,
  ): Promise<void>;
}
