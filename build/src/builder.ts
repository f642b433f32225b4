/**
 * A build: one sandbox for each step that does something, made from the image of the step before, and an image of it behind that. Each
 * image is called by a digest of all that it came from, so a step that was done before is found again.
 */
import {
  type CreateOptions,
  type Image,
  NotFound,
  outputBytes,
  type Sandbox,
  type Squash,
  SquashError,
} from '@squash/sdk';
import type { Context } from './context.ts';
import {
  copyFromContext,
  copyFromSandbox,
  type Copying,
  copyingOf,
  findInContext,
  type FromContext,
} from './copy.ts';
import { type Instruction, jsonWords } from './dockerfile.ts';
import { haveVolume, mountsOf, placeSecrets, prepareCache } from './mounts.ts';
import { neededStages, type Plan, reading, type Stage, stageNamed } from './plan.ts';
import { BuildProblem } from './problem.ts';
import { scratchImage } from './scratch.ts';
import { StageState } from './stage.ts';
import { readWords } from './words.ts';

export type BuildEvent =
  | {
      readonly type: 'step';
      readonly step: number;
      readonly steps: number;
      readonly line: number;
      readonly text: string;
    }
  | { readonly type: 'output'; readonly stream: 'stdout' | 'stderr'; readonly bytes: Uint8Array }
  | { readonly type: 'done'; readonly step: number; readonly cached: boolean; readonly ms: number }
  | { readonly type: 'note'; readonly line: number | undefined; readonly text: string };

export interface BuildWork {
  readonly squash: Squash;
  readonly plan: Plan;
  readonly context: Context;
  readonly args: Readonly<Record<string, string>>;
  readonly secrets: Readonly<Record<string, Buffer>>;
  readonly usesCache: boolean;
  /** Limits and policy of the sandboxes. */
  readonly sandbox: Omit<CreateOptions, 'image' | 'mounts' | 'signal'>;
  readonly tell: (event: BuildEvent) => void;
  readonly signal: AbortSignal;
}

const prefix = 'squash.build/';
/** A client that is killed leaves its sandbox for so long. */
const lifetimeS = 86_400;
const unheard = new Set(['EXPOSE', 'HEALTHCHECK', 'MAINTAINER', 'STOPSIGNAL', 'VOLUME']);

/** What `COPY --from` reads: an image, and what a stage has said behind it. */
interface CopySource {
  readonly key: string;
  readonly image: Image;
  readonly directories: readonly string[];
}

export class Builder {
  readonly #work: BuildWork;
  readonly #done = new Map<number, StageState>();
  /** What other stages copy from, by the name of its image. */
  readonly #sources = new Map<string, Sandbox>();
  #step = 0;
  #steps = 0;
  /** Whether sandboxes have one id alone, which all files belong to and all commands run as; looked up in the first one. */
  #oneId: Promise<boolean> | undefined;

  constructor(work: BuildWork) {
    this.#work = work;
  }

  /** The image, under this name too where one is given. @throws BuildProblem, SquashError */
  async run(name: string | undefined): Promise<Image> {
    const { plan } = this.#work;
    try {
      const stages = neededStages(plan, (stage) => this.#copiesFrom(stage));
      this.#check(stages);
      this.#steps = stages.reduce((sum, { instructions }) => sum + 1 + instructions.filter(isStep).length, 0);
      for (const stage of stages) this.#done.set(stage.index, await this.#stage(stage));
      const state = this.#done.get(plan.target.index);
      if (state === undefined) throw new BuildProblem('build_failed', 'the stage was not built');
      return await this.#finish(state, name);
    } finally {
      // Each of them, whatever becomes of the others.
      await Promise.all([...this.#sources.values()].map(removed));
    }
  }

  /** What needs no step to be known. */
  #check(stages: readonly Stage[]): void {
    const { plan, context, args, tell } = this.#work;
    for (const { keyword, flags, text, documents, line } of stages.flatMap(
      ({ instructions }) => instructions,
    )) {
      const isCopy = keyword === 'COPY' || keyword === 'ADD';
      if (!isCopy || text.includes('$') || documents.length > 0 || flags.some(({ name }) => name === 'from'))
        continue;
      const words =
        jsonWords(text) ?? reading(line, () => readWords(text, { escape: plan.escape, valueOf: () => '' }));
      for (const word of words.slice(0, -1)) context.check(word, line);
    }
    for (const name of Object.keys(args))
      if (!plan.declared.has(name))
        tell({ type: 'note', line: undefined, text: `no ARG is called "${name}"` });
  }

  #copiesFrom(stage: Stage): readonly number[] {
    return stage.instructions.flatMap(({ keyword, flags }) => {
      const from = keyword === 'COPY' ? flags.findLast(({ name }) => name === 'from')?.value : undefined;
      const named = from === undefined ? undefined : stageNamed(this.#work.plan.stages, stage.index, from);
      return named === undefined ? [] : [named.index];
    });
  }

  async #stage(stage: Stage): Promise<StageState> {
    const { plan, args, tell } = this.#work;
    const state = await this.#told({ line: stage.line, text: `FROM ${describe(plan, stage)}` }, () =>
      this.#begin(stage),
    );
    for (const each of stage.instructions) {
      if (unheard.has(each.keyword))
        tell({
          type: 'note',
          line: each.line,
          text: `${each.keyword} says nothing to a sandbox, and is left out`,
        });
      else if (!state.take(each, { escape: plan.escape, globals: plan.globals, args }))
        await this.#do(each, state, stage);
    }
    return state;
  }

