/**
 * From rules over paths of the host to the mounts that make a root of them. Pure: what lies where is asked of `facts`.
 *
 * The root is a private, empty place, where nothing has to be hidden. Each rule is looked at inside the nearest one that
 * it lies in: what that shows of the host has to be opened further, closed again, or is right as it is.
 *
 * What a newcomer would get wrong: a name is taken out of an overlay before it is mounted (`whiteout`), so that whatever
 * stands there later is hidden, too. In a place that shows the host for writing nothing can be taken out: what is to be
 * hidden there must exist, and something is mounted over it.
 */
import type { HostPaths } from '@squash/contract/host-root';
import type { PathLevel } from '@squash/contract/path-levels';
import { absoluteLink, isOpened, isWithin, lineage, parentOf, resolveLevel } from './levels.ts';

export interface PathFacts {
  /** As lstat: a link at the path itself is not followed. `identity` is `dev:ino`, of a device with its number behind. Of the same path it is asked again and again. */
  stat(path: string): PathFact | undefined;
  /** The text of a link. */
  links(path: string): string;
}

export interface PathFact {
  readonly type: 'directory' | 'file' | 'link' | 'socket' | 'device' | 'other';
  readonly identity: string;
  readonly device?: DeviceFact;
}

/** For the judge; of it only what commands can open is told here. */
export interface DeviceFact {
  readonly isBlock: boolean;
  readonly major: number;
  readonly minor: number;
  /** As `/proc/devices` and `/proc/misc` have it; one number can have several. */
  readonly drivers: readonly string[];
  /** For reading and writing, by whom the daemon runs as. */
  readonly isOpenable: boolean;
}

/** As the launcher is told, but for `file`, whose source is the rule's path: who writes the masks knows where they lie. */
export interface Place {
  readonly kind: 'bind' | 'overlay' | 'private' | 'whiteout' | 'deny' | 'file' | 'link' | 'socket' | 'device';
  readonly mode: 'ro' | 'rw';
  readonly identity: string;
  readonly source: string;
  readonly target: string;
}

export interface CompiledPlaces {
  /** Parents before children, and whiteouts before the overlay that they are of. */
  readonly places: readonly Place[];
  /** Rules that do not hold as they are written, and why. */
  readonly dropped: readonly { readonly path: string; readonly why: string }[];
}

export interface PlaceGrounds {
  /** Of a root: it is there whatever a rule says. */
  readonly home?: string;
  /** Sockets that may be spoken with; each has a rule as well, which decides. */
  readonly sockets?: readonly string[];
  /** Devices that may be opened, likewise. */
  readonly devices?: readonly string[];
  /** What is closed in what is read is so, too, when the host has another in its place: a bind would uncover it, an overlay does not. */
  readonly closesForGood?: boolean;
}

export function compilePlaces(
  rules: HostPaths,
  facts: PathFacts,
  { home = '/', sockets = [], devices = [], closesForGood = false }: PlaceGrounds,
): CompiledPlaces {
  const compiler = new Compiler(rules, facts, { home, sockets, devices, closesForGood });
  const drafts = compiler.inside(ruleTree(rules, home), undefined);
  const dropped = compiler.dropped.toSorted((one, other) => compare(one.path, other.path));
  return { places: drafts.flatMap(finished), dropped };
}

/** Directories that programs write to wherever they run: never the host's, unless a rule says so. */
const alwaysPrivate = ['/tmp', '/var/tmp', '/run'];

/** A rule, and those whose nearest rule it is. */
interface Rule {
  readonly path: string;
  readonly level: PathLevel;
  /** A directory that is there whatever the host has. */
  readonly isMade: boolean;
  readonly isAdded: boolean;
  readonly children: Rule[];
}

interface Draft {
  place: Place;
  readonly whiteouts: Set<string>;
}

/** What a rule lies in: a place that shows the host at this level. Undefined: a private one. */
interface Around {
  readonly level: 'ro' | 'cow' | 'rw';
  readonly draft: Draft;
}

type Found =
  | { readonly type: PathFact['type']; readonly identity: string }
  /** `at`: the first that is missing, or a link on the way. */
  | { readonly type: 'missing' | 'detour'; readonly at: string }
  /** Below a file. */
  | { readonly type: 'nowhere'; readonly at: string };

class Compiler {
  readonly dropped: { path: string; why: string }[] = [];
  readonly #rules: HostPaths;
  readonly #facts: PathFacts;
  readonly #home: string;
  readonly #sockets: readonly string[];
  readonly #devices: readonly string[];
  readonly #closesForGood: boolean;
  readonly #isHeld = new Set<string>();

  constructor(
    rules: HostPaths,
    facts: PathFacts,
    { home, sockets, devices, closesForGood }: Required<PlaceGrounds>,
  ) {
    this.#rules = rules;
    this.#facts = facts;
    this.#home = home;
    this.#sockets = sockets;
    this.#devices = devices;
    this.#closesForGood = closesForGood;
  }

