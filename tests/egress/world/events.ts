/**
 * What the servers of the little Internet saw, in order: the tests' only witness of what really left a sandbox.
 */
export interface RequestSeen {
  readonly kind: 'request';
  readonly address: string;
  readonly port: number;
  readonly version: string;
  readonly method: string;
  readonly url: string;
  /** `Host` or `:authority`. */
  readonly authority: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly trailers: Readonly<Record<string, string | undefined>>;
  /** The first 64 KiB. */
  readonly body: string;
  readonly bodyBytes: number;
  /** Undefined without TLS, or where the client said none. */
  readonly serverName: string | undefined;
}

export type Seen =
  | { readonly kind: 'connection'; readonly address: string; readonly port: number }
  | { readonly kind: 'datagram'; readonly address: string; readonly port: number; readonly text: string }
  | { readonly kind: 'bytes'; readonly address: string; readonly port: number; readonly text: string }
  | { readonly kind: 'query'; readonly address: string; readonly name: string; readonly type: number }
  | RequestSeen;

/** Every answer of every server holds this and where it was given. */
export const canary = 'CANARY';

const eventsMax = 100_000;

export class Witness {
  readonly #events: Seen[] = [];

  add(event: Seen): void {
    // A flood is counted by its own test; memory has an end.
    if (this.#events.length < eventsMax) this.#events.push(event);
  }

  get count(): number {
    return this.#events.length;
  }

  since(mark: number): readonly Seen[] {
    return this.#events.slice(mark);
  }
}

/** The plain form of an address as a dual-stack socket names it. */
export function plainAddress(address: string | undefined): string {
  return (address ?? '').replace(/^::ffff:/, '');
}
