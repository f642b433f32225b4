/**
 * What a Dockerfile asks for, stage by stage: which are needed, what each begins from, and each instruction refused that Squash does not
 * do. Nothing runs here.
 */
import { type Instruction, parseDockerfile } from './dockerfile.ts';
import { BuildProblem } from './problem.ts';
import { type Reading, readWord, readWords, split, WordProblem } from './words.ts';

export interface Stage {
  /** From 0; other stages name it by this or its name. */
  readonly index: number;
  readonly name: string | undefined;
  readonly line: number;
  /** An image, `scratch`, or another stage's index. */
  readonly from: string | number;
  readonly instructions: readonly Instruction[];
}

export interface Plan {
  readonly escape: string;
  readonly stages: readonly Stage[];
  /** The last one that is built. */
  readonly target: Stage;
  /** Before the first FROM, with their values. */
  readonly globals: Readonly<Record<string, string>>;
  /** Names of all ARGs. */
  readonly declared: ReadonlySet<string>;
}

export interface PlanWish {
  readonly args: Readonly<Record<string, string>>;
  readonly target: string | undefined;
}

const allowedFlags: Readonly<Record<string, readonly string[]>> = {
  ADD: ['chown', 'chmod', 'link'],
  COPY: ['from', 'chown', 'chmod', 'link'],
  FROM: ['platform'],
  HEALTHCHECK: ['interval', 'timeout', 'start-period', 'start-interval', 'retries'],
  RUN: ['mount', 'network', 'security'],
};

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
/** This machine's, in the words of images: the daemon's is the same, or the images do not run. */
export const architecture = architectures[process.arch] ?? process.arch;

/** @throws BuildProblem */
export function planOf(source: string, { args, target }: PlanWish): Plan {
  const { escape, instructions } = parseDockerfile(source);
  const globals: Record<string, string> = {};
  const stages: (Stage & { readonly instructions: Instruction[] })[] = [];
  for (const each of instructions) {
    refuse(each);
    const last = stages.at(-1);
    if (each.keyword === 'FROM')
      stages.push(stageOf(each, stages, { escape, valueOf: (name) => globals[name] ?? platform[name] }));
    else if (last !== undefined) last.instructions.push(each);
    else if (each.keyword === 'ARG') Object.assign(globals, globalsOf(each, { globals, args, escape }));
    else
      throw new BuildProblem('dockerfile_invalid', `${each.keyword} stands before the first FROM`, {
        line: each.line,
      });
  }
  const wanted =
    target === undefined
      ? stages.at(-1)
      : stages.find(({ name, index }) => name === target.toLowerCase() || `${index}` === target);
  const declared = new Set(
    instructions
      .filter(({ keyword }) => keyword === 'ARG')
      .flatMap(({ text }) => split(text, escape).map((word) => argOf(word).name)),
  );
  if (wanted !== undefined) return { escape, stages, target: wanted, globals, declared };
  if (target === undefined) throw new BuildProblem('dockerfile_invalid', 'the Dockerfile has no FROM');
  throw new BuildProblem('dockerfile_invalid', `the Dockerfile has no stage "${target}"`);
}

/** What Docker sets by itself. */
const platform: Readonly<Record<string, string>> = {
  TARGETPLATFORM: `linux/${architecture}`,
  TARGETOS: 'linux',
  TARGETARCH: architecture,
  TARGETVARIANT: '',
  BUILDPLATFORM: `linux/${architecture}`,
  BUILDOS: 'linux',
  BUILDARCH: architecture,
  BUILDVARIANT: '',
};

export function platformValue(name: string): string | undefined {
  return platform[name];
}

function globalsOf(
  { text, line }: Instruction,
  {
    globals,
    args,
    escape,
  }: {
    readonly globals: Readonly<Record<string, string>>;
    readonly args: PlanWish['args'];
    readonly escape: string;
  },
): Record<string, string> {
  const words = reading(line, () =>
    readWords(text, { escape, valueOf: (name) => globals[name] ?? platform[name] }),
  );
  return Object.fromEntries(
    words.flatMap((word) => {
      const { name, value } = argOf(word);
      const given = args[name] ?? value;
      return given === undefined ? [] : [[name, given]];
    }),
  );
}

export function argOf(word: string): { readonly name: string; readonly value: string | undefined } {
  const at = word.indexOf('=');
  return at < 0 ? { name: word, value: undefined } : { name: word.slice(0, at), value: word.slice(at + 1) };
}

