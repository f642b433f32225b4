/** `SOURCE:PATH[:ro|rw]` as the API has it, and where volumes and mounts are asked for. */
import type { MountWish } from '@squash/contract/volume';
import type { Flags } from './arguments.ts';
import { apiPath } from './client/client.ts';
import { usageFailure } from './failure.ts';

/** A source with a slash in front is a directory of the host, any other one a volume. @throws usage */
export function parseMount(word: string): MountWish {
  const [, source = '', path = '', mode] = /^(.+?):(\/.*?)(?::(ro|rw))?$/.exec(word) ?? [];
  if (source === '') throw usageFailure(`"${word}" is no SOURCE:PATH, SOURCE:PATH:ro or SOURCE:PATH:rw`);
  return {
    ...(source.startsWith('/') ? { host: source } : { volume: source }),
    path,
    ...(mode === 'ro' || mode === 'rw' ? { mode } : {}),
  };
}

/** `DIRECTORY[:PATH][:ro|rw]`, as the API checks it. */
export function parseDirectory(word: string): {
  readonly host: string;
  readonly path?: string;
  readonly mode?: 'ro' | 'rw';
} {
  const [, host = word, path, mode] = /^(.+?)(?::(\/.*?))?(?::(ro|rw))?$/s.exec(word) ?? [];
  return {
    host,
    ...(path !== undefined && { path }),
    ...((mode === 'ro' || mode === 'rw') && { mode }),
  };
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
