/** One line of what two stacks of layers show differently, as the launcher tells it. */
import type { FieldReader } from '@squash/contract/guest/fields';

/** A path of a walked tree, whose bytes a sandbox chose. */
export const pathBytesMax = 4_096;

/** What a layer shows other than another. */
export interface LayerDifference {
  readonly change: string;
  readonly path: Uint8Array;
  /** A value of `fileTypes`. */
  readonly fileType: number;
  readonly mode: number;
  readonly size: number;
}

export function parseDifference(reader: FieldReader): LayerDifference {
  return {
    change: reader.text('change', 16),
    path: reader.bytes('path', pathBytesMax),
    fileType: reader.integer('fileType'),
    mode: reader.integer('mode', { max: 0o7777 }),
    size: reader.integer('size'),
  };
}