  inside(rule: Rule, around: Around | undefined): readonly Draft[] {
    return rule.children.flatMap((child) => {
      const { level } = child;
      const found = this.#find(child.path);
      const drafts = isOpened(level)
        ? this.#open({ ...child, level }, found, around)
        : this.#close(child, found, around);
      if (this.#closesForGood && around?.level === 'ro' && !isOpened(level) && drafts.length > 0)
        around.draft.place = { ...around.draft.place, kind: 'overlay' };
      return around?.level === 'rw' && drafts.length > 0
        ? [...this.#held(child.path, around.draft.place.target), ...drafts]
        : drafts;
    });
  }

  /**
   * The directories on the way to a stricter path in a place for writing. Whoever renames one of them takes the path out of its rule
   * for the next start; what something is mounted on can't be renamed.
   */
  #held(path: string, place: string): readonly Draft[] {
    return lineage(parentOf(path)).flatMap((at) => {
      const fact =
        at !== place && isWithin(at, place) && !this.#isHeld.has(at) ? this.#facts.stat(at) : undefined;
      if (fact?.type !== 'directory') return [];
      this.#isHeld.add(at);
      const { identity } = fact;
      return [drafted({ kind: 'bind', mode: 'rw', identity, source: at, target: at })];
    });
  }

  #open(
    rule: Rule & { readonly level: Around['level'] },
    found: Found,
    around: Around | undefined,
  ): readonly Draft[] {
    if (found.type === 'link') {
      // In a directory that is seen a link is seen as well.
      const link = around === undefined ? this.#link(rule.path) : [];
      if (link.length === 0) return this.inside(rule, around);
      this.#dropBehind(rule);
      return link;
    }
    if (found.type === 'socket' && this.#sockets.includes(rule.path))
      return [drafted(namedPlace('socket', rule.path, found.identity))];
    if (found.type === 'device' && this.#devices.includes(rule.path)) {
      if (this.#facts.stat(rule.path)?.device?.isOpenable === false)
        this.#drop(
          rule,
          'it is there, and commands can’t open it: its mode does not let your user, or only by a group',
        );
      return [drafted(namedPlace('device', rule.path, found.identity))];
    }
    if (found.type !== 'directory' && found.type !== 'file') {
      this.#drop(rule, sentence(found));
      return this.inside(rule, around);
    }
    let { level } = rule;
    if (found.type === 'file' && level === 'cow' && around?.level !== 'cow') {
      level = 'ro';
      this.#drop(rule, 'it is shown read-only: copy-on-write is for directories');
    }
    // An overlay ends where another file system is mounted.
    const isSame =
      around?.level === level && deviceOf(around.draft.place.identity) === deviceOf(found.identity);
    if (isSame) return this.inside(rule, around);
    const draft = drafted({
      kind: level === 'cow' ? 'overlay' : 'bind',
      mode: level === 'ro' ? 'ro' : 'rw',
      identity: found.identity,
      source: rule.path,
      target: rule.path,
    });
    return [draft, ...this.inside(rule, { level, draft })];
  }

  #link(path: string): readonly Draft[] {
    const target = absoluteLink(path, this.#facts.links(path));
    const isSeen = isOpened(resolveLevel(this.#rules, target)) && this.#find(target).type !== 'missing';
    // A home is often reached by a link, and is there whether it is opened or not.
    const isMade = [this.#home, ...alwaysPrivate].some((each) => isWithin(each, target));
    if (isSeen || isMade)
      return [drafted({ kind: 'link', mode: 'ro', identity: '-', source: target, target: path })];
    this.dropped.push({ path, why: `it is a link to "${target}", which is not open` });
    return [];
  }

  #close(rule: Rule, found: Found, around: Around | undefined): readonly Draft[] {
    if (around === undefined) return this.#closeInPrivate(rule);
    switch (found.type) {
      case 'missing':
      case 'detour':
        this.#takeOut(rule, around, { at: found.at, why: sentence(found) });
        return this.inside(rule, around);
      case 'nowhere':
        return this.inside(rule, around);
      case 'directory':
        return this.#closeDirectory(rule, around);
      case 'link':
        this.#takeOut(rule, around, {
          at: rule.path,
          why: 'it is a link in a directory that is open for writing: it stays, and what it leads to has its own level',
        });
        return this.inside(rule, around);
      case 'file':
      case 'socket':
      case 'device':
      case 'other':
        if (rule.level === 'mask') return [masked(rule.path)];
        if (rule.level === 'deny' || around.level === 'rw') return [denied(rule.path)];
        around.draft.whiteouts.add(rule.path);
        return [];
    }
  }

  /** Nothing of the host is there. */
  #closeInPrivate(rule: Rule): readonly Draft[] {
    const within = this.inside(rule, undefined);
    if (rule.isMade && rule.level === 'hidden') return [this.#private(rule.path), ...within];
    return rule.level === 'mask' && within.length === 0 ? [masked(rule.path)] : within;
  }

  #closeDirectory(rule: Rule, around: Around): readonly Draft[] {
    const { path, level } = rule;
    const within = this.inside(rule, undefined);
    // Places inside need a directory that can be searched, to be mounted in.
    if (within.length > 0 || (level === 'hidden' && (rule.isMade || around.level === 'rw')))
      return [this.#private(path), ...within];
    if (level !== 'hidden') return [denied(path)];
    around.draft.whiteouts.add(path);
    return [];
  }

  #takeOut(rule: Rule, around: Around, { at, why }: { readonly at: string; readonly why: string }): void {
    if (around.level === 'rw') this.#drop(rule, why);
    else around.draft.whiteouts.add(at);
  }