function stageOf(
  { text, line, flags }: Instruction,
  before: readonly Stage[],
  how: Reading,
): Stage & { instructions: Instruction[] } {
  const words = reading(line, () => readWords(text, how));
  const [image = '', as, name, ...more] = words;
  if (image === '')
    throw new BuildProblem('dockerfile_invalid', 'FROM names no image; an ARG of it may have no value', {
      line,
    });
  if (
    (as !== undefined && as.toLowerCase() !== 'as') ||
    (as !== undefined && name === undefined) ||
    more.length > 0
  )
    throw new BuildProblem('dockerfile_invalid', 'FROM takes IMAGE [AS NAME]', { line });
  for (const { value = '' } of flags) {
    const wanted = reading(line, () => readWord(value, how));
    if (wanted !== `linux/${architecture}`)
      throw new BuildProblem(
        'dockerfile_unsupported',
        `FROM --platform=${wanted}: this machine runs linux/${architecture} alone`,
        { line },
      );
  }
  const stage = before.find((each) => each.name === image.toLowerCase());
  return {
    index: before.length,
    name: name?.toLowerCase(),
    line,
    from: stage?.index ?? image,
    instructions: [],
  };
}

/** What Squash does not do, by name and line. */
function refuse({ keyword, line, flags, text }: Instruction): void {
  const allowed = allowedFlags[keyword] ?? [];
  for (const { name, value } of flags) {
    if (!allowed.includes(name))
      throw new BuildProblem('dockerfile_unsupported', `${keyword} --${name} is not supported`, { line });
    if (name === 'network' && value !== 'default')
      throw new BuildProblem(
        'dockerfile_unsupported',
        `RUN --network=${value}: what a build reaches is its policy (--allow-net none, --policy)`,
        { line },
      );
    if (name === 'security' && value !== 'sandbox')
      throw new BuildProblem(
        'dockerfile_unsupported',
        `RUN --security=${value}: a build has the rights of a sandbox`,
        { line },
      );
  }
  const mount = flags.find(
    ({ name, value = '' }) => name === 'mount' && /(^|,)type=(?!cache(,|$)|secret(,|$)|[^,]*\$)/.test(value),
  );
  if (mount !== undefined)
    throw new BuildProblem(
      'dockerfile_unsupported',
      `RUN --mount=${mount.value ?? ''} is not supported: only cache and secret are; what is to be read can be copied`,
      { line },
    );
  if (keyword === 'ADD' && /(^|[\s"])(https?|git|ssh|ftp):\/\//.test(text))
    throw new BuildProblem(
      'dockerfile_unsupported',
      `ADD ${text}: fetch it with RUN, under the policy of the build`,
      { line },
    );
  if ((keyword === 'ENV' || keyword === 'LABEL') && /^[^\s=]+$/.test(text))
    throw new BuildProblem('dockerfile_invalid', `${keyword} takes NAME=VALUE, not "${text}"`, { line });
  if (flags.some(({ name, value = '' }) => name === 'from' && value.includes('$')))
    throw new BuildProblem('dockerfile_unsupported', 'COPY --from takes no variables', { line });
  if (keyword === 'ONBUILD')
    throw new BuildProblem(
      'dockerfile_unsupported',
      'ONBUILD: images here have no triggers; put the instruction into the Dockerfile that builds on this one',
      { line },
    );
  if (text === '' && keyword !== 'RUN')
    throw new BuildProblem('dockerfile_invalid', `${keyword} has no words`, { line });
}

/** Which stages the target needs, in the Dockerfile's order. */
export function neededStages(
  { stages, target }: Plan,
  copiesFrom: (stage: Stage) => readonly number[],
): readonly Stage[] {
  const needed = new Set<number>();
  const add = (index: number): void => {
    const stage = stages[index];
    if (stage === undefined || needed.has(index)) return;
    needed.add(index);
    if (typeof stage.from === 'number') add(stage.from);
    for (const each of copiesFrom(stage)) add(each);
  };
  add(target.index);
  return stages.filter(({ index }) => needed.has(index));
}

/** The stage that `COPY --from` names, if it is one before this. */
export function stageNamed(stages: readonly Stage[], before: number, name: string): Stage | undefined {
  return stages.slice(0, before).find((each) => each.name === name.toLowerCase() || `${each.index}` === name);
}

/** What `read` finds wrong with a word, told with the line. */
export function reading<T>(line: number, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (!(cause instanceof WordProblem)) throw cause;
    throw new BuildProblem('dockerfile_invalid', cause.message, { line, cause });
  }
}
