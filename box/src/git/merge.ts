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
  const look = async (from: string, to: string): Promise<void> => {
    for (const change of await changesBetween(host, from, to)) {
      const why = heldBack(change.path) ?? (await outsideLink(host, change));
      if (why !== undefined) held.set(change.path, why);
    }
  };
  for (const base of bases.stdout.toString().trim().split('\n')) await look(base, tip);
  const tree = await mergedTree(host, tip);
  if (tree !== undefined) await look('HEAD', tree);
  return [...held].map(([path, why]) => ({ path, why }));
}

/**
 * What a merge would write, with conflicts as well: git follows renames, so what a box changed under one name comes under the name that
 * the user has given it meanwhile. Undefined: a git before 2.38 can't tell, and then a merge follows none.
 */
async function mergedTree(host: HostGit, tip: string): Promise<string | undefined> {
  const careful = host.with({ settings: await programsOff(host) });
  const { status, stdout } = await careful.end([
    'merge-tree',
    '--write-tree',
    '--no-messages',
    '-z',
    'HEAD',
    tip,
  ]);
  const tree = stdout.toString().split('\0')[0];
  return (status === 0 || status === 1) && tree !== undefined && /^[0-9a-f]{40,64}$/.test(tree)
    ? tree
    : undefined;
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
  const way = (await mergedTree(host, ref)) === undefined ? withoutRenames : asLookedAt;
  const careful = host.with({ settings: [...(await programsOff(host)), ...way] });
  const words = ['merge', '--quiet', '--no-edit', ...(message === undefined ? [] : ['-m', message]), ref];
  const { status, stdout, stderr } = await careful.end(words);
  if (status !== 0) await undo(careful, ref, `${stderr}${stdout.toString()}`.trim());
  const after = (await host.text(['rev-parse', '--verify', 'HEAD^{commit}'])).trim();
  const changes = await changesBetween(host, before, after);
  return { before, after, paths: changes.map(({ path }) => path) };
}

async function undo(careful: HostGit, ref: string, said: string): Promise<never> {
  // Another merge that has begun meanwhile, of the user or of another box, is not ours to end.
  if (!(await isMerging(careful, ref))) throw new GitProblem('merge_refused', `git merges nothing: ${said}`);
  // Not `git diff`: it looks into submodules, and git runs there what their own configuration says.
  const unmerged = (await careful.text(['ls-files', '--unmerged', '-z'])).split('\0');
  await careful.text(['merge', '--abort']);
  const name = ref.replace(/^refs\/heads\//, '');
  const paths = unmerged.map((entry) => entry.slice(entry.indexOf('\t') + 1));
  const files = [...new Set(paths)].filter((path) => path !== '');
  throw new GitProblem(
    'merge_conflict',
    `"${name}" and what is checked out here both changed ${files.join(', ')}: nothing was merged; by hand: git merge ${name}`,
  );
}

/** @param ref of what; without it of anything */
async function isMerging(host: HostGit, ref?: string): Promise<boolean> {
  const { status, stdout } = await host.end(['rev-parse', '--verify', '--quiet', 'MERGE_HEAD']);
  if (status !== 0 || ref === undefined) return status === 0;
  return stdout.toString().trim() === (await host.text(['rev-parse', '--verify', `${ref}^{commit}`])).trim();
}

const programNames = '^(filter\\..+\\.(clean|smudge|process|required)|merge\\..+\\.driver)$';

const asLookedAt = ['pull.twohead=ort'];
const withoutRenames = ['pull.twohead=recursive', 'merge.renames=false', 'merge.directoryRenames=false'];

/** Of a branch's own options for a merge: the others sign, look at signatures, or merge in a way that was not looked at. */
const harmlessOptions = /^(?:--(?:no-)?(?:ff|ff-only|log|stat|summary)(?:\s+|$))*$/;

/** The user's own filters and merge drivers: what a driver would merge is a conflict. And what options of a branch would do. */
async function programsOff(host: HostGit): Promise<readonly string[]> {
  const found = async (pattern: string): Promise<ReadonlyMap<string, string>> => {
    const { status, stdout } = await host.end(['config', '--null', '--get-regexp', pattern]);
    const entries = status === 0 ? stdout.toString().split('\0') : [];
    return new Map(
      entries.filter((entry) => entry !== '').map((entry) => [entry.split('\n', 1)[0] ?? '', valueIn(entry)]),
    );
  };
  const programs = [...(await found(programNames)).keys()];
  const options = [...(await found('^branch\\..+\\.mergeoptions$'))].flatMap(([name, value]) =>
    harmlessOptions.test(value) ? [] : [name],
  );
  return [...programs, ...options].map((name) => {
    if (name.includes('='))
      throw new GitProblem('merge_refused', `"${name}" of git’s configuration can’t be turned off`);
    if (name.endsWith('.driver')) return `${name}=false`;
    return name.endsWith('.required') ? `${name}=false` : `${name}=`;
  });
}

function valueIn(entry: string): string {
  const at = entry.indexOf('\n');
  return at === -1 ? '' : entry.slice(at + 1);
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