  #private(path: string): Draft {
    const isUsers = [this.#home, ...alwaysPrivate].some((each) => each !== '/' && isWithin(path, each));
    const identity = isUsers ? 'user' : 'root';
    return drafted({ kind: 'private', mode: 'rw', identity, source: '/', target: path });
  }

  #drop({ path, isAdded }: Rule, why: string): void {
    if (!isAdded) this.dropped.push({ path, why });
  }

  /** A path through a link would be another one inside: it has a rule of its own, or is hidden. */
  #dropBehind(link: Rule): void {
    for (const rule of link.children) {
      // What is closed where the link leads is closed by that path.
      if (isOpened(rule.level)) this.#drop(rule, `"${link.path}" is a link`);
      this.#dropBehind(rule);
    }
  }

  #find(path: string): Found {
    for (const at of lineage(path)) {
      const fact = this.#facts.stat(at);
      if (fact === undefined) return { type: 'missing', at };
      if (at === path) return fact;
      if (fact.type === 'link') return { type: 'detour', at };
      if (fact.type !== 'directory') return { type: 'nowhere', at };
    }
    return { type: 'missing', at: path };
  }
}

/** Under the root, which is hidden and private whatever a rule says of it. */
function ruleTree(rules: HostPaths, home: string): Rule {
  const made = [home, ...alwaysPrivate].filter((path) => path !== '/');
  const nodes: Rule[] = Object.entries(rules)
    .filter(([path]) => path !== '/')
    .map(([path, level]) => ({ path, level, isMade: made.includes(path), isAdded: false, children: [] }));
  for (const path of new Set(made)) {
    if (Object.hasOwn(rules, path)) continue;
    if (path === home && isOpened(resolveLevel(rules, path))) continue;
    nodes.push({ path, level: 'hidden', isMade: true, isAdded: true, children: [] });
  }
  const root: Rule = { path: '/', level: 'hidden', isMade: true, isAdded: true, children: [] };
  const line = [root];
  for (const node of nodes.toSorted((one, other) => compare(one.path, other.path))) {
    while (!isWithin(node.path, line.at(-1)?.path ?? '/')) line.pop();
    line.at(-1)?.children.push(node);
    line.push(node);
  }
  return root;
}

/** What lies in a directory comes right behind it. */
function compare(one: string, other: string): number {
  const shorter = Math.min(one.length, other.length);
  let at = 0;
  while (at < shorter && one[at] === other[at]) at += 1;
  if (at === shorter) return one.length - other.length;
  const [left = '', right = ''] = [one[at], other[at]];
  // Nothing is smaller than what ends a name: `/a/b` stands before `/a-b`.
  if (left === '/' || right === '/') return left === '/' ? -1 : 1;
  return left < right ? -1 : 1;
}

function drafted(place: Place): Draft {
  return { place, whiteouts: new Set() };
}

/** Also where its directory is seen: an overlay shows the name alone. */
function namedPlace(kind: 'socket' | 'device', path: string, identity: string): Place {
  return { kind, mode: 'ro', identity, source: path, target: path };
}

function masked(path: string): Draft {
  return drafted({ kind: 'file', mode: 'ro', identity: '-', source: path, target: path });
}

function denied(path: string): Draft {
  return drafted({ kind: 'deny', mode: 'ro', identity: '-', source: '/', target: path });
}

/** From an overlay names can be taken out, from a bind not. */
function finished({ place, whiteouts }: Draft): readonly Place[] {
  if (whiteouts.size === 0) return [place];
  const names = [...whiteouts]
    .toSorted(compare)
    .map((target): Place => ({ kind: 'whiteout', mode: 'ro', identity: '-', source: '/', target }));
  return [...names, { ...place, kind: 'overlay' }];
}

function deviceOf(identity: string): string {
  return identity.slice(0, identity.indexOf(':'));
}

function sentence(found: Found): string {
  if ('identity' in found) return 'it is neither a file nor a directory';
  if (found.type === 'missing') return `there is no "${found.at}"`;
  return found.type === 'detour' ? `"${found.at}" is a link` : `"${found.at}" is no directory`;
}
