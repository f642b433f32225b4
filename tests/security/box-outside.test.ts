/**
 * What a box, or a repository, lays for the command line that works outside of it: links where it writes, the user's own policy, programs
 * in PATH, names that no rule can say. Beside each stands what comes of it without the wall.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { cliCommand, cliEnvironment, squash } from '../support/cli.ts';
import { BoxHost } from './box-host.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;
const policy = 'version = 1\n[net]\nallow = ["example.com"]\n';

describe('outside of a hostile box', { skip }, () => {
  let host: BoxHost;
  let victim: string;
  const inWork = (...names: readonly string[]): string => join(host.work, ...names);

  before(async () => {
    host = new BoxHost();
    victim = join(host.top, 'victim');
    const bin = inWork('bin');
    mkdirSync(bin);
    const mark = join(host.top, 'ran');
    for (const name of ['newuidmap', 'newgidmap', 'flock'])
      writeFileSync(join(bin, name), `#!/bin/sh\ntouch '${mark}'\nexec /usr/bin/${name} "$@"\n`, {
        mode: 0o755,
      });
    // The first box starts the daemon, with this PATH.
    const env = { ...host.environment, PATH: `${bin}:${process.env['PATH'] ?? '/usr/bin:/bin'}` };
    const end = await squash(undefined, ['box', 'run', '--rm', '--', 'true'], { cwd: host.work, env });
    assert.equal(end.code, 0, end.stderr);
    assert.ok(!existsSync(mark), 'a program of the repository ran');
    spawnSync('newuidmap', { env });
    assert.ok(existsSync(mark), 'PATH does not lead there: the attempt proves nothing');
  });

  after(() => host[Symbol.asyncDispose]());

  beforeEach(() => writeFileSync(victim, 'precious\n'));

  it('learn writes through no link that the box lays where the proposal goes', async () => {
    const script = 'rm -f wanted.json; ln -s ../victim wanted.json';
    const end = await host.box('learn', '--repo', 'rw', '-o', 'wanted.json', '--', 'sh', '-c', script);
    assert.equal(end.code, 0, end.stderr);
    assert.equal(readFileSync(victim, 'utf8'), 'precious\n');
    writeFileSync(inWork('wanted.json'), 'careless\n');
    assert.equal(readFileSync(victim, 'utf8'), 'careless\n');
    rmSync(inWork('wanted.json'));
  });

  for (const [title, link, to, word] of [
    ['a link', 'wanted.json', '../victim', 'wanted.json'],
    ['a link on the way', 'out', '..', 'out/victim'],
  ] as const) {
    it(`learn writes through no link of the repository: ${title}`, async () => {
      symlinkSync(to, inWork(link));
      const end = await host.box('learn', '-o', word, '--', 'true');
      assert.equal(end.code, 125);
      assert.match(end.stderr, /a link leads there/);
      assert.equal(readFileSync(victim, 'utf8'), 'precious\n');
      writeFileSync(inWork(word), 'careless\n');
      assert.equal(readFileSync(victim, 'utf8'), 'careless\n');
      rmSync(inWork(link));
    });
  }

  for (const [title, lay] of [
    ['where there is none', () => undefined],
    ['that is a link to a file of the box’s', () => link(victim, join(settings(), 'squash/box.toml'))],
  ] as const) {
    it(`a box writes no policy of its user ${title}`, async () => {
      const place = join(settings(), 'squash');
      lay();
      const put = (file: string): string => `printf '${policy.replaceAll('\n', '\\n')}' > '${file}'`;
      const script = `mkdir -p '${place}'; ${put(`${place}/box.toml`)}; ${put(victim)}; rm -rf '${place}'
        mv '${settings()}' '${settings()}-2'; mkdir -p '${place}'; ${put(`${place}/box.toml`)}`;
      const env = { ...host.environment, XDG_CONFIG_HOME: settings() };
      mkdirSync(settings(), { recursive: true });
      await squash(undefined, ['box', 'run', '--rm', '--rw', host.top, '--', 'sh', '-c', script], {
        cwd: host.work,
        env,
      });
      const reaches = async (): Promise<string> =>
        (await squash(undefined, ['box', 'policy', 'show'], { cwd: host.work, env })).stdout.toString();
      assert.match(await reaches(), /Network: none/);
      spawnSync('sh', ['-c', script]);
      assert.match(await reaches(), /Network: example\.com/);
      for (const each of [settings(), `${settings()}-2`]) rmSync(each, { recursive: true, force: true });
    });
  }

  const settings = (): string => join(host.top, 'settings');
  const link = (to: string, from: string): void => {
    mkdirSync(join(from, '..'), { recursive: true });
    writeFileSync(to, 'version = 1\n');
    symlinkSync(to, from);
  };

  for (const [title, lay, script] of [
    [
      'a submodule',
      'git submodule --quiet add "$LENT" sub',
      'mv sub s2; mkdir -p sub; rm -f sub/.git; cp -a .git/modules/sub sub/.git; git config -f sub/.git/config --unset core.worktree; git config -f sub/.git/config core.fsmonitor "$EVIL"',
    ],
    [
      'a submodule that is not checked out',
      'git submodule --quiet add "$LENT" sub; git submodule --quiet deinit -f sub',
      'git clone -q .git/modules/sub sub; git -C sub config core.fsmonitor "$EVIL"',
    ],
    [
      'a submodule that is not there',
      'git submodule --quiet add "$LENT" sub; git add -A; git commit -qm sub; rm -rf sub',
      'git clone -q .git/modules/sub sub; git -C sub config core.fsmonitor "$EVIL"',
    ],
    [
      'a git directory behind a link',
      'mkdir x; ln -s x l; git init -q --separate-git-dir="$PWD/x/git"; echo "gitdir: $PWD/l/git" > .git',
      'rm l; mkdir l; cp -a x/git l/git; git config -f l/git/config core.fsmonitor "$EVIL"',
    ],
    [
      'a git directory behind a name and ".."',
      'mkdir -p x/y; git init -q --separate-git-dir="$PWD/x/git"; echo "gitdir: x/y/../git" > .git',
      'mv x/y x/z; mkdir -p x/e/e; ln -s e/e x/y; cp -a x/git x/e/git; git config -f x/e/git/config core.fsmonitor "$EVIL"',
    ],
  ] as const) {
    it(`a box that writes the repository itself gets no program run by git: ${title}`, async () => {
      const [lent, mark] = [join(host.top, 'lent'), join(host.top, 'ran')];
      const repository = join(host.top, 'repository');
      const env = {
        ...process.env,
        LENT: lent,
        EVIL: `touch ${mark}; false`,
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'protocol.file.allow',
        GIT_CONFIG_VALUE_0: 'always',
      };
      const sh = (text: string, cwd: string): void => void spawnSync('sh', ['-c', text], { cwd, env });
      const author = 'git config user.name u; git config user.email u@e';
      for (const [directory, text] of [
        [lent, `git init -q; ${author}; git commit -q --allow-empty -m first`],
        [repository, `git init -q; ${author}; echo a > a; git add a; ${lay}; git commit -qm first`],
      ] as const) {
        mkdirSync(directory);
        sh(text, directory);
      }
      rmSync(mark, { force: true });
      const words = [
        'box',
        'run',
        '--rm',
        '--repo',
        'rw',
        '-e',
        `EVIL=${env.EVIL}`,
        '--',
        'sh',
        '-c',
        script,
      ];
      const end = await squash(undefined, words, { cwd: repository, env: host.environment });
      sh('git status', repository);
      assert.ok(!existsSync(mark), `a program of the box’s ran here: ${end.stderr}`);
      sh(script, repository);
      sh('git status', repository);
      assert.ok(existsSync(mark), 'a careless user withstands it: the attempt proves nothing');
      for (const each of [lent, repository, mark]) rmSync(each, { recursive: true });
    });
  }

  const deep = Array.from({ length: 25 }, () => 'd'.repeat(200));
  const descend = (last: string): string =>
    `for i in ${deep.map(() => '0').join(' ')}; do mkdir -p ${deep[0]} && cd -P ${deep[0]} || exit 3; done; ${last}`;
  for (const [title, lay, read] of [
    [
      'in a directory whose name is no UTF-8',
      `d=$(printf 'tree/caf\\351'); mkdir -p "$d"; echo secret > "$d/.env"`,
      'cat tree/caf*/.env',
    ],
    [
      'in a directory that is closed to its owner',
      'mkdir -p tree/closed; echo secret > tree/closed/.env; chmod 0 tree/closed',
      'chmod 700 tree/closed; cat tree/closed/.env',
    ],
    [
      'deeper than a path is long',
      `mkdir tree; cd tree; ${descend('echo secret > .env')}`,
      `cd tree; ${descend('cat .env')}`,
    ],
  ] as const) {
    it(`a pattern that hides leaves out no file ${title}`, async () => {
      spawnSync('bash', ['-c', lay], { cwd: host.work });
      const file = join(host.top, 'policy.toml');
      writeFileSync(file, 'version = 1\n[fs]\n"./**/.env*" = "hidden"\n');
      const words = ['--rm', '--', 'bash', '-c', read];
      const end = await host.box('run', '--policy', file, ...words);
      assert.doesNotMatch(end.stdout.toString(), /secret/);
      assert.equal(end.code, 126);
      assert.match(end.stderr, /could not be held against the whole tree/);
      assert.match(await host.printed('run', ...words), /secret/);
      spawnSync('sh', ['-c', 'chmod -R u+rwx tree; rm -rf tree'], { cwd: host.work });
    });
  }

  it('a rule about a name that is no UTF-8 is refused, not left out', () => {
    const words = [...cliCommand, 'box', 'run', '--rm'].map((word) => `'${word}'`).join(' ');
    const env = { ...cliEnvironment(undefined), ...host.environment };
    const run = (hide: string): string => {
      const script = `d=$(printf 'caf\\351'); mkdir -p "$d"; echo secret > "$d/x"; ${words} ${hide} -- sh -c 'cat caf*/x' 2>&1`;
      return spawnSync('bash', ['-c', script], { cwd: host.work, env, encoding: 'utf8' }).stdout;
    };
    assert.match(run('--hide "$d"'), /^squash: .*in UTF-8/);
    assert.match(run(''), /secret/);
    spawnSync('bash', ['-c', 'rm -rf caf*'], { cwd: host.work });
  });
});
