/**
 * Devices of this machine in a box: none but those that are named, no disk and nothing else that leads out, with the rights of whoever
 * started it.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BoxPlace } from '../support/box-place.ts';
import { type CliEnd } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

const isRoot = process.getuid?.() === 0;
const hasFuse = existsSync('/dev/fuse');

/** What opening a device for reading and writing says, and its number. */
const opens = (path: string): readonly string[] => [
  'perl',
  '-MFcntl',
  '-e',
  `my @s = stat "${path}"; printf "%d %s\\n", $s[6] // 0, sysopen(my $f, "${path}", O_RDWR) ? "opened" : "$!"`,
];
const onHost = (path: string): string => {
  const [program = '', ...words] = opens(path);
  return execFileSync(program, words, { encoding: 'utf8' });
};

describe('devices of this machine in a box', { skip: hasFuse ? false : 'there is no /dev/fuse' }, () => {
  let place: BoxPlace;
  let scratch: string;
  let work: string;

  before(() => {
    place = new BoxPlace('box-devices');
    ({ scratch, work } = place);
  });

  after(async () => await place[Symbol.asyncDispose]());

  const box = async (...words: readonly string[]): Promise<CliEnd> => await place.box(...words);
  const printed = async (...words: readonly string[]): Promise<string> => await place.printed(...words);

  it('are there where they are named, open as they do outside, and else are not', async () => {
    assert.equal(await printed('run', '--device', 'fuse', '--', ...opens('/dev/fuse')), onHost('/dev/fuse'));
    symlinkSync('/dev/fuse', join(work, 'by-link'));
    assert.equal(
      await printed('run', '--device', 'by-link', '--', ...opens('/dev/fuse')),
      onHost('/dev/fuse'),
    );
    rmSync(join(work, 'by-link'));
    assert.equal(await printed('run', '--', ...opens('/dev/fuse')), '0 No such file or directory\n');
    const mode = 'chmod 777 /dev/fuse 2>/dev/null || touch /dev/x 2>/dev/null || echo closed';
    assert.equal(await printed('run', '--device', '/dev/fuse', '--', 'sh', '-c', mode), 'closed\n');
    assert.match(await printed('run', '--device', 'fuse', '--dry-run'), /^Devices: \/dev\/fuse$/m);
  });

  it('come with what the kernel says about them, and nothing else of /sys', async () => {
    const words =
      'find /sys -maxdepth 3 2>/dev/null | sort; cat /sys/dev/char/10:229/uevent; ls -d /sys/class';
    const look = async (...device: readonly string[]): Promise<string> =>
      (
        await box('run', ...device, '--', 'sh', '-c', `${words}; : >/sys/dev/char/10:229/power/control`)
      ).stdout.toString();
    const own =
      /^\/sys\n\/sys\/dev\n\/sys\/dev\/char\n\/sys\/dev\/char\/10:229\n\/sys\/devices\n\/sys\/devices\/virtual\n\/sys\/devices\/virtual\/misc\nMAJOR=10\nMINOR=229\nDEVNAME=fuse\n/;
    assert.match(await look('--device', 'fuse'), isRoot ? /^$/ : own);
    assert.equal(await look(), '');
  });

  it('that lead out are refused, by other names, too', async () => {
    symlinkSync('/dev/tty0', join(work, 'innocent'));
    const rows: readonly (readonly [string, number, RegExp])[] = [
      ['/dev/null', 126, /one of its own/],
      ['innocent', 126, /it is a terminal of this machine \(closed_device\)/],
      ['/dev/../dev/tty0', 126, /it is a terminal/],
      ['/dev/net/tun', 126, /a network of its own/],
      ['/dev/kmsg', 126, /memory of this machine/],
      ['/dev/loop-control', 126, /disks or file systems/],
      [work, 125, /is no device/],
      ['/dev/none', 125, /there is no device .* gpu, kvm, fuse/],
      ['usb', 125, /there is no device/],
    ];
    for (const [word, code, sentence] of rows) {
      if (word.startsWith('/dev/') && !existsSync(word) && code === 126) continue;
      const end = await box('run', '--device', word, '--', 'true');
      assert.equal(end.code, code, `${word}: ${end.stderr}`);
      assert.match(end.stderr, sentence);
    }
    rmSync(join(work, 'innocent'));
    if (existsSync('/dev/dri') || existsSync('/dev/nvidiactl') || existsSync('/dev/kfd')) return;
    const none = await box('run', '--device', 'gpu', '--', 'true');
    assert.match(none.stderr, /this machine has no device of the kind "gpu"/);
  });

  it('come from policies of the person, never from a project’s, and what is closed stays so', async () => {
    const policy = join(scratch, 'policy.toml');
    const text = (rules: string): string =>
      `version = 1\n[fs]\n"." = "cow"\n${rules}[devices]\nallow = ["fuse"]\n`;
    writeFileSync(policy, text(''));
    const look = opens('/dev/fuse');
    assert.equal(await printed('run', '--policy', policy, '--', ...look), onHost('/dev/fuse'));
    const words = await printed('run', '--policy', policy, '--print-policy');
    assert.deepEqual(JSON.parse(words).devices, { allow: ['fuse'] });
    writeFileSync(policy, text('"/dev/fuse" = "hidden"\n'));
    const none = '0 No such file or directory\n';
    assert.equal(await printed('run', '--policy', policy, '--', ...look), none);
    writeFileSync(
      policy,
      text('').replace('"fuse"', '"/dev/fuse"').replace('cow"\n', 'cow"\n"/dev/fuse" = "deny"\n'),
    );
    const closed = await box('run', '--policy', policy, '--', 'true');
    assert.equal(closed.code, 126, closed.stderr);
    assert.match(closed.stderr, /devices\.allow .* is deny by/);
    writeFileSync(policy, text('').replace('fuse', '/etc/passwd'));
    assert.match((await box('run', '--policy', policy, '--', 'true')).stderr, /devices\.allow: .*"\/dev\/"/);
    writeFileSync(join(work, 'squash-box.toml'), text(''));
    assert.equal((await box('trust', 'add')).code, 0);
    assert.equal(await printed('run', '--', ...look), none);
    const shown = await box('policy', 'show');
    assert.match(`${shown.stdout.toString()}${shown.stderr}`, /a project’s policy opens no devices/);
    rmSync(join(work, 'squash-box.toml'));
  });
});

