/**
 * What a handler answers: plain values, so that handlers know nothing of HTTP libraries and tests compare them.
 */
import type { FileHandle } from 'node:fs/promises';

export type Reply =
  /** JSON with the operation's first status. */
  | { readonly type: 'json'; readonly value: unknown }
  /** The operation's first status and no body. */
  | { readonly type: 'empty' }
  | { readonly type: 'text'; readonly text: string; readonly contentType: string }
  /** A file's bytes. Whoever sends it closes it, also where nobody takes it, and calls `onEnd` then. */
  | {
      readonly type: 'file';
      readonly contentType: string;
      readonly file: FileHandle;
      readonly bytes: number;
      readonly onEnd: () => void;
    }
  /** Sent piece by piece as the client reads; the iteration is ended when the client goes away. */
  | {
      readonly type: 'stream';
      readonly contentType: string;
      readonly pieces: AsyncIterable<string>;
      /** Sent when nothing else was for a while. */
      readonly keepAlive?: string;
    };

export const json = (value: unknown): Reply => ({ type: 'json', value });
export const empty: Reply = { type: 'empty' };
