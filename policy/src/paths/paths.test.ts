/** Levels of paths and the places made of them: a row for each case, and what holds for every host and all rules. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostPaths } from '@squash/contract/host-root';
import { pathLevels } from '@squash/contract/path-levels';
import fc from 'fast-check';
import { compilePlaces, type PathFact, type PathFacts, type Place } from './compile.ts';
import { isOpened, isWithin, lineage, parentOf, resolveLevel, stricter } from './levels.ts';

/** `d`, `f`, `o`: a directory, a file, something else; `> text`: a link. A number behind it is the file system. */
type Host = Readonly<Record<string, string>>;

const host: Host = {
  '/': 'd',
  '/bin': '> usr/bin',
  '/usr': 'd',
  '/usr/bin': 'd',
  '/usr/other': 'd2',
  '/etc': 'd',
  '/etc/shadow': 'f',
  '/var': 'd',
  '/var/tmp': 'd',
  '/people': '> home',
  '/home': 'd',
  '/home/u': 'd',
  '/home/u/.gitconfig': 'f',
  '/home/u/repo': 'd',
  '/home/u/repo/.env': 'f',
  '/home/u/repo/link': '> /etc',
  '/home/u/repo/socket': 'o',
  '/home/u/repo/keys': 'd',
  '/home/u/repo/keys/public': 'd',
};

function factsOf(tree: Host): PathFacts {
  const types = { d: 'directory', f: 'file', o: 'other', '>': 'link' } as const;
  return {
    stat(path): PathFact | undefined {
      const word = tree[path];
      if (word === undefined) return undefined;
      const [letter = 'o'] = word;
      const type = types[letter as keyof typeof types];
      return { type, identity: `${/\d+$/.exec(word)?.[0] ?? '1'}:${Object.keys(tree).indexOf(path)}` };
    },
    links: (path) => tree[path]?.slice(2) ?? '',
  };
}

const own = ['private user /home/u', 'private user /run', 'private user /tmp', 'private user /var/tmp'];

interface Row {
  readonly title: string;
  readonly rules: HostPaths;
  /** Beside what always stands there. */
  readonly places: readonly string[];
  readonly dropped?: readonly string[];
}

const rows: readonly Row[] = [
  { title: 'nothing is open when there are no rules', rules: {}, places: [] },
  { title: 'a directory is a bind', rules: { '/usr': 'ro' }, places: ['bind ro /usr'] },
  {
    title: 'a link stands where its target is open',
    rules: { '/usr': 'ro', '/bin': 'ro' },
    places: ['link ro /bin', 'bind ro /usr'],
  },
  {
    title: 'a link that leads to the home stands, and nothing is told of what is closed behind it',
    rules: { '/people': 'ro', '/people/u/.ssh': 'hidden' },
    places: ['link ro /people'],
  },
  { title: 'a link to what is hidden is dropped', rules: { '/bin': 'ro' }, places: [], dropped: ['/bin'] },
  {
    title: 'the same level makes no second place, but for another file system',
    rules: { '/usr': 'ro', '/usr/bin': 'ro', '/usr/other': 'ro' },
    places: ['bind ro /usr', 'bind ro /usr/other'],
  },
  {
    title: 'what is hidden below a read-only place is taken out of an overlay',
    rules: { '/etc': 'ro', '/etc/shadow': 'hidden', '/etc/later/on': 'hidden' },
    places: ['whiteout ro /etc/later', 'whiteout ro /etc/shadow', 'overlay ro /etc'],
  },
  {
    title: 'what is denied stands there, closed',
    rules: { '/etc': 'ro', '/etc/shadow': 'deny' },
    places: ['bind ro /etc', 'deny ro /etc/shadow'],
  },
  {
    title: 'copy-on-write in itself is one overlay with all its whiteouts',
    rules: { '/home/u/repo': 'cow', '/home/u/repo/keys': 'cow', '/home/u/repo/keys/public': 'hidden' },
    places: ['whiteout ro /home/u/repo/keys/public', 'overlay rw /home/u/repo'],
  },
  {
    title: 'a hidden directory with something open in it is a private one',
    rules: { '/home/u/repo': 'cow', '/home/u/repo/keys': 'hidden', '/home/u/repo/keys/public': 'ro' },
    places: ['overlay rw /home/u/repo', 'private user /home/u/repo/keys', 'bind ro /home/u/repo/keys/public'],
  },
  {
    title: 'below a writable place something is mounted over what is hidden',
    rules: {
      '/home/u/repo': 'rw',
      '/home/u/repo/keys': 'hidden',
      '/home/u/repo/.env': 'hidden',
      '/home/u/repo/none': 'hidden',
      '/home/u/repo/link': 'hidden',
    },
    places: ['bind rw /home/u/repo', 'deny ro /home/u/repo/.env', 'private user /home/u/repo/keys'],
    dropped: ['/home/u/repo/link', '/home/u/repo/none'],
  },
  {
    title:
      'what leads to a stricter path in a writable place is mounted on itself, so that it can’t be renamed',
    rules: { '/home/u/repo': 'rw', '/home/u/repo/keys/public': 'ro' },
    places: ['bind rw /home/u/repo', 'bind rw /home/u/repo/keys', 'bind ro /home/u/repo/keys/public'],
  },
  {
    title: 'a mask is a file where it is wanted',
    rules: { '/home/u/repo': 'rw', '/home/u/repo/.env': 'mask', '/home/u/.npmrc': 'mask' },
    places: ['file ro /home/u/.npmrc', 'bind rw /home/u/repo', 'file ro /home/u/repo/.env'],
  },
  {
    title: 'a file is shown read-only where it was to be copied on write',
    rules: { '/home/u/.gitconfig': 'cow' },
    places: ['bind ro /home/u/.gitconfig'],
    dropped: ['/home/u/.gitconfig'],
  },
  {
    title: 'what is missing, no file, or behind a link is dropped',
    rules: { '/opt': 'ro', '/bin/sh': 'ro', '/home/u/repo/socket': 'rw' },
    places: [],
    dropped: ['/bin/sh', '/home/u/repo/socket', '/opt'],
  },
  {
    title: 'directories for temporary files are private in an open one',
    rules: { '/var': 'ro' },
    places: ['bind ro /var'],
  },
];

