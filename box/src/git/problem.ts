/** Why git's part of a box could not be had; the code is for programs. */
export class GitProblem extends Error {
  readonly code:
    | 'git_missing'
    | 'not_a_repository'
    | 'git_writable'
    | 'git_failed'
    | 'git_too_large'
    | 'bundle_refused'
    | 'branch_refused'
    | 'branch_checked_out'
    | 'branch_diverged'
    | 'held_back'
    | 'merge_conflict'
    | 'merge_refused';

  constructor(code: GitProblem['code'], message: string) {
    super(message);
    this.name = 'GitProblem';
    this.code = code;
  }
}
