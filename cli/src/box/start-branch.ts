/** A branch of its own for what a box is to do: many tasks over one repository at once, and nothing of them on the host. */
import { asGitFailure } from './git-scene.ts';
import { BoxGit, type NewBranch } from './box-git.ts';
import type { BoxDaemon } from './daemon.ts';
import { exitCodes } from '../failure.ts';

export interface BranchStart {
  readonly id: string;
  readonly repository: string;
  /** Where its command starts. */
  readonly workdir: string;
  readonly branch: NewBranch;
}

/** @returns whether the box has come to hold more than the new branch @throws git_failed */
export async function startBranch(
  { client }: BoxDaemon,
  { id, repository, workdir, branch }: BranchStart,
): Promise<() => Promise<boolean>> {
  const git = new BoxGit(client, id, { repository, signal: new AbortController().signal });
  const branches = async (): Promise<string> => JSON.stringify(await git.branches());
  const before = await asGitFailure(async () => {
    await git.startBranch(branch, workdir);
    return await branches();
  }, exitCodes.execFailed);
  return async () => {
    try {
      return (await git.isDirty()) || (await branches()) !== before;
    } catch {
      // It was stopped, or its git is broken: what can't be told is kept.
      return true;
    }
  };
}