  async #begin({ from, line }: Stage): Promise<StageState> {
    if (typeof from === 'number') {
      const below = this.#done.get(from);
      if (below === undefined)
        throw new BuildProblem('build_failed', 'the stage below was not built', { line });
      return below.copy();
    }
    const image =
      from === 'scratch'
        ? await scratchImage(this.#work.squash, this.#work.signal)
        : await this.#have(from, line);
    return new StageState(`${image.id} ${image.modules.join(' ')}`, image);
  }

  async #have(name: string, line: number, why = ''): Promise<Image> {
    const { squash, signal } = this.#work;
    try {
      return await squash.images.pull(name, { signal });
    } catch (cause) {
      if (signal.aborted || !(cause instanceof Error)) throw cause;
      throw new BuildProblem('build_failed', `can't have the image "${name}": ${why}${cause.message}`, {
        line,
        cause,
      });
    }
  }

  async #do(instruction: Instruction, state: StageState, stage: Stage): Promise<void> {
    const text = `${instruction.keyword} ${instruction.flags.map(({ name, value }) => `--${name}${value === undefined ? '' : `=${value}`} `).join('')}${instruction.text}`;
    const [document] = instruction.documents;
    const shown = document === undefined ? text : `${text}: ${document.text.split('\n')[0] ?? ''}`;
    await this.#told({ line: instruction.line, text: shown }, (cached) =>
      instruction.keyword === 'RUN'
        ? this.#runCommand(instruction, state, cached)
        : this.#copy(instruction, { state, stage, cached }),
    );
  }

  async #told<T>(
    { line, text }: { readonly line: number; readonly text: string },
    body: (cached: () => void) => Promise<T>,
  ): Promise<T> {
    const { tell, signal } = this.#work;
    signal.throwIfAborted();
    const step = (this.#step += 1);
    const began = performance.now();
    let isCached = false;
    tell({ type: 'step', step, steps: this.#steps, line, text });
    const result = await body(() => (isCached = true)).catch((error: unknown) => {
      if (signal.aborted || !(error instanceof SquashError) || error instanceof BuildProblem) throw error;
      throw new BuildProblem(error.code, error.message, { line, cause: error });
    });
    tell({ type: 'done', step, cached: isCached, ms: Math.round(performance.now() - began) });
    return result;
  }

  /** Does a step, or finds it done. */
  async #once(
    state: StageState,
    {
      step,
      cached,
      mounts,
    }: { readonly step: unknown; readonly cached: () => void; readonly mounts?: CreateOptions['mounts'] },
    body: (sandbox: Sandbox) => Promise<void>,
  ): Promise<void> {
    const { usesCache, squash, signal } = this.#work;
    const key = state.keyBehind(step);
    const name = `${prefix}${key}`;
    const known = usesCache ? await found(squash, name, signal) : undefined;
    if (known !== undefined) {
      cached();
      state.became(key, known);
      return;
    }
    const image = await this.#inSandbox(
      state.image,
      mounts === undefined ? {} : { mounts },
      async (sandbox) => {
        await makeDirectories(sandbox, state.directories, signal);
        await body(sandbox);
        return await squash.images.commit({ sandbox: sandbox.id, name, changes: state.changes, signal });
      },
    );
    state.became(key, image);
  }

  async #inSandbox<T>(
    image: Image,
    more: Pick<CreateOptions, 'mounts'>,
    body: (sandbox: Sandbox) => Promise<T>,
  ): Promise<T> {
    const sandbox = await this.#open(image, more);
    try {
      return await body(sandbox);
    } finally {
      await removed(sandbox);
    }
  }

  async #open(image: Image, { mounts }: Pick<CreateOptions, 'mounts'> = {}): Promise<Sandbox> {
    const { squash, sandbox, signal } = this.#work;
    signal.throwIfAborted();
    // Not broken off: one that is made and not known could not be removed.
    const labels = { ...sandbox.labels, build: 'step' };
    const made = await squash.sandboxes.create({
      lifetime_s: lifetimeS,
      ...sandbox,
      labels,
      image: image.name,
      ...(mounts !== undefined && { mounts }),
    });
    // Its name may be another's by now, and what is built would be known by the one that it was.
    const { layers, image: own } = made.info;
    if (own?.id === image.id && layers.join() === image.modules.join()) return made;
    await removed(made);
    throw new BuildProblem(
      'build_failed',
      `the image "${image.name}" was replaced during the build: build again`,
    );
  }

  async #hasOneId(sandbox: Sandbox): Promise<boolean> {
    this.#oneId ??= sandbox.files
      .readText('/proc/self/uid_map', { signal: this.#work.signal })
      .then((map) => map.trim().split(/\s+/)[2] === '1');
    return await this.#oneId;
  }

  async #runCommand(instruction: Instruction, state: StageState, cached: () => void): Promise<void> {
    const { plan, squash, signal, secrets } = this.#work;
    const { line } = instruction;
    const mounts = mountsOf(instruction, state, plan.escape);
    const args = state.variables;
    const step = { run: wordsOf(instruction, state), args, mounts };
    for (const each of mounts.caches) await haveVolume(squash, each, signal);
    const attached = mounts.caches.map(({ volume, path }) => ({ volume, path, mode: 'rw' as const }));
    await this.#once(
      state,
      { step, cached, mounts: attached.length === 0 ? undefined : attached },
      async (sandbox) => {
        for (const each of mounts.caches)
          await prepareCache(
            sandbox,
            (await this.#hasOneId(sandbox)) ? { ...each, uid: undefined, gid: undefined } : each,
            signal,
          );
        const placed = await placeSecrets(
          sandbox,
          {
            mounts: (await this.#hasOneId(sandbox))
              ? mounts.secrets.map((each) => ({ ...each, uid: 0, gid: 0 }))
              : mounts.secrets,
            line,
            values: secrets,
          },
          signal,
        );
        const exitCode = await this.#exec(sandbox, {
          argv: step.run,
          state,
          env: { ...args, ...state.changes.env, ...placed.env },
        });
        if (exitCode !== 0)
          throw new BuildProblem('build_failed', `RUN ended with ${exitCode}: ${instruction.text}`, { line });
        await placed.takeAway();
      },
    );
  }

  async #exec(
    sandbox: Sandbox,
    {
      argv,
      state,
      env,
    }: {
      readonly argv: readonly string[];
      readonly state: StageState;
      readonly env: Readonly<Record<string, string>>;
    },
  ): Promise<number> {
    const { tell, signal } = this.#work;
    const user = (await this.#hasOneId(sandbox)) ? undefined : state.changes.user;
    const process = await sandbox.start(argv, {
      env,
      cwd: state.workdir,
      ...(user !== undefined && { user: userOf(user) }),
      signal,
    });
    for await (const event of process.output({ signal }))
      if (event.type === 'output')
        tell({
          type: 'output',
          stream: event.stream === 'stderr' ? 'stderr' : 'stdout',
          bytes: outputBytes(event),
        });
    const { exit_code: exitCode, reason } = await process.refresh({ signal });
    if (exitCode !== null) return exitCode;
    throw new BuildProblem('build_failed', `RUN ended: ${reason ?? 'nobody knows why'}`);
  }

  async #copy(
    instruction: Instruction,
    {
      state,
      stage,
      cached,
    }: { readonly state: StageState; readonly stage: Stage; readonly cached: () => void },
  ): Promise<void> {
    const { plan, context, signal } = this.#work;
    const copying = copyingOf(instruction, state, plan.escape);
    const { documents: _, ...said } = copying;
    const target = async (sandbox: Sandbox) => ({
      sandbox,
      workdir: state.workdir,
      hasOneId: await this.#hasOneId(sandbox),
      signal,
    });
    if (copying.from === undefined) {
      const fromContext: FromContext = await findInContext(copying, context);
      const step = { copy: { ...said, line: 0 }, digest: fromContext.digest };
      await this.#once(state, { step, cached }, async (sandbox) =>
        copyFromContext(copying, fromContext, await target(sandbox)),
      );
      return;
    }
    const source = await this.#sourceOf(copying, copying.from, stage);
    const step = { copy: { ...said, line: 0, from: '' }, of: [source.key, source.directories] };
    await this.#once(state, { step, cached }, async (sandbox) =>
      copyFromSandbox(copying, await this.#source(source), await target(sandbox)),
    );
  }

  async #sourceOf({ line }: Copying, from: string, stage: Stage): Promise<CopySource> {
    const { stages } = this.#work.plan;
    const named = stageNamed(stages, stage.index, from);
    const built = named === undefined ? undefined : this.#done.get(named.index);
    if (built !== undefined) return built;
    if (stageNamed(stages, stages.length, from) !== undefined)
      throw new BuildProblem('dockerfile_invalid', `stage "${from}" does not stand above this one`, { line });
    const image = await this.#have(from, line, 'no stage above is called so, and ');
    return { key: `${image.id} ${image.modules.join(' ')}`, image, directories: [] };
  }

  async #source({ image, directories }: CopySource): Promise<Sandbox> {
    const name = JSON.stringify([image.name, image.id, directories]);
    const open = this.#sources.get(name);
    if (open !== undefined) return open;
    const sandbox = await this.#open(image);
    this.#sources.set(name, sandbox);
    await makeDirectories(sandbox, directories, this.#work.signal);
    return sandbox;
  }

  /** What was only said gets an image, too, and so does the name. */
  async #finish(state: StageState, name: string | undefined): Promise<Image> {
    const { squash, signal } = this.#work;
    if (state.isChanged)
      await this.#once(state, { step: 'end', cached: () => undefined }, () => Promise.resolve());
    if (name === undefined) return state.image;
    const before = await found(squash, name, signal);
    if (before !== undefined && isSame(before, state.image)) return before;
    return await this.#inSandbox(state.image, {}, (sandbox) =>
      squash.images.commit({ sandbox: sandbox.id, name, signal }),
    );
  }
}

