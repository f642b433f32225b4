/**
 * What `loadLayers` gives and `mergeLayers` takes: the policies of one run, each with where it comes from.
 *
 * A layer is one place that may say something: the box's own defaults, the managed file, the user's, the project's, the
 * command line. It consists of parts, because a file may extend others.
 */
import type { PolicyFile } from './file-schema.ts';
import type { PathLevel } from '@squash/contract/path-levels';

export const origins = ['default', 'managed', 'user', 'project', 'command line'] as const;
export type Origin = (typeof origins)[number];

/** Where a rule stands. */
export interface Source {
  readonly origin: Origin;
  /** A path, `builtin:NAME`, or a flag. */
  readonly file: string;
  readonly line?: number;
}

/** One file, or what stands for one. */
export interface Part {
  readonly policy: PolicyFile;
  readonly file: string;
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

export interface Layer {
  readonly origin: Origin;
  /** Whether its grants count. Only a project's file has to be trusted. */
  readonly isTrusted: boolean;
  /** What is extended stands before what extends it. */
  readonly parts: readonly Part[];
}

/** A rule about one path: patterns, `~` and links are resolved. */
export interface PathRule {
  /** Absolute; no link on the way to it. */
  readonly path: string;
  readonly level: PathLevel;
  /** Of a mask. */
  readonly text: string | undefined;
  /** As it is written. */
  readonly written: string;
  readonly source: Source;
  /** Found by a pattern, or meant by `workdir` or `caches`: gives way to a rule of the same file that names the path. */
  readonly isImplied: boolean;
  /** It is written as a path of the repository and a link leads it out. */
  readonly leavesRepository: boolean;
}

/** Without links. */
export interface Workdir {
  readonly path: string;
  readonly written: string;
  readonly source: Source;
}

export interface PathLayer {
  readonly origin: Origin;
  readonly isTrusted: boolean;
  /** In the order of the parts. */
  readonly rules: readonly PathRule[];
  /** Directories to work in, the last said last. */
  readonly workdirs: readonly Workdir[];
}

export function sourceOf(layer: Pick<Layer, 'origin'>, part: Part, path: readonly PropertyKey[]): Source {
  const line = part.lineOf(path);
  return { origin: layer.origin, file: part.file, ...(line !== undefined && { line }) };
}

export function sourceText({ origin, file, line }: Source): string {
  const place = line === undefined ? file : `${file}:${line}`;
  return `${origin} (${place})`;
}

export interface Traced<T> {
  readonly value: T;
  readonly source: Source;
}

/** One thing that a file says, the layer's standing beside it. */
export interface Said<T> {
  readonly value: T;
  readonly origin: Origin;
  readonly isTrusted: boolean;
  readonly source: Source;
  /** Where one key of it stands. */
  readonly at: (key: string) => Source;
}

/** `LC_*` fits `LC_ALL`, and itself. */
export function nameFits(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
