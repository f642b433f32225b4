/**
 * What a handler answers: plain values, so that handlers know nothing of HTTP libraries and tests compare them.
 */
import type { FileHandle } from 'node:fs/promises';

type ReplyHeaders = Readonly<Record<string, string>>;

export type Reply =
  /** JSON with the operation's first status. */
  | { readonly type: 'json'; readonly value: unknown; readonly headers?: ReplyHeaders }
  /** No body, and the operation's first status unless another one is named. */
  | { readonly type: 'empty'; readonly status?: number; readonly headers?: ReplyHeaders }
  | { readonly type: 'text'; readonly text: string; readonly contentType: string }
  /** A file's bytes. Whoever sends it closes it, also where nobody takes it, and calls `onEnd` then. */
  | {
      readonly type: 'file';
      readonly contentType: string;
      readonly file: FileHandle;
      readonly bytes: number;
      readonly onEnd: () => void;
    }
  /** Bytes that come from elsewhere, no faster than the client takes them. `onEnd` is called once, also where nobody takes any. */
  | {
      readonly type: 'bytes';
      readonly status?: number;
      readonly headers?: ReplyHeaders;
      readonly contentType: string;
      /** Undefined: as many as come. */
      readonly bytes: number | undefined;
      readonly pieces: AsyncIterable<Uint8Array>;
      readonly onEnd: () => void;
    }
  /** Sent piece by piece as the client reads; the iteration is ended when the client goes away. */
  | {
      readonly type: 'stream';
      readonly contentType: string;
      readonly pieces: AsyncIterable<string>;
      /** Its handler has a bound of its own on how many there are. */
      readonly isCounted?: true;
      /** Sent when nothing else was for a while. */
      readonly keepAlive?: string;
    };

export const json = (value: unknown) => ({ type: 'json', value }) as const satisfies Reply;
export const empty = { type: 'empty' } as const satisfies Reply;
