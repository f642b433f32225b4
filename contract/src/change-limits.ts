/** What is known of changes apart from their schemas: the command line starts without the schema library. */
export const changeLimits = {
  /** Names in one request. */
  pathsMax: 256,
  /** Of a name below its place; a longer one stays in the box. */
  pathBytesMax: 500,
  /** Of a file that is shown: nobody reads longer ones. As in native/launch/box_file.c. */
  fileBytesMax: 1_000_000,
} as const;

/** Git writes its index when somebody looks at the status. */
const noWork = /^\/\.git(?:\/index)?$/;
const noWorkOfGit = /^\/(?:index|worktrees(?:\/[^/]+(?:\/index)?)?)$/;

/** Whether somebody may want what was written there. @param path below its place @param isGit the place is git's own directory */
export function isWork(path: string, isGit: boolean): boolean {
  return !(isGit ? noWorkOfGit : noWork).test(path);
}
