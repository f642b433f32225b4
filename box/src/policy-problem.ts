/** What is wrong with a policy file, as sentences that name the file. A run with such a file does not begin. */

/** More are not read. */
const problemsMax = 20;

export class PolicyProblem extends Error {
  /** One sentence each, `FILE:LINE: …`. */
  readonly problems: readonly string[];

  constructor(all: readonly string[]) {
    // A repository's file of a thousand rules would push everything else off the terminal.
    const problems =
      all.length <= problemsMax
        ? all
        : [...all.slice(0, problemsMax), `and ${all.length - problemsMax} more of that kind`];
    super(problems.join('\n'));
    this.name = 'PolicyProblem';
    this.problems = problems;
  }
}

/** By name: the built command line has a class of its own, and loads what throws from its sources. */
export function isPolicyProblem(failure: unknown): failure is PolicyProblem {
  return failure instanceof Error && failure.name === 'PolicyProblem';
}

/** The place in a file, as editors and terminals take it. */
export function placeIn(file: string, line: number | undefined): string {
  return line === undefined ? file : `${file}:${line}`;
}

/** What the system said, such as `ENOENT`. */
export function errnoOf(cause: unknown): string | undefined {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined;
}

/** Of a file that can't be read: why, in words where it is one of the usual reasons. */
export function whyUnread(cause: unknown): string {
  const code = errnoOf(cause);
  const words: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file',
    EACCES: 'its mode does not let you',
    EISDIR: 'it is a directory',
  };
  return code === undefined ? String(cause) : (words[code] ?? code);
}
