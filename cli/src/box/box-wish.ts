/** What a call of `box run` asks for: of the daemon, and of the command line itself. */
import type { BoxRules } from '@squash/box/base-rules';
import { checkedOut, gitDirectories } from '@squash/box/worktree';
import type { Resolution } from '@squash/box/policy/resolve';
import type { HostRoot } from '@squash/contract/host-root';
import type { PolicySource } from '@squash/contract/policy';
import { limits } from '@squash/contract/limits';
import type { NewBranch } from './box-git.ts';
import { baseLabel, branchLabel, repositoryLabel } from './record.ts';
import type { SocketWish } from './sockets.ts';

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
  readonly branch: NewBranch | undefined;
  /** What is posted. */
  readonly create: BoxCreate;
  readonly sockets: SocketWish;
  /** Paths. */
  readonly devices: readonly string[];
  /** Ports of the box that this machine reaches while the command line runs: `LOCAL:PORT` or `PORT`. */
  readonly publish: readonly string[];
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
export function readEnd(
  rules: BoxRules,
  { keep, remove, branch }: Pick<BoxWish, 'keep' | 'remove' | 'branch'>,
): BoxEnd {
  const { repository } = rules;
  const places = workPlaces(rules);
  const [place, ...more] = places;
  const isNamed =
    place !== undefined &&
    repository !== undefined &&
    Buffer.byteLength(repository) <= limits.labelValueBytesMax;
  const labels = {
    ...(isNamed && { [repositoryLabel]: repository }),
    ...(isNamed && baseOf(repository)),
    ...(branch !== undefined && { [branchLabel]: branch.name }),
  };
  return {
    ...(Object.keys(labels).length > 0 && { labels }),
    host: {
      when_unused: !remove && (keep || place !== undefined) ? 'stop' : 'destroy',
      // The daemon looks at one place: where there are two it keeps the box.
      ...(place !== undefined && more.length === 0 && !keep && !remove && { work: place }),
    },
  };
}

function baseOf(repository: string): Readonly<Record<string, string>> {
  const git = gitDirectories(repository, process.geteuid?.() ?? -1);
  const out = git && checkedOut(git);
  const text = `${out?.commit} ${out?.ref}`;
  return out === undefined || text.length > limits.labelValueBytesMax ? {} : { [baseLabel]: text };
}

/** Where a box writes what stays in it: files of the repository, and what git keeps of it. */
export function workPlaces({ paths, repository }: BoxRules): readonly string[] {
  if (repository === undefined) return [];
  const git = gitDirectories(repository, process.geteuid?.() ?? -1)?.common;
  return [repository, ...(git === undefined ? [] : [git])].filter((path) => paths[path] === 'cow');
}