/** Of a machine whose root made nodes as he likes, for a daemon of an ordinary user. */
describe('nodes that root made', { skip: isRoot ? false : 'only root makes nodes' }, () => {
  const uid = 24_031;
  const own = `/dev/squash-test-${process.pid}`;
  const stack = new AsyncDisposableStack();
  let daemon: TestDaemon;
  let home: string;

  const node = (name: string, number: string, mode = 0o666): void => {
    execFileSync('mknod', [join(own, name), ...number.split(' ')]);
    chmodSync(join(own, name), mode);
  };

  before(async () => {
    if (!isRoot) return;
    const parent = mkdtempSync(join(tmpdir(), ownedPrefix('box-devices')));
    stack.defer(() => rmSync(parent, { recursive: true, force: true }));
    chmodSync(parent, 0o755);
    home = join(parent, 'home');
    mkdirSync(home, { mode: 0o700 });
    chownSync(home, uid, uid);
    mkdirSync(join(own, 'deeper'), { recursive: true });
    stack.defer(() => rmSync(own, { recursive: true, force: true }));
    for (const path of [own, join(own, 'deeper')]) chmodSync(path, 0o755);
    node('open', 'c 10 229');
    node('deeper/open', 'c 10 229');
    node('kept', 'c 10 229', 0o600);
    node('disk', 'b 7 0');
    node('fuse', 'b 7 0');
    node('memory', 'c 1 1');
    node('network', 'c 10 200');
    node('console', 'c 5 1');
    node('terminal', 'c 136 0');
    node('keyboard', 'c 13 64');
    node('screen', 'c 226 0');
    node('nobody-knows', 'c 10 251');
    symlinkSync('disk', join(own, 'link'));
    symlinkSync('deeper', join(own, 'around'));
    daemon = stack.use(await TestDaemon.start({ uid, env: { HOME: home, SQUASH_HOST_ROOT: '1' } }));
  });

  after(() => stack.disposeAsync());

  const create = async (...devices: readonly string[]) => {
    const user = { name: 'tester', home, shell: '/bin/sh' };
    const paths = { '/usr': 'ro', '/bin': 'ro', '/lib': 'ro', '/lib64': 'ro', '/etc': 'ro' };
    return await daemon.request('POST', '/v1/sandboxes', { from: { host: { paths, user, devices } } });
  };
  const run = async (id: string, path: string): Promise<string> => {
    const { json } = await daemon.request('POST', `/v1/sandboxes/${id}/exec`, { argv: opens(path) });
    return `${json.stdout}${json.stderr}`;
  };

  it('are opened by an ordinary user as their mode says, at the same path', async () => {
    const paths = ['open', 'deeper/open', 'kept'].map((name) => join(own, name));
    const { status, json, text } = await create(...paths);
    assert.equal(status, 201, text);
    const [open, deeper, kept] = await Promise.all(paths.map(async (path) => await run(json.id, path)));
    assert.deepEqual([open, deeper, kept], ['2789 opened\n', '2789 opened\n', '2789 Permission denied\n']);
    assert.match(JSON.stringify(json.warnings), /kept.*commands can’t open it/);
    assert.doesNotMatch(JSON.stringify(json.warnings), /open\\"/);
    await daemon.request('DELETE', `/v1/sandboxes/${json.id}`);
  });

  it('are judged by their number, not by their name', async () => {
    for (const [name, sentence] of [
      ['disk', /it is a disk/],
      ['fuse', /it is a disk/],
      ['memory', /memory of this machine/],
      ['network', /network of its own/],
      ['console', /terminal of this machine/],
      ['terminal', /terminal of this machine/],
      ['keyboard', /types and sees/],
      ['screen', /types and sees|does not say what it is/],
      ['nobody-knows', /does not say what it is/],
      ['link', /no device/],
      ['around/open', /link_in_path/],
      ['deeper', /no device/],
      ['missing', /no_device/],
    ] as const) {
      const { status, json, text } = await create(join(own, name));
      assert.deepEqual([status, json.code], [403, 'host_path_refused'], `${name}: ${text}`);
      assert.match(json.detail, sentence, name);
    }
    const outside = join(home, 'disk');
    execFileSync('mknod', [outside, 'c', '10', '229']);
    assert.match((await create(outside)).json.detail, /devices lie in \/dev/);
    assert.equal((await create(`${own}/../fuse`)).json.code, 'invalid_request');
  });

  it('that are exchanged while a box starts are never in it', async () => {
    node('swapped', 'c 10 229');
    const swap = `cd ${own} && while :; do
      mknod -m 666 b c 1 5; mv b swapped; mknod -m 666 b c 10 229; mv b swapped; done`;
    const swapping = spawn('sh', ['-c', swap], { stdio: 'ignore' });
    const ended = once(swapping, 'exit');
    try {
      for (let times = 0; times < 20; times += 1) {
        const { status, json, text } = await create(join(own, 'swapped'));
        if (status !== 201) {
          assert.equal(json.code, 'host_path_refused', text);
          continue;
        }
        assert.match(await run(json.id, join(own, 'swapped')), /^2789 opened\n$/);
        await daemon.request('DELETE', `/v1/sandboxes/${json.id}`);
      }
    } finally {
      swapping.kill('SIGKILL');
      await ended;
    }
  });
});
