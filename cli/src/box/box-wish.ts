/** What a call of `box run` asks for: of the daemon, and of the command line itself. */
import type { BoxRules } from '@squash/box/base-rules';
import type { Resolution } from '@squash/box/policy/resolve';
import type { HostRoot } from '@squash/contract/host-root';
import type { PolicySource } from '@squash/contract/policy';
import { limits } from '@squash/contract/limits';
import { repositoryLabel } from './record.ts';

export interface BoxWish {
  readonly rules: BoxRules;
  readonly argv: readonly string[];
  /** Of this command: what was named, and the terminal's type. */
  readonly env: Readonly<Record<string, string>>;
  readonly tty: boolean;
  readonly timeoutMs: number | undefined;
  readonly keep: boolean;
  readonly remove: boolean;
  readonly detach: boolean;
  /** What is posted. */
  readonly create: BoxCreate;
  /** Where files of policies were read. */
  readonly resolution?: Resolution;
}

interface BoxEnd {
  readonly labels?: Readonly<Record<string, string>>;
  readonly host: Pick<HostRoot, 'when_unused'> & Partial<Pick<HostRoot, 'work'>>;
}

export interface BoxCreate {
  readonly from: { readonly host: Pick<HostRoot, 'paths' | 'user'> & Partial<HostRoot> };
  readonly env: Readonly<Record<string, string>>;
  /** None of the installation's: a box is asked for by whoever runs it, not by its operator. */
  readonly secrets: readonly string[];
  readonly policy?: Pick<PolicySource, 'allow'> & Partial<PolicySource>;
  readonly [field: string]: unknown;
}

/**
 * What the daemon does when nothing runs any longer that our command line, or nobody, waits for: work stays, where there can be any.
 * A command line that is killed ends its connection, and one that stands still keeps it.
 */
export function readEnd(rules: BoxRules, { keep, remove }: Pick<BoxWish, 'keep' | 'remove'>): BoxEnd {
  const { repository } = rules;
  const isWork = repository !== undefined && rules.paths[repository] === 'cow';
  const isNamed = isWork && Buffer.byteLength(repository) <= limits.labelValueBytesMax;
  return {
    ...(isNamed && { labels: { [repositoryLabel]: repository } }),
    host: {
      when_unused: !remove && (keep || isWork) ? 'stop' : 'destroy',
      ...(isWork && !keep && !remove && { work: repository }),
    },
  };
}
