/** `SOURCE:PATH[:MODE[,LEVEL=NAME…]]` as the API has it, and where volumes and mounts are asked for. */
import type { MountInfo, MountPaths, MountWish } from '@squash/contract/volume';
import type { Flags } from './arguments.ts';
import { apiPath } from './client/client.ts';
import { usageFailure } from './failure.ts';

const modes = ['ro', 'cow', 'rw'] as const;
const levels = ['hidden', 'deny', ...modes] as const;

/** A source with a slash in front is a directory of the host, any other one a volume. @throws usage */
export function parseMount(word: string): MountWish {
  const [, source = '', path = '', how = ''] =
    /^(.+?):(\/.*?)(?::((?:ro|cow|rw)(?:,.*)?))?$/s.exec(word) ?? [];
  if (source === '')
    throw usageFailure(
      `"${word}" is no SOURCE:PATH, SOURCE:PATH:ro, SOURCE:PATH:rw or, of a directory of the host, SOURCE:PATH:cow and LEVEL=NAME behind it: /src:/src:cow,hidden=.env`,
    );
  const [mode, ...rest] = how.split(',');
  return {
    ...(source.startsWith('/') ? { host: source } : { volume: source }),
    path,
    ...modeOf(mode),
    ...(rest.length > 0 && { paths: pathsOf(rest) }),
  };
}

function modeOf(word: string | undefined): Pick<MountWish, 'mode'> {
  const mode = modes.find((each) => each === word);
  return mode === undefined ? {} : { mode };
}

/** @throws usage */
function pathsOf(words: readonly string[]): MountPaths {
  const named = new Map<string, (typeof levels)[number]>();
  for (const word of words) {
    const cut = word.indexOf('=');
    const name = word.slice(cut + 1);
    const level = levels.find((each) => each === word.slice(0, cut));
    if (level === undefined) throw usageFailure(`"${word}" is no LEVEL=NAME: ${levels.join(', ')}`);
    if (named.has(name)) throw usageFailure(`"${name}" has two levels`);
    named.set(name, level);
  }
  return Object.fromEntries(named);
}

/** As `parseMount` takes it; a mask, whose text it has no words for, by its name. */
export function modeWords({ mode, paths = {} }: Pick<MountInfo, 'mode' | 'paths'>): string {
  const below = Object.entries(paths).map(
    ([name, level]) => `${typeof level === 'string' ? level : 'mask'}=${name}`,
  );
  return [mode, ...below].join(',');
}

/** `DIRECTORY[:PATH][:MODE]`, as the API checks it. */
export function parseDirectory(word: string): {
  readonly host: string;
  readonly path?: string;
  readonly mode?: (typeof modes)[number];
} {
  const [, host = word, path, mode] = /^(.+?)(?::(\/.*?))?(?::(ro|cow|rw))?$/s.exec(word) ?? [];
  return { host, ...(path !== undefined && { path }), ...modeOf(mode) };
}

/** What `--volume` and `--mount` ask for. @throws usage */
export function mountsOf(flags: Flags): readonly MountWish[] {
  return [...flags.list('volume'), ...flags.list('mount')].map(parseMount);
}

/** @throws usage */
export function parseLabels(words: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    words.map((word) => {
      const cut = word.indexOf('=');
      if (cut < 1) throw usageFailure(`--label "${word}" is no KEY=VALUE`);
      return [word.slice(0, cut), word.slice(cut + 1)];
    }),
  );
}

export function volumesPath(...rest: readonly string[]): string {
  return apiPath(['v1', 'volumes', ...rest]);
}

export function mountsPath(id: string, ...rest: readonly string[]): string {
  return apiPath(['v1', 'sandboxes', id, 'mounts', ...rest]);
}