for (const { title, rules, places, dropped = [] } of rows) {
  test(title, () => {
    const compiled = compilePlaces(rules, factsOf(host), { home: '/home/u' });
    const words = compiled.places.map(({ kind, mode, identity, target }) =>
      [kind, kind === 'private' ? identity : mode, target].join(' '),
    );
    assert.deepEqual(
      words.filter((each) => !own.includes(each)),
      places,
    );
    assert.deepEqual(
      own.filter((each) => !words.includes(each)),
      [],
    );
    assert.deepEqual(
      compiled.dropped.map(({ path }) => path),
      dropped,
    );
  });
}

test('a link has an absolute text and a bind what the host says of its source', () => {
  const { places } = compilePlaces({ '/usr': 'ro', '/bin': 'ro' }, factsOf(host), { home: '/home/u' });
  const [link, usr] = ['/bin', '/usr'].map((path) => places.find(({ target }) => target === path));
  assert.equal(link?.source, '/usr/bin');
  assert.deepEqual(usr, { kind: 'bind', mode: 'ro', identity: '1:2', source: '/usr', target: '/usr' });
});

test('the longest rule wins, and of two levels the stricter is told', () => {
  const rules: HostPaths = { '/a/b': stricter('cow', 'hidden'), '/a': stricter('rw', 'ro'), '/a/b/c': 'ro' };
  const asked = ['/', '/a', '/a/x', '/a/b', '/a/b/x', '/a/b/c/d', '/ab'];
  assert.deepEqual(
    asked.map((path) => resolveLevel(rules, path)),
    ['hidden', 'ro', 'ro', 'hidden', 'hidden', 'ro', 'hidden'],
  );
});

const home = '/a/b';
const name = fc.constantFrom('a', 'b', 'c', 'b-d');
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => `/${parts.join('/')}`);
const word = fc.constantFrom('d', 'd', 'd', 'd', 'f', 'o', '> b', '> /a/c', 'd2', 'd3');
/** Only what lies in directories, each on its parent's file system or on one of its own. */
const hosts = fc.dictionary(path, word, { maxKeys: 30 }).map((drawn): Host => {
  const made: Record<string, string> = { '/': 'd1' };
  for (const each of Object.keys(drawn).toSorted()) {
    for (const at of lineage(each).slice(1)) {
      const parent = made[parentOf(at)] ?? '';
      if (!parent.startsWith('d')) break;
      const type = at === each ? (drawn[each] ?? 'd') : 'd';
      // A file system is there once: its number is the place's.
      const device = /\d/.test(type) ? String(10 + Object.keys(made).length) : parent.slice(1);
      made[at] ??= type.startsWith('>') ? type : `${type[0] ?? 'd'}${device}`;
    }
  }
  return made;
});
const rulesOf = fc.dictionary(path, fc.constantFrom(...pathLevels), { maxKeys: 12 });

type Seen =
  | { readonly kind: 'host'; readonly level: 'ro' | 'cow' | 'rw'; readonly place: Place }
  | { readonly kind: 'private' | 'closed' | 'text' | 'gone' };

/** What stands at a path inside, as the launcher mounts it. */
function seenAt(places: readonly Place[], tree: Host, asked: string): Seen {
  let seen: Seen = { kind: 'private' };
  for (const at of lineage(asked).slice(1)) {
    const place = places.find(({ target, kind }) => target === at && kind !== 'whiteout');
    if (seen.kind === 'closed' || seen.kind === 'text' || seen.kind === 'gone') return { kind: 'gone' };
    if (place !== undefined) seen = shown(place);
    else if (seen.kind === 'host' && !stays(places, tree, { at, place: seen.place })) seen = { kind: 'gone' };
  }
  return seen;
}

