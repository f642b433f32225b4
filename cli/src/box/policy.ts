/**
 * The policy of a box: what the files of this machine say and what the options of the call add. Its code, with the schema library, is
 * loaded only where there is a file, for it takes longer than all else before a box is asked for.
 */
import { type BoxRules, boxRules, type RuleWishes } from '@squash/box/base-rules';
import { absolutePath, canonical } from '@squash/box/host-paths';
import { isOpened, levelAt } from '@squash/box/levels';
import { hasPolicyFiles, type PolicyPlaces, policyPlaces } from '@squash/box/policy-places';
import { isPolicyProblem } from '@squash/box/policy-problem';
import type { Resolution } from '@squash/box/policy/resolve';
import { findRepository } from '@squash/box/repository';
import { rootOnly } from '@squash/box/root-only';
import type { PathLevel } from '@squash/contract/path-levels';
import { CliFailure, exitCodes } from '../failure.ts';
import { printNote, visible } from '../output/print.ts';
import { asCliFailure, ownUser } from './daemon.ts';

/** By the name of the variable: where the value is read, and where it goes. */
export type BoxSecrets = Readonly<
  Record<string, { readonly from: string; readonly hosts: readonly string[] }>
>;

/** What the options of `box run` say, in the words of a policy file. */
export interface PolicyWords {
  readonly files: readonly string[];
  readonly repo: RuleWishes['repo'];
  readonly named: RuleWishes['named'];
  readonly program: string | undefined;
  readonly net: readonly string[];
  readonly env: { readonly pass: readonly string[]; readonly set: Readonly<Record<string, string>> };
  readonly sockets: readonly string[];
  readonly devices: readonly string[];
  /** `LOCAL:PORT` or `PORT`. */
  readonly publish: readonly string[];
  readonly nesting: boolean;
  readonly isAlone?: boolean;
  readonly secrets?: BoxSecrets | undefined;
  readonly limits: {
    readonly memory_mb?: number;
    readonly cpu?: number;
    readonly processes?: number;
    readonly time_s?: number;
  };
}

export const noWords: PolicyWords = {
  files: [],
  repo: undefined,
  named: [],
  program: undefined,
  net: [],
  env: { pass: [], set: {} },
  sockets: [],
  devices: [],
  publish: [],
  nesting: false,
  limits: {},
};

export interface BoxPlace {
  readonly places: PolicyPlaces;
  readonly home: string;
  readonly repository: string;
  readonly cwd: string;
}

export function boxPlace(): BoxPlace {
  const { home, uid } = ownUser();
  const cwd = process.cwd();
  const own = canonical(home) ?? home;
  const repository = findRepository({ cwd, home: own, uid });
  return { places: placesOf(repository), home: own, repository, cwd };
}

/** Where policies of boxes over this repository lie. */
export function placesOf(repository: string): PolicyPlaces {
  return policyPlaces(process.env, ownUser().home, repository);
}

/** Undefined: no file says anything, and the options are what there is. */
export async function resolvedPolicy(words: PolicyWords): Promise<Resolution | undefined> {
  const place = boxPlace();
  const isPattern = words.named.some(({ word }) => /[*?]/.test(word));
  return await asPolicyFailure(async () =>
    words.files.length > 0 || isPattern || words.secrets !== undefined || hasPolicyFiles(place.places)
      ? await resolve(words, place)
      : undefined,
  );
}

/** Whether there is a file or not. */
export async function currentPolicy(words: PolicyWords = noWords): Promise<Resolution> {
  return await asPolicyFailure(async () => await resolve(words, boxPlace()));
}

async function resolve(words: PolicyWords, place: BoxPlace): Promise<Resolution> {
  const { home, repository, cwd, places } = place;
  const { refusePattern } = await import('@squash/box/policy/pattern');
  refusePattern(cwd);
  const defaults = await defaultRules(words);
  const { resolvePolicy } = await import('@squash/box/policy/resolve');
  const { checkPolicy, publishedPort } = await import('@squash/box/policy/file-schema');
  const said = {
    version: 1,
    fs: Object.fromEntries(words.named.map(({ word, level }) => [absolutePath(word, { cwd, home }), level])),
    ...workdirOf(words.repo, repository),
    net: { allow: words.net },
    env: words.env,
    sockets: { allow: words.sockets },
    devices: { allow: words.devices },
    ports: { publish: words.publish.map(publishedPort) },
    ...(words.nesting && { nesting: true }),
    limits: words.limits,
    ...(words.secrets !== undefined && { secrets: words.secrets }),
  };
  const flags = checkPolicy({ value: said, lineOf: () => undefined }, 'the options');
  return await asCliFailure(() =>
    resolvePolicy(
      { places, grounds: { home, repository }, defaults },
      { files: words.files, flags, isAlone: words.isAlone === true },
    ),
  );
}

/**
 * What is said is all there is: of this machine's files the managed one counts alone, and a box's own rules do not.
 * @param said in the form of a policy file
 */
export async function policyAlone(said: unknown): Promise<Resolution> {
  const { places, home, cwd } = boxPlace();
  const { uid } = ownUser();
  const closed = uid === 0 ? rootOnly() : [];
  return await asPolicyFailure(async () => {
    const { resolvePolicy } = await import('@squash/box/policy/resolve');
    const { checkPolicy } = await import('@squash/box/policy/file-schema');
    const flags = checkPolicy({ value: said, lineOf: () => undefined }, 'the settings');
    return resolvePolicy(
      {
        places,
        grounds: { home, repository: cwd },
        defaults: { paths: Object.fromEntries(closed.map((path) => [path, 'hidden' as const])) },
      },
      { files: [], flags, isAlone: true, isGitWritten: true },
    );
  });
}

async function defaultRules({ repo, program }: PolicyWords): Promise<BoxRules> {
  const { home, uid } = ownUser();
  const facts = { cwd: process.cwd(), home, uid, path: process.env['PATH'] ?? '' };
  return await asCliFailure(() => boxRules(facts, { repo, named: [], program }));
}

function workdirOf(repo: PolicyWords['repo'], repository: string): object {
  return repo === undefined || repo === 'none' ? {} : { workdir: { source: repository, mode: repo } };
}

/** Where commands start: where we stand, if that is opened. */
export function startDirectory(
  { policy }: Resolution,
  paths: Readonly<Record<string, PathLevel>>,
  { cwd, home }: Pick<BoxPlace, 'cwd' | 'home'>,
): string {
  const rules = new Map(Object.entries(paths));
  const wanted = policy.workdir?.value ?? cwd;
  return isOpened(levelAt(rules, wanted)) ? wanted : home;
}

/** What holds less than it says is told once, before anything runs. @throws box_refused where a rule would not hold */
export function noteResolution({ notes, policy, loaded }: Resolution): void {
  const errors = notes.filter(({ isError }) => isError);
  if (errors.length > 0)
    throw new CliFailure('box_refused', errors.map(({ text }) => text).join('\n'), exitCodes.notRunnable);
  const { project } = loaded;
  if (
    project !== undefined &&
    !project.isTrusted &&
    policy.dropped.some(({ source }) => source.origin === 'project')
  )
    printNote(
      `squash: ${visible(project.file.path)} is not trusted: what it opens does not count; to read it and agree: squash box trust add`,
    );
}

export async function asPolicyFailure<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (failure) {
    if (!isPolicyProblem(failure)) throw failure;
    throw new CliFailure('policy_refused', failure.problems.map(visible).join('\n'), exitCodes.notRunnable);
  }
}
