/** A sandbox inside a box: where it was asked for its programs make user namespaces, as those do that coding agents bring along. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BoxPlace } from '../support/box-place.ts';
import { repository as root } from '../support/base-layer.ts';
import { type CliEnd, cliCommand, cliEnvironment, squash } from '../support/cli.ts';

const isRoot = process.getuid?.() === 0;
const lacks = (program: string): string | false =>
  spawnSync(program, ['--version']).status === 0 ? false : `this machine has no ${program}`;
const modulesOfTheirs = join(root, '.cache/bench/srt-0.0.83/node_modules');
const theirs = join(modulesOfTheirs, '@anthropic-ai/sandbox-runtime/dist/cli.js');
const withoutTheirs = existsSync(theirs)
  ? false
  : 'the benchmark has not fetched @anthropic-ai/sandbox-runtime';

/** What sandboxes take of bubblewrap, but for a `/proc` of their own. */
const bwrap = ['bwrap', '--unshare-user', '--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts'];
const shown = ['--ro-bind', '/', '/', '--dev', '/dev'];

/** A filter of system calls that lets everything through, loaded: `loaded`, or why not. */
const filter = `my $f = pack("S C C L", 6, 0, 0, 0x7fff0000); my $n = (POSIX::uname())[4] eq "aarch64" ? 167 : 157;
syscall($n, 38, 1, 0, 0, 0); print syscall($n, 22, 2, pack("S x![P] P", 1, $f)) == 0 ? "loaded\\n" : "$!\\n"`;

