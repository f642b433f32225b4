/** The rules of a box that names none, on directories made for it. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { boxRules, type RuleWishes } from './base-rules.ts';
import { BoxRefusal } from './refusal.ts';

const plain: RuleWishes = { repo: undefined, named: [], program: undefined };

class Place implements Disposable {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'squash-box-rules-')));
  readonly home = this.make('homes/me/');
  readonly repository = this.make('homes/me/src/project/');

  constructor() {
    this.make('homes/me/src/project/.git/');
    this.make('homes/me/src/project/deep/');
  }

  /** A directory where the path ends with a slash, else a program. */
  make(path: string): string {
    const whole = join(this.root, path.replace(/\/$/, ''));
    if (path.endsWith('/')) mkdirSync(whole, { recursive: true });
    else {
      mkdirSync(dirname(whole), { recursive: true });
      writeFileSync(whole, '', { mode: 0o755 });
    }
    return whole;
  }

  rules(
    wishes: Partial<RuleWishes> = {},
    facts: { readonly cwd?: string; readonly home?: string; readonly path?: string } = {},
  ) {
    const { cwd = join(this.repository, 'deep'), home = this.home, path = '/usr/bin' } = facts;
    return boxRules({ cwd, home, path, uid: process.getuid?.() ?? 0 }, { ...plain, ...wishes });
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true });
  }
}

test('a box sees the system, the repository and nothing else', () => {
  using place = new Place();
  const { paths, repository, workdir } = place.rules();
  assert.equal(paths['/usr'], 'ro');
  assert.equal(paths['/etc'], 'ro');
  assert.equal(paths[place.home], 'hidden');
  assert.equal(paths[place.repository], 'cow');
  assert.equal(repository, place.repository);
  assert.equal(workdir, join(place.repository, 'deep'));
  for (const path of ['/', '/home', '/root', '/var', '/run', '/proc', '/dev', '/srv'])
    assert.ok(!(path in paths), path);
});

test('configurations of agents and directories of PATH are opened by name, closed ones never', () => {
  using place = new Place();
  place.make('homes/me/.claude/');
  place.make('homes/me/.claude.json');
  place.make('homes/me/.claudette/');
  place.make('homes/me/.gitconfig');
  const tools = place.make('homes/me/tools/bin/');
  const keys = place.make('homes/me/.ssh/bin/');
  const other = place.make('homes/other/bin/');
  const version = place.make('homes/me/versions/2/agent');
  symlinkSync(version, join(tools, 'agent'));
  const path = ['', '.', place.home, tools, keys, other, '/usr/bin'].join(':');
  const { paths } = place.rules({ program: 'agent' }, { path });
  assert.equal(paths[`${place.home}/.claude`], 'cow');
  assert.equal(paths[`${place.home}/.claude.json`], 'cow');
  assert.equal(paths[`${place.home}/.gitconfig`], 'ro');
  assert.equal(paths[tools], 'ro');
  assert.equal(paths[version], 'ro');
  for (const closed of [keys, other, `${place.home}/.claudette`]) assert.ok(!(closed in paths), closed);
  assert.equal(paths[place.home], 'hidden');
});

test('what programs of PATH need beside them is seen, and the repository’s own stays a part of it', () => {
  using place = new Place();
  const [npm, cargo, local] = ['npm/bin', '.cargo/bin', '.local/bin'].map((name) =>
    place.make(`homes/me/${name}/`),
  );
  const modules = place.make('homes/me/npm/lib/node_modules/');
  const toolchains = place.make('homes/me/.rustup/toolchains/');
  place.make('homes/me/venvs/tool/bin/tool');
  const python = place.make('homes/me/pythons/3/');
  place.make('homes/me/pythons/3/bin/python');
  place.make('homes/me/pythons/3/lib/python3.12/os.py');
  const environment = join(place.home, 'venvs/tool');
  writeFileSync(join(environment, 'pyvenv.cfg'), `home = ${python}/bin\n`);
  symlinkSync(join(environment, 'bin/tool'), `${local}/tool`);
  place.make('homes/me/.ssh/script');
  symlinkSync(join(place.home, '.ssh/script'), `${local}/script`);
  const own = place.make('homes/me/src/project/.venv/bin/');
  writeFileSync(join(dirname(own), 'pyvenv.cfg'), `home = ${python}/bin\n`);
  const { paths } = place.rules({}, { path: [own, npm, cargo, local].join(':') });
  for (const path of [modules, toolchains, environment, python]) assert.equal(paths[path], 'ro', path);
  for (const path of [own, dirname(own), `${place.home}/.ssh/script`]) assert.ok(!(path in paths), path);
});