function isStep({ keyword }: Instruction): boolean {
  return keyword === 'RUN' || keyword === 'COPY' || keyword === 'ADD';
}

function describe({ stages }: Plan, { from, name }: Stage): string {
  const below = typeof from === 'number' ? (stages[from]?.name ?? `stage ${from}`) : from;
  return name === undefined ? below : `${below} AS ${name}`;
}

/** A here-document alone is the script, for the interpreter that it names or the shell. */
function wordsOf({ text, documents, whole }: Instruction, { shell }: StageState): readonly string[] {
  const [first] = documents;
  const isScript = first !== undefined && documents.length === 1 && /^<<-?\s*["']?\w+["']?$/.test(text);
  if (!isScript) return jsonWords(text) ?? [...shell, documents.length === 0 ? text : whole];
  const interpreter = /^#!\s*(\S.*)/.exec(first.text)?.[1]?.trim().split(/\s+/);
  return interpreter === undefined ? [...shell, first.text] : [...interpreter, '-c', first.text];
}

function userOf(user: string): string | { uid: number; gid: number } {
  const [, uid, gid] = /^(\d{1,5}):(\d{1,5})$/.exec(user) ?? [];
  return uid === undefined ? user : { uid: Number(uid), gid: Number(gid) };
}

async function makeDirectories(
  sandbox: Sandbox,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  for (const path of new Set(paths)) await sandbox.files.makeDirectory(path, { parents: true, signal });
}

async function found(squash: Squash, name: string, signal: AbortSignal): Promise<Image | undefined> {
  try {
    return await squash.images.get(name, { signal });
  } catch (error) {
    if (error instanceof NotFound) return undefined;
    throw error;
  }
}

/** But for their names. */
function isSame(one: Image, other: Image): boolean {
  const facts = ({ modules, env, user, workdir, entrypoint, cmd, labels }: Image): string =>
    JSON.stringify([modules, env, user, workdir, entrypoint, cmd, labels]);
  return facts(one) === facts(other);
}

/** However the build ended. One that is gone already is no failure. */
async function removed(sandbox: Sandbox): Promise<void> {
  try {
    await sandbox.remove();
  } catch (error) {
    if (!(error instanceof NotFound)) throw error;
  }
}