describe('a sandbox inside a box', () => {
  let place: BoxPlace;
  let scratch: string;
  let work: string;
  let env: Record<string, string>;

  before(() => {
    place = new BoxPlace('box-nesting');
    ({ scratch, work, env } = place);
  });

  after(async () => await place[Symbol.asyncDispose]());

  const box = async (...words: readonly string[]): Promise<CliEnd> => await place.box(...words);
  const printed = async (...words: readonly string[]): Promise<string> => await place.printed(...words);

  it('is refused to root, whose files in /proc it would write', {
    skip: isRoot ? false : 'only root has such boxes',
  }, async () => {
    const end = await box('run', '--rm', '--nesting', '--', 'true');
    assert.notEqual(end.code, 0);
    assert.match(end.stderr, /as an ordinary user \(host_root_unavailable\)/);
  });

  describe('of an ordinary user', { skip: isRoot ? 'only an ordinary user has boxes' : false }, () => {
    it('starts where it was asked for, and nowhere else', { skip: lacks('bwrap') }, async () => {
      const words = [...bwrap, ...shown, 'sh', '-c', 'id -u; ls -d /proc/[0-9]* >/dev/null && echo here'];
      const own = `${String(process.getuid?.())}\nhere\n`;
      assert.equal(await printed('run', '--rm', '--nesting', '--', ...words), own);
      assert.equal(await printed('run', '--rm', '--nesting', '--', 'unshare', '-Ur', 'id', '-u'), '0\n');
      const without = await box('run', '--rm', '--', ...words);
      assert.equal(without.code, 1);
      assert.match(without.stderr, /No permissions to create new namespace/);
      const plain = await box('run', '--rm', '--', 'unshare', '-Ur', 'true');
      assert.match(plain.stderr, /Operation not permitted/);
    });

    it('has a namespace of control groups where the kernel keeps the box’s limits, and else none', async () => {
      const end = await box('run', '--rm', '--nesting', '--', 'unshare', '-UrC', 'echo', 'made');
      const isFirst = readFileSync('/proc/self/cgroup', 'utf8').replaceAll(/^0::.*\n/gm, '') !== '';
      if (isFirst) assert.match(end.stderr, /Operation not permitted/);
      else assert.match(`${end.stdout.toString()}${end.stderr}`, /^made$|Operation not permitted/m);
    });

    it('holds within the box, and what it writes is the box’s', { skip: lacks('bwrap') }, async () => {
      const inner = [...bwrap, ...shown, '--bind', work, work, '--chdir', work];
      const script = 'echo made >made; echo x >/etc/x || echo closed; cat /proc/net/dev | grep -c :';
      const out = await printed(
        'run',
        '--keep',
        '--name',
        'nested',
        '--nesting',
        '--',
        ...inner,
        'sh',
        '-c',
        script,
      );
      assert.equal(out, 'closed\n1\n');
      assert.equal(existsSync(join(work, 'made')), false);
      assert.match(await printed('diff', 'nested'), /made/);
      assert.equal(
        await printed('exec', 'nested', '--', 'unshare', '-Ur', 'cat', join(work, 'made')),
        'made\n',
      );
      await printed('rm', 'nested');
    });

    it('gets the box’s /proc, and none of its own', { skip: lacks('bwrap') }, async () => {
      const own = await box('run', '--rm', '--nesting', '--', ...bwrap, ...shown, '--proc', '/proc', 'true');
      assert.match(own.stderr, /mount proc/);
      const shared = [
        ...bwrap,
        ...shown,
        '--ro-bind',
        '/proc',
        '/proc',
        'cat',
        '/proc/keys',
        '/proc/interrupts',
      ];
      assert.equal(await printed('run', '--rm', '--nesting', '--', ...shared), '');
    });

    it('may filter calls', async () => {
      const words = ['perl', '-MPOSIX', '-e', filter];
      assert.equal(await printed('run', '--rm', '--nesting', '--', ...words), 'loaded\n');
      assert.equal(await printed('run', '--rm', '--', ...words), 'Invalid argument\n');
    });

    it('is the person’s to allow, never a project’s', async () => {
      const own = join(scratch, 'config/squash/box.toml');
      const look = ['run', '--rm', '--', 'sh', '-c', 'unshare -Ur echo made 2>/dev/null || echo none'];
      writeFileSync(own, 'version = 1\nnesting = true\n');
      assert.equal(await printed(...look), 'made\n');
      assert.equal(JSON.parse(await printed('run', '--print-policy')).nesting, true);
      assert.match(await printed('run', '--dry-run', '--', 'true'), /^Nesting: /m);
      const project = join(work, 'squash-box.toml');
      writeFileSync(project, 'version = 1\nnesting = false\n');
      assert.equal(await printed(...look), 'none\n');
      rmSync(own);
      writeFileSync(project, 'version = 1\nnesting = true\n');
      assert.equal((await box('trust', 'add')).code, 0);
      assert.equal(await printed(...look), 'none\n');
      const told = await box('policy', 'show');
      assert.match(`${told.stdout.toString()}${told.stderr}`, /a project’s policy opens no nesting/);
      rmSync(project);
    });

    it('goes with no trace of paths', async () => {
      const end = await box('run', '--rm', '--nesting', '--trace-paths', '--', 'true');
      assert.equal(end.code, 125);
      assert.match(end.stderr, /paths are not noted in a box with nesting/);
    });

    it('is refused with the reason where the machine has none left for it', () => {
      const lines =
        'echo 2 >/proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all -- "$@"';
      const few = ['--user', '--map-current-user', '--keep-caps', '--', 'sh', '-c', lines, 'sh'];
      // A daemon for each, as namespaces of a box that has ended may count for a moment more.
      const run = (option: readonly string[]) =>
        spawnSync('unshare', [...few, ...cliCommand, 'box', 'run', '--rm', ...option, '--', 'echo', 'ran'], {
          cwd: work,
          env: {
            ...cliEnvironment(undefined),
            ...env,
            SQUASH_BOX_DATA: join(scratch, `data/few${option.join('')}`),
          },
          encoding: 'utf8',
          timeout: 60_000,
        });
      assert.equal(run([]).stdout, 'ran\n');
      const refused = run(['--nesting']);
      assert.equal(refused.status, 125);
      assert.match(refused.stderr, /nesting can't be had here: user\.max_user_namespaces or AppArmor/);
    });

    it('is given by the settings of the Sandbox Runtime', async () => {
      const path = join(work, 'srt.json');
      const filesystem = { denyRead: [], allowWrite: [], denyWrite: [] };
      const network = { allowedDomains: [], deniedDomains: [] };
      writeFileSync(path, JSON.stringify({ network, filesystem, allowNestedUserNamespaces: true }));
      const end = await squash(undefined, ['srt', '-s', path, 'unshare', '-Ur', 'id', '-u'], {
        cwd: work,
        env,
      });
      assert.equal(end.stdout.toString(), '0\n', end.stderr);
    });

    it('is Anthropic’s Sandbox Runtime as well', { skip: withoutTheirs }, async () => {
      const settings = join(work, 'settings.json');
      const network = { allowedDomains: [], deniedDomains: [] };
      const filesystem = { denyRead: [], allowWrite: ['.'], denyWrite: [] };
      writeFileSync(settings, JSON.stringify({ network, filesystem, enableWeakerNestedSandbox: true }));
      const script = 'touch in && echo wrote; touch ~/out 2>/dev/null || echo closed';
      // Beside a home, as the tests' project may be, lie those of others.
      const own = join(work, 'theirs');
      cpSync(modulesOfTheirs, join(own, 'node_modules'), { recursive: true });
      copyFileSync(process.execPath, join(own, 'node'));
      const cli = join(own, 'node_modules', relative(modulesOfTheirs, theirs));
      const their = [join(own, 'node'), cli, '--settings', settings, '--', 'sh', '-c', script];
      const run = ['run', '--rm', '--nesting', '--', ...their];
      assert.equal(await printed(...run), 'wrote\nclosed\n');
    });
  });
});