function shown(place: Place): Seen {
  if (place.kind === 'private') return { kind: 'private' };
  if (place.kind === 'deny') return { kind: 'closed' };
  if (place.kind === 'file' || place.kind === 'link') return { kind: 'text' };
  const level = place.mode === 'ro' ? 'ro' : place.kind === 'overlay' ? 'cow' : 'rw';
  return { kind: 'host', level, place };
}

function stays(
  places: readonly Place[],
  tree: Host,
  { at, place }: { readonly at: string; readonly place: Place },
): boolean {
  if (place.kind === 'bind') return true;
  if (tree[at]?.startsWith('d') === true && tree[at] !== tree[place.target]) return false;
  const index = places.indexOf(place);
  const before = places.slice(0, index).findLastIndex(({ kind }) => kind !== 'whiteout');
  return !places.slice(before + 1, index).some(({ target }) => target === at);
}

test('a place shows of the host what the winning rule opens, as far as it opens it, and nothing else', () => {
  fc.assert(
    fc.property(hosts, rulesOf, (tree, rules) => {
      const { places } = compilePlaces(rules, factsOf(tree), { home });
      for (const each of Object.keys(tree).slice(1)) {
        const type = tree[each]?.[0];
        const level = resolveLevel(rules, each);
        const seen = seenAt(places, tree, each);
        // A link alone tells its text; sockets and the like are never opened by a rule of their own.
        if (type === '>' || type === 'o') continue;
        if (seen.kind === 'host') {
          const isReadOnly = type === 'f' && level === 'cow' && seen.level === 'ro';
          assert.ok(seen.level === level || isReadOnly, `${each} is ${seen.level}, not ${level}`);
        } else if (
          isOpened(level) &&
          !liesBehindMount(tree, rules, each) &&
          !isUnderMount(places, tree, each)
        ) {
          assert.fail(`${each} is ${seen.kind}, not ${level}`);
        }
      }
    }),
    { numRuns: 3_000 },
  );
});

/** A file system that is mounted below the rule's path, and that no rule names. */
function liesBehindMount(tree: Host, rules: HostPaths, asked: string): boolean {
  const rule = lineage(asked).findLast((each) => Object.hasOwn(rules, each)) ?? '/';
  return tree[asked]?.slice(1) !== tree[rule]?.slice(1);
}

/** An overlay does not show what is mounted below it, and the launcher refuses one over such a directory. */
function isUnderMount(places: readonly Place[], tree: Host, asked: string): boolean {
  return places.some(
    ({ kind, target }) =>
      kind === 'overlay' &&
      target !== asked &&
      isWithin(asked, target) &&
      tree[parentOf(asked)]?.slice(1) !== tree[target]?.slice(1),
  );
}

test('each place has something to be mounted on, behind what it lies in', () => {
  fc.assert(
    fc.property(hosts, rulesOf, (tree, rules) => {
      const { places } = compilePlaces(rules, factsOf(tree), { home });
      for (const [index, { kind, target }] of places.entries()) {
        if (kind === 'whiteout') {
          const overlay = places.slice(index).find((each) => each.kind !== 'whiteout');
          assert.ok(
            overlay?.kind === 'overlay' && isWithin(target, overlay.target) && target !== overlay.target,
          );
          continue;
        }
        const earlier = places.slice(0, index);
        assert.ok(
          places
            .slice(index + 1)
            .every((later) => later.kind === 'whiteout' || !isWithin(target, later.target)),
        );
        // An overlay does not show what is mounted below it, and the launcher refuses one over such a directory.
        const outer = earlier.findLast((each) => each.kind === 'overlay' && isWithin(target, each.target));
        if (outer !== undefined && tree[parentOf(target)]?.slice(1) !== tree[outer.target]?.slice(1))
          continue;
        const around = seenAt(earlier, tree, parentOf(target));
        assert.ok(
          around.kind === 'private' || around.kind === 'host',
          `${target} lies in what is ${around.kind}`,
        );
        if (around.kind === 'host') assert.ok(Object.hasOwn(tree, target) && !tree[target]?.startsWith('>'));
        if (around.kind === 'private') assert.notEqual(kind, 'deny');
      }
    }),
    { numRuns: 3_000 },
  );
});

test('the order of rules changes nothing', () => {
  fc.assert(
    fc.property(
      hosts,
      fc.uniqueArray(fc.tuple(path, fc.constantFrom(...pathLevels)), { selector: ([each]) => each }),
      fc.infiniteStream(fc.integer()),
      (tree, entries, numbers) => {
        const shuffled = entries
          .map((entry) => ({ entry, by: numbers.next().value }))
          .toSorted((one, other) => one.by - other.by);
        assert.deepEqual(
          compilePlaces(Object.fromEntries(shuffled.map(({ entry }) => entry)), factsOf(tree), { home }),
          compilePlaces(Object.fromEntries(entries), factsOf(tree), { home }),
        );
      },
    ),
  );
});
