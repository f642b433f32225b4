/** `@squash/build`: images from Dockerfiles, built in sandboxes by a client of the API. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CreateOptions, Image, Squash } from '@squash/sdk';
import { Builder, type BuildEvent } from './builder.ts';
import { Context, textOf, whyNot } from './context.ts';
import { planOf } from './plan.ts';
import { BuildProblem } from './problem.ts';

export { type BuildCode, BuildProblem } from './problem.ts';
/** The ones that `buildImage` knows: a program that carries a copy of the SDK has other classes. */
export { Squash, SquashError } from '@squash/sdk';
export type { BuildEvent } from './builder.ts';

export interface BuildOptions {
  /** A directory. */
  readonly context: string;
  /** Default: `Dockerfile` in the context; `-` is standard input. */
  readonly file?: string | undefined;
  /** What the image is called; none: it is known by the name that is returned. */
  readonly tag?: string | undefined;
  readonly args?: Readonly<Record<string, string>>;
  /** By id. */
  readonly secrets?: Readonly<Record<string, Buffer>>;
  /** The stage that is built; default: the last one. */
  readonly target?: string | undefined;
  /** Every step is done, whatever was done before. */
  readonly noCache?: boolean;
  /** Limits, policy and owner of the sandboxes that steps run in. */
  readonly sandbox?: Omit<CreateOptions, 'image' | 'mounts' | 'signal' | 'from'>;
  readonly onEvent?: (event: BuildEvent) => void;
  readonly signal?: AbortSignal;
}

/**
 * The image that a Dockerfile says. When `signal` is aborted the step ends and its sandbox goes.
 * @throws BuildProblem with the line, SquashError
 */
export async function buildImage(squash: Squash, options: BuildOptions): Promise<Image> {
  const { context, file, tag, args = {}, secrets = {}, target } = options;
  const dockerfile = file ?? join(context, 'Dockerfile');
  const from = new Context(context, dockerfile);
  // One that is named may be a pipe; one that lies in a directory is what somebody has put there.
  const text = (file === undefined ? textOf(dockerfile) : undefined) ?? readDockerfile(dockerfile);
  const plan = planOf(text, { args, target });
  const { signal = new AbortController().signal, onEvent = () => undefined } = options;
  const builder = new Builder({
    squash,
    plan,
    context: from,
    args,
    secrets,
    usesCache: options.noCache !== true,
    sandbox: options.sandbox ?? {},
    tell: onEvent,
    signal,
  });
  return await builder.run(tag);
}

function readDockerfile(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (cause) {
    throw new BuildProblem('context_invalid', `can't read the Dockerfile "${file}": ${whyNot(cause)}`, {
      cause,
    });
  }
}

/** Removes what builds keep of their steps, but for the newest. Their names. */
export async function pruneSteps(squash: Squash, keep: number): Promise<readonly string[]> {
  const steps: Image[] = [];
  for await (const image of squash.images.list({ all: true }))
    if (image.name.startsWith('squash.build/')) steps.push(image);
  steps.sort((one, other) => (one.pulled_at < other.pulled_at ? 1 : -1));
  const old = steps.slice(keep);
  for (const { name } of old) await squash.images.remove(name);
  return old.map(({ name }) => name);
}
