/** What is wrong with a Dockerfile, its context or a step, by file and line. */
import { SquashError } from '@squash/sdk';

export class BuildProblem extends SquashError {
  /** Of the Dockerfile, from 1; undefined: of none. */
  readonly line: number | undefined;

  constructor(
    code: string,
    message: string,
    options: { readonly line?: number; readonly cause?: unknown } = {},
  ) {
    super({ code, message, cause: options.cause });
    this.line = options.line;
  }
}

/** Its own codes; a step that the daemon refuses has the daemon’s. `dockerfile_invalid`: not what the language has; `dockerfile_unsupported`: what Squash does not do; `build_failed`: a step. */
export type BuildCode = 'dockerfile_invalid' | 'dockerfile_unsupported' | 'context_invalid' | 'build_failed';
