/** A box's git and this machine's, for as long as something goes from one to the other. */
import { join } from 'node:path';
import { isBranchName } from '@squash/box/git/branch-names';
import { checkUnwritten, gitLimits, gitProgram } from '@squash/box/git/host-git';
import { checkPlain } from '@squash/box/git/plain-names';
import { GitProblem } from '@squash/box/git/problem';
import { type BoxBranch, type Fetched, type HostRepository, Quarantine } from '@squash/box/git/repository';
import { levelAt } from '@squash/box/levels';
import { findRepository } from '@squash/box/repository';
import { gitDirectories } from '@squash/box/worktree';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { durationSeconds } from '../durations.ts';
import { BoxGit, type BoxGitBounds } from './box-git.ts';
import { findBox, listBoxes, stopBox, wakeBox } from './boxes.ts';
import { type BoxDaemon, ownUser } from './daemon.ts';
import { type BoxRecord, repositoryOf } from './record.ts';
import { UntilSignal } from './until-signal.ts';

export interface GitScene {
  readonly daemon: BoxDaemon;
  readonly box: BoxRecord;
  readonly repository: HostRepository;
  readonly quarantine: Quarantine;
  readonly inBox: BoxGit;
  /** Commits of this repository, of which the box need not hand out what they stand on. */
  readonly tips: readonly string[];
  readonly signal: AbortSignal;
}

/** A box that was stopped runs for as long as the work takes. */
export async function withBoxGit<T>(
  call: Pick<Call, 'flags' | 'client'>,
  word: string,
  work: (scene: GitScene) => Promise<T>,
): Promise<T> {
  const bounds = readBounds(call.flags);
  const { daemon, box } = await findBox(call, word);
  return await asGitFailure(async () => {
    const repository = hostRepository(box);
    checkPlain(repository.directories);
    checkUnwritten(repository.directories, await listBoxes(daemon));
    using until = new UntilSignal();
    const { signal } = until;
    using quarantine = new Quarantine(repository, join(daemon.dataDir, 'tmp'), signal);
    const tips = await quarantine.tips();
    const inBox = new BoxGit(daemon.client, box.id, { repository: repository.path, signal, bounds });
    await wakeBox(daemon, box);
    try {
      return await work({ daemon, box, repository, quarantine, inBox, tips, signal });
    } finally {
      if (box.state === 'stopped') await stopIfThere(daemon, box.id);
    }
  });
}

function readBounds(flags: Call['flags']): BoxGitBounds {
  const sizeMib = flags.isDeclared('size') ? flags.integer('size', { min: 1, max: 65_536 }) : undefined;
  const timeS = flags.isDeclared('time')
    ? durationSeconds(flags, 'time', { min: 1, max: 86_400 })
    : undefined;
  return {
    bundleBytesMax: sizeMib === undefined ? gitLimits.bundleBytesMax : sizeMib * 1_048_576,
    timeMsMax: timeS === undefined || timeS === 0 ? gitLimits.timeMsMax : timeS * 1_000,
  };
}

async function stopIfThere(daemon: BoxDaemon, id: string): Promise<void> {
  try {
    await stopBox(daemon, id);
  } catch (failure) {
    if (!(failure instanceof CliFailure) || failure.code !== 'sandbox_not_found') throw failure;
  }
}

export async function asGitFailure<T>(
  work: () => Promise<T>,
  exitCode: number = exitCodes.failed,
): Promise<T> {
  try {
    return await work();
  } catch (failure) {
    if (!(failure instanceof GitProblem)) throw failure;
    throw new CliFailure(failure.code, failure.message, exitCode);
  }
}

/** Of the box, else where we stand. @throws GitProblem */
function hostRepository(box: BoxRecord): HostRepository {
  const { home, uid } = ownUser();
  const path = repositoryOf(box) ?? findRepository({ cwd: process.cwd(), home, uid });
  const level = levelAt(new Map(Object.entries(box.host_paths ?? {})), path);
  if (level !== 'cow' && level !== 'rw')
    throw new GitProblem('not_a_repository', `box ${box.id} writes nothing to "${path}"`);
  const directories = gitDirectories(path, uid);
  if (directories === undefined)
    throw new GitProblem(
      'not_a_repository',
      `"${path}" is no git repository; to bring files: squash box apply`,
    );
  return { path, directories, program: gitProgram(process.env['PATH'] ?? '', path) };
}

export interface FetchWish {
  /** Undefined: all that have commits which are not here. */
  readonly names: readonly string[] | undefined;
  readonly as?: string | undefined;
  readonly force?: boolean;
}

/** Branches of the box become branches here. Whatever they are called, they are ours alone under their new names. */
export async function fetchBranches(
  scene: GitScene,
  { names, as, force = false }: FetchWish,
): Promise<{ readonly fetched: readonly Fetched[]; readonly leftOut: readonly string[] }> {
  const { quarantine, inBox, tips, box } = scene;
  const leftOut: string[] = [];
  const all = await inBox.branches(names === undefined ? leftOut : []);
  const wanted: (BoxBranch & { readonly isHere: boolean })[] = [];
  for (const name of names ?? all.map((each) => each.name)) {
    const branch = all.find((each) => each.name === name);
    if (branch === undefined)
      throw new GitProblem('branch_refused', `box ${box.id} has no branch "${name}" that can be fetched`);
    const isHere = await quarantine.isHere(branch.tip);
    if (names !== undefined || !isHere) wanted.push({ ...branch, isHere });
  }
  if (wanted.length === 0) return { fetched: [], leftOut };
  if (as !== undefined && wanted.length > 1)
    throw usageFailure(`--as is for one branch, and there are ${wanted.length}: name one`);
  const targets = await targetsOf(scene, wanted, as);
  const coming = wanted.filter(({ isHere }) => !isHere);
  if (coming.length > 0) await inBox.writeBundle(quarantine.bundle, { branches: coming, tips });
  return { fetched: await quarantine.take(targets, { tips, force }), leftOut };
}

async function targetsOf(
  { quarantine, box }: GitScene,
  wanted: readonly (BoxBranch & { readonly isHere: boolean })[],
  as: string | undefined,
) {
  const checkedOut = await quarantine.checkedOut();
  const targets = [];
  const seen = new Set<string>();
  for (const branch of wanted) {
    const name = as ?? branchHere(box, branch.name);
    const target = `refs/heads/${name}`;
    if (!isBranchName(name) || seen.has(target))
      throw new GitProblem('branch_refused', `"${name}" can be no branch here: give another name with --as`);
    if (checkedOut.has(target))
      throw new GitProblem(
        'branch_checked_out',
        `"${name}" is checked out here: give another name with --as`,
      );
    seen.add(target);
    targets.push({ ...branch, target, before: await quarantine.valueOf(target) });
  }
  return targets;
}

/** `box/<box>/<branch>`: no name of the box's is one of the user's own. */
export function branchHere({ id, name }: Pick<BoxRecord, 'id' | 'name'>, branch: string): string {
  const own = name !== null && isBranchName(name) ? name : id;
  return `box/${own}/${branch.replace(/^box\//, '')}`;
}
