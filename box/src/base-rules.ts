/**
 * The rules of a box that names none: the system read-only, the repository copy-on-write, of the home directory what programs need
 * by name, and nothing else. What the user names takes the place of what stands here for the same path.
 */
import { lstatSync, readdirSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import type { PathLevel } from '@squash/contract/path-levels';
import { agentNames } from './agent-names.ts';
import { isClosed } from './closed.ts';
import {
  absolutePath,
  canonical,
  canonicalOfMissing,
  firstLink,
  isDirectory,
  isEverybodys,
} from './host-paths.ts';
import {
  besideDirectory,
  besideProgram,
  linkedPrograms,
  pythonOf,
  virtualEnvironment,
} from './installations.ts';
import { isOpened, isWithin } from '@squash/policy/paths/levels';
import { addRule, levelAt, type Rules } from './levels.ts';
import { programInPath } from './program.ts';
import { BoxRefusal } from './refusal.ts';
import { rootOnly } from './root-only.ts';
import { checkRepository, findRepository } from './repository.ts';
import { gitRules } from './worktree.ts';

export interface RuleFacts {
  /** Canonical, as the kernel has it. */
  readonly cwd: string;
  /** As the password database has it. */
  readonly home: string;
  readonly uid: number;
  /** The text of PATH. */
  readonly path: string;
}

export const repositoryLevels = ['cow', 'rw', 'ro', 'none'] as const;
export type RepositoryLevel = (typeof repositoryLevels)[number];

export interface RuleWishes {
  /** Undefined: `cow`, or what is named for the same directory. */
  readonly repo: RepositoryLevel | undefined;
  readonly named: readonly { readonly word: string; readonly level: PathLevel }[];
  /** The first word of the command. */
  readonly program: string | undefined;
}

export interface BoxRules {
  readonly paths: Readonly<Record<string, PathLevel>>;
  /** Undefined: none is opened. */
  readonly repository: string | undefined;
  /** Canonical. */
  readonly home: string;
  /** Where commands start. */
  readonly workdir: string;
}

const systemPlaces = ['/usr', '/bin', '/sbin', '/etc', '/opt', '/nix', '/snap'];
/** `/lib`, `/lib64` and whatever other architectures have. */
const systemPattern = /^lib\w*$/;
/** What programs ask about what is installed; nothing of a service's own data. */
const stateOfSystem = [
  '/var/lib/dpkg',
  '/var/lib/apt',
  '/var/lib/rpm',
  '/var/lib/pacman',
  '/var/lib/alternatives',
  '/var/lib/ca-certificates',
  '/var/lib/texmf',
  '/var/cache/fontconfig',
];
const privatePlaces = ['/tmp', '/var/tmp'];
const readOnlyOfHome = ['.gitconfig', '.config/git'];
const agentsOfHome = ['.codex', '.gemini', '.config/opencode'];
/** What `/` is made of for whoever opens all of it: the rest the kernel fills, or is private in each box. */
const neverOfRoot = ['proc', 'sys', 'dev', 'run', 'tmp', 'lost+found'];

/** @throws usage, box_refused */
export function boxRules(facts: RuleFacts, wishes: RuleWishes): BoxRules {
  const home = canonical(facts.home) ?? facts.home;
  const named = namedRules(wishes.named, { cwd: facts.cwd, home });
  const rules: Rules = new Map();
  addSystem(rules);
  if (facts.uid === 0) for (const path of rootOnly()) addRule(rules, path, 'hidden');
  addHome(rules, { named: facts.home, home });
  const repository = repositoryOf({ ...facts, home }, wishes.repo, named);
  // Before what PATH opens: a virtual environment in the repository is a part of it, and no installation of the host's.
  if (repository !== undefined) rules.set(repository.path, repository.level);
  const ground = { path: facts.path, home, top: findRepository({ ...facts, home }) };
  addProgramPlaces(rules, ground);
  addProgram(rules, wishes.program, ground);
  if (repository !== undefined)
    for (const [path, level] of gitRules(repository.path, repository.level, { uid: facts.uid, home }))
      addRule(rules, path, level);
  removeClosed(rules, named);
  if (repository !== undefined) rules.set(repository.path, repository.level);
  for (const [path, level] of named) rules.set(path, level);
  if (repository !== undefined && wishes.repo !== undefined)
    addRule(rules, repository.path, repository.level);
  const startsHere = isOpened(levelAt(rules, facts.cwd));
  return {
    paths: Object.fromEntries([...rules].toSorted(([one], [other]) => (one < other ? -1 : 1))),
    repository: repository?.path,
    home,
    workdir: startsHere ? facts.cwd : home,
  };
}

function addSystem(rules: Rules): void {
  const libraries = readdirSync('/').filter((name) => systemPattern.test(name));
  for (const path of [...systemPlaces, ...libraries.map((name) => `/${name}`), ...stateOfSystem]) {
    const isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
    // `/bin -> usr/bin` is a rule of the link itself; anything further up the way must be none.
    if (isThere && canonical(dirname(path)) === dirname(path)) addRule(rules, path, 'ro');
  }
  for (const path of privatePlaces) addRule(rules, path, 'hidden');
}

function addHome(rules: Rules, { named, home }: { readonly named: string; readonly home: string }): void {
  addRule(rules, home, 'hidden');
  const link = firstLink(named);
  if (link !== undefined) addRule(rules, link, 'ro');
  for (const [names, level] of [
    [readOnlyOfHome, 'ro'],
    [[...agentsOfHome, ...agentNames(home)], 'cow'],
  ] as const) {
    for (const name of names) addCanonical(rules, { path: join(home, name), level, home });
  }
}

/** A configuration that is a link into a directory of dotfiles is opened where it lies, and there is a link to it. */
function addCanonical(
  rules: Rules,
  { path, level, home }: { readonly path: string; readonly level: 'ro' | 'cow'; readonly home: string },
): void {
  const place = canonical(path);
  // A link to the whole home, or above it, names no configuration.
  if (place === undefined || isClosed(place, home) || isWithin(home, place)) return;
  const isLink = place !== path && canonical(dirname(path)) === dirname(path);
  // A link leads to what is the host's: a file that is the box's own would be none.
  addRule(rules, place, isLink && !isDirectory(place) ? 'ro' : level);
  if (isLink) addRule(rules, path, 'ro');
}

interface ProgramGround {
  /** The text of PATH. */
  readonly path: string;
  readonly home: string;
  /** The repository, whether it is opened or not. */
  readonly top: string;
}

/** A name in the repository is its writer's word, and opens nothing that it leads to outside. */
function leadsOut(name: string, top: string): boolean {
  const place = canonical(name);
  if (place === undefined || isWithin(place, top)) return false;
  for (let at = dirname(resolve(name)); at !== '/'; at = dirname(at)) {
    const here = canonical(at);
    if (here !== undefined && isWithin(here, top)) return true;
  }
  return false;
}

/** The directories of PATH that the system's do not hold, each by itself. */
function addProgramPlaces(rules: Rules, { path, home, top }: ProgramGround): void {
  for (const entry of path.split(delimiter)) {
    // What is relative, or empty, would be a directory of the repository's.
    if (!entry.startsWith('/')) continue;
    const place = canonical(entry);
    if (place === undefined || !isDirectory(place)) continue;
    if (isWithin(home, place) || isEverybodys(place) || leadsOut(entry, top)) continue;
    if (isOpened(levelAt(rules, place))) continue;
    addCanonical(rules, { path: entry, level: 'ro', home });
    addBeside(rules, besideDirectory(place, home), home);
    // A virtual environment has links to its Python; others are no installer's, and it may be another project's.
    if (virtualEnvironment(place) !== undefined) addBeside(rules, pythonOf(join(place, 'python')), home);
    else for (const file of linkedPrograms(place).slice(0, linkedProgramsMax)) addFile(rules, file, home);
  }
}

/** A directory of more is no list of tools that somebody has installed: those that are wanted can be named. */
const linkedProgramsMax = 32;

/** What would hide nothing of the home is no installation. */
function addBeside(rules: Rules, places: readonly string[], home: string): void {
  for (const place of places) {
    if (isWithin(home, place) || isClosed(place, home) || isEverybodys(place)) continue;
    if (!isOpened(levelAt(rules, place))) addRule(rules, place, 'ro');
  }
}

/** A program in a directory of PATH is often a link to where its versions lie: that file is opened, too. */
function addProgram(rules: Rules, program: string | undefined, { path, home, top }: ProgramGround): void {
  const name = program === undefined ? undefined : programInPath(program, path);
  const file = name === undefined ? undefined : canonical(name);
  if (name === undefined || file === undefined) return;
  // Of a virtual environment in the repository: `python` is a link to the one that it is of.
  if (leadsOut(name, top)) addBeside(rules, pythonOf(name), home);
  else addFile(rules, file, home);
}

function addFile(rules: Rules, file: string, home: string): void {
  if (isClosed(file, home)) return;
  // Of what lies beside it the file is mostly a part.
  addBeside(rules, besideProgram(file), home);
  if (!rules.has(file) && levelAt(rules, file) === 'hidden') addRule(rules, file, 'ro');
}

function repositoryOf(
  facts: RuleFacts,
  wish: RepositoryLevel | undefined,
  named: ReadonlyMap<string, PathLevel>,
): { readonly path: string; readonly level: 'cow' | 'rw' | 'ro' } | undefined {
  if (wish === 'none') return undefined;
  const path = findRepository(facts);
  const own = named.get(path);
  if (own === undefined) checkRepository(path, facts);
  // Who hides it wants none.
  if (own !== undefined && !isOpened(own)) return undefined;
  return { path, level: wish ?? (own !== undefined && isOpened(own) ? own : 'cow') };
}

/** Who hides a directory means all of it: what the base opens in it by a longer path as well. */
function removeClosed(rules: Rules, named: ReadonlyMap<string, PathLevel>): void {
  const closed = [...named].filter(([, level]) => !isOpened(level)).map(([path]) => path);
  for (const path of rules.keys()) {
    if (closed.some((place) => isWithin(path, place))) rules.delete(path);
  }
}

/** What the user names; twice the same path: the stricter. @throws usage */
function namedRules(
  named: RuleWishes['named'],
  place: { readonly cwd: string; readonly home: string },
): ReadonlyMap<string, PathLevel> {
  const rules: Rules = new Map();
  for (const { word, level } of named) {
    if (word === '') throw new BoxRefusal('usage', `--${optionOf(level)} is an empty word`);
    const written = absolutePath(word, place);
    if (!isOpened(level)) {
      addRule(rules, canonicalOfMissing(written), level);
      continue;
    }
    const path = canonical(written);
    if (path === undefined)
      throw new BoxRefusal('usage', `--${level} "${word}": there is no such file or directory`);
    if (path === '/') addRoot(rules, level);
    else addRule(rules, path, level);
    if (path !== written && canonical(dirname(written)) === dirname(written)) addRule(rules, written, 'ro');
  }
  return rules;
}

/** Each directory of the host's root, for the root of a box is its own. @throws usage */
function addRoot(rules: Rules, level: 'ro' | 'cow' | 'rw'): void {
  if (level === 'rw') throw new BoxRefusal('usage', '--rw / would be no box; name the directories');
  for (const name of readdirSync('/').filter((each) => !neverOfRoot.includes(each)))
    addRule(rules, `/${name}`, level);
}

function optionOf(level: PathLevel): string {
  return level === 'hidden' ? 'hide' : level;
}
