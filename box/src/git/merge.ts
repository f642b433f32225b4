/**
 * A branch that came out of a box, merged into what the user has checked out.
 *
 * What is merged is written to his directory, where his programs run and obey some names without being told: those are held back as
 * `box apply` does. What his own configuration would run for a file is off, for the files are the box's.
 */
import { heldBack } from '@squash/policy/paths/protected';
import type { HostGit } from './host-git.ts';
import { GitProblem } from './problem.ts';

export interface Held {
  readonly path: string;
  readonly why: string;
}

export interface Merged {
  readonly before: string;
  readonly after: string;
  readonly paths: readonly string[];
}

/** What the user would have to say yes to. @param host over the worktree, with `HEAD` of its own */
export async function heldChanges(host: HostGit, tip: string): Promise<readonly Held[]> {
  const bases = await host.end(['merge-base', '--all', 'HEAD', tip]);
  if (bases.status !== 0)
    throw new GitProblem(
      'merge_refused',
      'what is checked out here and the box’s branch have no commit in common',
    );
  const held = new Map<string, string>();
  for (const base of bases.stdout.toString().trim().split('\n')) {
    for (const change of await changesBetween(host, base, tip)) {
      const why = heldBack(change.path) ?? (await outsideLink(host, change));
      if (why !== undefined) held.set(change.path, why);
    }
  }
  return [...held].map(([path, why]) => ({ path, why }));
}

interface TreeChange {
  readonly path: string;
  readonly mode: string;
  readonly object: string;
}

async function changesBetween(host: HostGit, base: string, tip: string): Promise<readonly TreeChange[]> {
  const words = ['diff-tree', '-r', '-z', '--raw', '--no-abbrev', '--no-renames', '--no-ext-diff', base, tip];
  const fields = (await host.text(words)).split('\0');
  const changes: TreeChange[] = [];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [, mode = '', , object = ''] = (fields[at] ?? '').split(' ');
    changes.push({ path: fields[at + 1] ?? '', mode, object });
  }
  return changes;
}

const linkMode = '120000';
const linkBytesMax = 4_096;

async function outsideLink(host: HostGit, { path, mode, object }: TreeChange): Promise<string | undefined> {
  if (mode !== linkMode) return undefined;
  const size = Number((await host.text(['cat-file', '-s', object])).trim());
  const text = size > linkBytesMax ? undefined : await host.text(['cat-file', 'blob', object]);
  const isInside = text !== undefined && staysInside(path, text);
  return isInside ? undefined : 'a link that leads out of the repository, or may';
}

/** Behind a name that may be a link itself `..` leads anywhere: only those at the beginning are counted. */
function staysInside(path: string, text: string): boolean {
  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  const ups = parts.findIndex((part) => part !== '..');
  const leading = ups === -1 ? parts.length : ups;
  if (text.startsWith('/') || parts.slice(leading).includes('..')) return false;
  return leading < path.split('/').length;
}

/** @throws merge_conflict, with all as it was before; merge_refused */
export async function mergeBranch(
  host: HostGit,
  { ref, message }: { readonly ref: string; readonly message: string | undefined },
): Promise<Merged> {
  const before = (await host.text(['rev-parse', '--verify', 'HEAD^{commit}'])).trim();
  if (await isMerging(host))
    throw new GitProblem('merge_refused', 'a merge is under way here already: end it first');
  const careful = host.with({ settings: await programsOff(host) });
  const words = ['merge', '--quiet', '--no-edit', ...(message === undefined ? [] : ['-m', message]), ref];
  const { status, stdout, stderr } = await careful.end(words);
  if (status !== 0) await undo(careful, ref, `${stderr}${stdout.toString()}`.trim());
  const after = (await host.text(['rev-parse', '--verify', 'HEAD^{commit}'])).trim();
  const changes = await changesBetween(host, before, after);
  return { before, after, paths: changes.map(({ path }) => path) };
}

async function undo(careful: HostGit, ref: string, said: string): Promise<never> {
  if (!(await isMerging(careful))) throw new GitProblem('merge_refused', `git merges nothing: ${said}`);
  const unmerged = (await careful.text(['diff', '--name-only', '--diff-filter=U', '-z'])).split('\0');
  await careful.text(['merge', '--abort']);
  const name = ref.replace(/^refs\/heads\//, '');
  const files = unmerged.filter((path) => path !== '');
  throw new GitProblem(
    'merge_conflict',
    `"${name}" and what is checked out here both changed ${files.join(', ')}: nothing was merged; by hand: git merge ${name}`,
  );
}

async function isMerging(host: HostGit): Promise<boolean> {
  return (await host.end(['rev-parse', '--verify', '--quiet', 'MERGE_HEAD'])).status === 0;
}

const programNames = '^(filter\\..+\\.(clean|smudge|process|required)|merge\\..+\\.driver)$';

/** The user's own filters and merge drivers: what a driver would merge is a conflict. */
async function programsOff(host: HostGit): Promise<readonly string[]> {
  const { status, stdout } = await host.end([
    'config',
    '--null',
    '--name-only',
    '--get-regexp',
    programNames,
  ]);
  if (status !== 0) return [];
  const names = [...new Set(stdout.toString().split('\0'))].filter((name) => name !== '');
  return names.map((name) => {
    if (name.includes('='))
      throw new GitProblem('merge_refused', `"${name}" of git’s configuration can’t be turned off`);
    if (name.endsWith('.driver')) return `${name}=false`;
    return name.endsWith('.required') ? `${name}=false` : `${name}=`;
  });
}

/** Who the user is for git: from his whole configuration, which is only read. */
export async function identityOf(
  host: HostGit,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Readonly<Record<string, string>>> {
  const { HOME: home, XDG_CONFIG_HOME: config, GIT_CONFIG_GLOBAL: file } = env;
  const reader = host.with({
    env: {
      GIT_CONFIG_NOSYSTEM: '0',
      HOME: home,
      XDG_CONFIG_HOME: config,
      GIT_CONFIG_GLOBAL: file,
    },
  });
  const found: [string, string][] = [];
  for (const word of ['NAME', 'EMAIL']) {
    const { status, stdout } = await reader.end(['config', '--get', `user.${word.toLowerCase()}`]);
    const own = status === 0 ? stdout.toString().trim() : undefined;
    for (const role of ['AUTHOR', 'COMMITTER']) {
      const value = env[`GIT_${role}_${word}`] ?? own;
      if (value !== undefined) found.push([`GIT_${role}_${word}`, value]);
    }
  }
  return Object.fromEntries(found);
}