test('a repository names nothing outside of it by links and virtual environments of PATH', () => {
  using place = new Place();
  const own = place.make('homes/me/src/project/.venv/bin/');
  const python = place.make('homes/me/pythons/3/');
  const interpreter = place.make('homes/me/pythons/3/bin/python3');
  place.make('homes/me/pythons/3/lib/python3.12/os.py');
  place.make('homes/me/.local/lib/python3.12/site-packages/');
  place.make('homes/me/other/lib/');
  place.make('homes/me/other/bin/');
  const packages = place.make('homes/me/other/node_modules/');
  symlinkSync(place.make('homes/me/other/node_modules/x/cli'), join(own, 'linked'));
  symlinkSync(interpreter, join(own, 'python'));
  place.make('homes/me/src/project/.venv/bin/pytest');
  symlinkSync(join(place.home, 'other'), join(place.repository, 'bin'));
  const opened = (program: string, home: string) => {
    writeFileSync(join(dirname(own), 'pyvenv.cfg'), `home = ${home}\n`);
    const { paths } = place.rules({ program }, { path: [own, join(place.repository, 'bin')].join(':') });
    return Object.keys(paths).filter((path) => path.startsWith(place.home));
  };
  const alone = [place.home, place.repository];
  assert.deepEqual(opened('pytest', join(place.home, '.local/bin')), alone);
  assert.deepEqual(opened('pytest', join(place.home, 'other/bin')), alone);
  assert.deepEqual(opened('linked', '/usr/bin'), alone, packages);
  // Of another project, which is on PATH, too.
  const activated = place.make('homes/me/src/third/.venv/bin/');
  writeFileSync(join(dirname(activated), 'pyvenv.cfg'), `home = ${python}/bin\n`);
  symlinkSync(join(packages, 'x/cli'), join(activated, 'linked'));
  const { paths } = place.rules({}, { path: activated });
  for (const path of [dirname(activated), python]) assert.equal(paths[path], 'ro', path);
  assert.ok(!(packages in paths));
  for (const program of ['python', 'pytest'])
    assert.deepEqual(opened(program, `${python}/bin`), [place.home, python, place.repository], program);
});

test('what is named takes the place of the base, twice the stricter wins, and what is hidden is hidden whole', () => {
  using place = new Place();
  place.make('homes/me/.config/git/');
  place.make('homes/me/.config/opencode/');
  const named = (...words: readonly (readonly [string, 'ro' | 'rw' | 'cow' | 'hidden' | 'deny'])[]) =>
    place.rules({ named: words.map(([word, level]) => ({ word, level })) }).paths;
  assert.equal(named(['..', 'rw'])[place.repository], 'rw');
  assert.equal(named(['..', 'rw'], ['..', 'ro'])[place.repository], 'ro');
  assert.equal(named(['..', 'ro'], ['..', 'rw'])[place.repository], 'ro');
  assert.equal(named(['~', 'ro'])[place.home], 'ro');
  const hidden = named(['~/.config', 'hidden']);
  assert.equal(hidden[`${place.home}/.config`], 'hidden');
  assert.ok(!(`${place.home}/.config/opencode` in hidden));
  assert.equal(named(['.env', 'hidden'])[join(place.repository, 'deep/.env')], 'hidden');
  assert.throws(() => named(['not-there', 'ro']), BoxRefusal);
  assert.throws(() => named(['/', 'rw']), BoxRefusal);
  const whole = named(['/', 'ro']);
  assert.equal(whole['/usr'], 'ro');
  assert.equal(whole['/tmp'], 'hidden');
  for (const path of ['/', '/proc', '/dev']) assert.ok(!(path in whole), path);
});

test('a home, what holds it, and a directory of everybody are no repository unless named', () => {
  using place = new Place();
  const refused = (cwd: string) => (failure: unknown) =>
    failure instanceof BoxRefusal && failure.code === 'box_refused' && failure.message.includes(cwd);
  for (const cwd of [place.home, dirname(place.home), '/', '/tmp']) {
    assert.throws(() => place.rules({}, { cwd }), refused(cwd), cwd);
    assert.equal(place.rules({ repo: 'none' }, { cwd }).repository, undefined);
  }
  const named = place.rules({ named: [{ word: '.', level: 'cow' }] }, { cwd: place.home });
  assert.equal(named.paths[place.home], 'cow');
  const broken = join(place.home, 'a\nb');
  mkdirSync(broken);
  assert.throws(() => place.rules({}, { cwd: broken }), /has a character in its name that no rule can say/);
});

test('a home that is reached through a link is opened where it lies, with a link', () => {
  using place = new Place();
  const link = join(place.root, 'linked');
  symlinkSync(join(place.root, 'homes'), link);
  const { paths, home } = place.rules({}, { home: join(link, 'me') });
  assert.equal(home, place.home);
  assert.equal(paths[place.home], 'hidden');
  assert.equal(paths[link], 'ro');
});

test('what git keeps is the box’s own copy, also where the repository is written itself', () => {
  using place = new Place();
  const git = join(place.repository, '.git');
  assert.ok(!(git in place.rules().paths));
  assert.equal(place.rules({ repo: 'rw' }).paths[git], 'cow');
  assert.equal(place.rules({ named: [{ word: '..', level: 'rw' }] }).paths[git], 'cow');
  assert.equal(place.rules({ named: [{ word: '../.git', level: 'ro' }], repo: 'rw' }).paths[git], 'ro');

  for (const name of ['objects', 'refs', 'worktrees/linked']) mkdirSync(join(git, name), { recursive: true });
  const linked = place.make('homes/me/src/linked/');
  const pointer = join(linked, '.git');
  writeFileSync(pointer, `gitdir: ${git}/worktrees/linked\n`);
  writeFileSync(join(git, 'worktrees/linked/gitdir'), `${pointer}\n`);
  const levels = (repo: RuleWishes['repo']) => {
    const { paths } = place.rules({ repo }, { cwd: linked });
    return [paths[git], paths[pointer]];
  };
  assert.deepEqual(levels(undefined), ['cow', undefined]);
  assert.deepEqual(levels('ro'), ['ro', undefined]);
  // The file says which directory git obeys.
  assert.deepEqual(levels('rw'), ['cow', 'ro']);

  const inside = place.make('homes/me/src/bare/.bare/');
  writeFileSync(join(dirname(inside), '.git'), 'gitdir: .bare\n');
  assert.equal(place.rules({ repo: 'rw' }, { cwd: dirname(inside) }).paths[inside], 'cow');
  const led = place.make('homes/me/src/led/');
  symlinkSync(git, join(led, '.git'));
  assert.throws(() => place.rules({ repo: 'rw' }, { cwd: led }), BoxRefusal);
});
