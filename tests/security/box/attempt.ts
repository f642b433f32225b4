/** What an attempt from a box is. How its outcome is read is the same as for sandboxes. */
import type { Ground } from './ground.ts';

export interface BoxAttempt {
  readonly id: string;
  /** A shell script. `$A` is the attack tool; the working directory is empty and writable. */
  readonly run: (ground: Ground) => string;
  /** A file of the host that the attempt has changed where it holds `markOf(id)`. */
  readonly changes?: (ground: Ground) => string;
  /** A file of the host that must still be there as it was. */
  readonly keeps?: (ground: Ground) => string;
  readonly control: Control;
}

/**
 * Where it must succeed. `host`: as the same user, in a throw-away home. `namespace`: the same as root of a user namespace with its own
 * mounts. `optional` says where it need not.
 */
export type Control =
  | {
      readonly kind: 'host' | 'namespace';
      readonly optional?: string;
      readonly run?: (ground: Ground) => string;
    }
  | { readonly kind: 'none'; readonly because: string };

export const markOf = (id: string): string => `mark-of-${id}.`;

const onHost: Control = { kind: 'host' };

type Script = string | ((ground: Ground) => string);

export function attempt(id: string, script: Script, control: Control = onHost): BoxAttempt {
  return { id, run: typeof script === 'string' ? () => script : script, control };
}

/** Appends to a file, or makes it. */
export function writing(id: string, path: (ground: Ground) => string, control: Control = onHost): BoxAttempt {
  return {
    id,
    run: (ground) =>
      `mkdir -p "$(dirname '${path(ground)}')"; echo '${markOf(id)}' >>'${path(ground)}'; true`,
    changes: path,
    control,
  };
}

export const onlyRoot: Control = {
  kind: 'none',
  because: 'on the host only root may, and a box of a user’s is no root',
};
