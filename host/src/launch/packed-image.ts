/** What the launcher says of an image that it has packed. */
import type { FieldReader } from '@squash/contract/guest/fields';

export interface PackedImage {
  readonly bytes: number;
  readonly pauseUs: number;
  /** Only what differs from the upper that the known index was written of. */
  readonly isChange: boolean;
  /** One of this upper was written. */
  readonly hasIndex: boolean;
}

export function parsePacked(ok: FieldReader): PackedImage {
  return {
    bytes: ok.integer('bytes'),
    pauseUs: ok.integer('pauseUs'),
    isChange: ok.optionalInteger('isChange') === 1,
    hasIndex: ok.optionalInteger('hasIndex') === 1,
  };
}
