/** Uppers become squashfs images and images become trees: what survives, what is refused, what stands still. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository } from '../../../tests/support/base-layer.ts';
import type { SandboxId } from '@squash/contract/ids';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher } from '../../../tests/support/launcher.ts';
import { waitFor } from '../../../tests/support/wait.ts';
import type { LaunchUpper } from './launch-fields.ts';

await insideLauncher(import.meta.filename, ['default', 'single', 'fuse', 'user', 'user-single'], (place) => {
  const { client, dataDir } = place;
  const isSingle = place.mode === 'single' || place.mode === 'user-single';
  const modules = join(dataDir, 'modules');

  /** A squashfs file that the host's own tool makes of a directory below the data directory. */
  function pack(source: string, name: string, options: readonly string[] = []): string {
    const words = [
      source,
      join(modules, name),
      '-noappend',
      '-quiet',
      '-no-progress',
      '-all-root',
      ...options,
    ];
    execFileSync('mksquashfs', words, { stdio: 'ignore' });
    return `modules/${name}`;
  }

  test('an upper is told apart from the layers below it while its sandbox runs, page by page', async () => {
    await using box = await launchSandbox(place, 'told');
    const made = await box.sh(
      'rm /etc/os-release; rm -r /home; mkdir /home; echo new > /home/only; echo x > /root/.wh.odd; sync',
    );
    assert.equal(made.exitCode, 0, made.output);
    const told: string[] = [];
    for (let after: Uint8Array | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
      const { upper } = box.start;
      const lowers = [place.lower];
      const page = await client.diff({ upper, lowers, against: lowers, after, entriesMax: 2 });
      assert.ok(page.entries.length <= 2);
      told.push(...page.entries.map(({ change, path }) => `${change} ${Buffer.from(path).toString()}`));
      after = page.next;
    }
    assert.equal(new Set(told).size, told.length);
    for (const each of ['removed etc/os-release', 'added home/only'])
      assert.ok(told.includes(each), told.join('\n'));
    // fuse-overlayfs has no way to show such a name.
    if (place.mode !== 'fuse') assert.ok(told.includes('added root/.wh.odd'), told.join('\n'));
    assert.ok(!told.some((each) => each.includes('.wh..wh.')), told.join('\n'));
  });

  test('a snapshot used as a layer shows what the upper showed when it is started', async () => {
    {
      await using box = await launchSandbox(place, 'source');
      const made = await box.sh(
        [
          'echo text > /root/file; chmod 640 /root/file; ln /root/file /root/second; ln -s file /root/link',
          'rm /etc/os-release',
          'rm -r /home; mkdir /home; echo new > /home/only',
          'dd if=/dev/zero of=/root/sparse bs=1 count=1 seek=8388607 2>/dev/null; mkfifo /root/fifo',
          isSingle ? 'true' : 'echo x > /root/owned; chown 1000:2000 /root/owned; chmod 4755 /root/owned',
          'mkdir "/root/odd\nname"; sync',
        ].join('\n'),
      );
      assert.equal(made.exitCode, 0, made.output);
      const { bytes, pauseUs } = await client.pack({
        name: box.start.name,
        upper: box.start.upper,
        path: 'sandboxes/source/snapshots/one.squashfs',
        bytesMax: 1e8,
      });
      assert.ok(pauseUs > 0);
      const file = join(dataDir, 'sandboxes/source/snapshots/one.squashfs');
      assert.equal(statSync(file).size, bytes);
      assert.equal((await box.sh('echo goes on')).output, 'goes on\n');
      await client.unpack({
        path: 'sandboxes/source/snapshots/one.squashfs',
        target: 'layers/one',
        bytesMax: 1e8,
        inodesMax: 10_000,
      });
      assert.deepEqual(readdirSync(join(dataDir, 'tmp')), []);
    }
    const tree = join(dataDir, 'layers/one');
    assert.ok(lstatSync(join(tree, 'etc/os-release')).isCharacterDevice(), 'the whiteout is one');
    await using box = await launchSandbox(place, 'copy', { lowers: ['layers/one', place.lower] });
    const { output } = await box.sh(
      'cat /root/second; stat -c "%h %a" /root/file; readlink /root/link; test -e /etc/os-release || echo no release; ' +
        'ls /home; stat -c "%s %b" /root/sparse; stat -c %F /root/fifo; ls /root | grep -c odd',
    );
    const lines = output.split('\n');
    assert.deepEqual(lines.slice(0, 5), ['text', '2 640', 'file', 'no release', 'only'], output);
    assert.match(lines[5] ?? '', /^8388608 (0|8|16|24|32)$/);
    assert.equal(lines[6], 'fifo');
    if (!isSingle) {
      assert.equal((await box.sh('stat -c "%u %g %a" /root/owned')).output, '1000 2000 4755\n');
    }
  });

  test('layers merged to one show what they showed one on another when the sandbox is started on it', async () => {
    const snap = async (box: { start: { name: SandboxId; upper: LaunchUpper } }, name: string) => {
      const path = `sandboxes/merged/${name}.squashfs`;
      await client.pack({ name: box.start.name, upper: box.start.upper, path, bytesMax: 1e8 });
      await client.unpack({ path, target: `layers/${name}`, bytesMax: 1e8, inodesMax: 10_000 });
      return `layers/${name}`;
    };
    let below: string;
    {
      await using box = await launchSandbox(place, 'below');
      const made = await box.sh(
        'mkdir /gone /kept /back /deep /deep/a; for d in gone kept back deep/a; do echo 1 >/$d/old; done; ' +
          'echo below >/file; ln /file /second; echo pair >/pair; ln /pair /kept/pair; rm /etc/os-release; rm -r /home; echo x >/.wh.name; chmod 700 /kept',
      );
      assert.equal(made.exitCode, 0, made.output);
      below = await snap(box, 'below');
    }
    const lowers = [below, place.lower];
    let above: string;
    {
      await using box = await launchSandbox(place, 'above', { lowers });
      const made = await box.sh(
        'rm -r /gone; rm -r /back; mkdir /back; echo 2 >/back/new; echo 2 >/kept/new; rm /kept/old; chmod 1770 /kept; ' +
          'rm /file; mkdir /file; echo 2 >/file/inside; mkdir /home; echo 2 >/home/new; echo 2 >/deep/a/old; ' +
          'rm -r /root; ln -s /tmp /root; touch -d "2001-01-01 00:00:00" /deep',
      );
      assert.equal(made.exitCode, 0, made.output);
      above = await snap(box, 'above');
    }
    await client.merge({ lowers: [above, below], path: 'modules/merged.squashfs', bytesMax: 1e8 });
    assert.deepEqual(readdirSync(join(dataDir, 'tmp')), []);
    await client.unpack({
      path: 'modules/merged.squashfs',
      target: 'layers/merged',
      bytesMax: 1e8,
      inodesMax: 10_000,
    });
    const look =
      'cd /; for d in / /gone /kept /back /deep /file /home /root /etc; do ls -lan $d; done | grep -v "\\.\\.$"; ' +
      'stat -c "%n %a %Y" /second /kept /deep /root; stat -c %h /pair; cat /back/* /kept/* /file/* /home/* /deep/a/*';
    await using stacked = await launchSandbox(place, 'stacked', { lowers: [above, ...lowers] });
    await using one = await launchSandbox(place, 'one', { lowers: ['layers/merged', place.lower] });
    const expected = (await stacked.sh(look)).output;
    // fuse-overlayfs takes such a name for a mark of its own.
    if (place.mode !== 'fuse') assert.match(expected, /\.wh\.name/);
    // Of directories the overlay shows links as it likes, and what is made at the start has the time of the start.
    const plain = (text: string) =>
      text
        .replaceAll(/^(d\S+) +\d+ +(\d+ +\d+ +\d+) .*? (\S+)$/gm, '$1 $2 $3')
        .replaceAll(/^(-\S+) +\d+ /gm, '$1 ')
        .replaceAll(/^(-\S+ .*?) \S+ +\d+ \d\d:\d\d (hosts|resolv\.conf)$/gm, '$1 $2');
    assert.equal(plain((await one.sh(look)).output), plain(expected));
  });

  test('marks of other tools delete and hide as they say when an image that has them is unpacked', async () => {
    const source = await mkdtemp(join(dataDir, 'make-'));
    for (const name of ['home', 'opaque', 'merged', 'again']) await mkdir(join(source, name));
    for (const name of ['home/one', 'opaque/one', 'merged/one', 'again/one', 'file'])
      await mkdir(join(source, name, '..'), { recursive: true }).then(() =>
        writeFile(join(source, name), 'below'),
      );
    await client.unpack({
      path: pack(source, 'marked-below.squashfs'),
      target: 'layers/marked-below',
      bytesMax: 1e8,
      inodesMax: 100,
    });
    for (const name of ['home', 'opaque', 'merged', 'again']) await rm(join(source, name, 'one'));
    await rm(join(source, 'file'));
    await rm(join(source, 'home'), { recursive: true });
    for (const name of [
      '.wh.home',
      '.wh.file',
      'opaque/.wh..wh..opq',
      'merged/two',
      '.wh.again',
      'again/two',
    ])
      await writeFile(join(source, name), '');
    await mkdir(join(source, 'fuse'));
    execFileSync('setfattr', ['-n', 'user.fuseoverlayfs.opaque', '-v', 'y', join(source, 'fuse')]);
    await client.unpack({
      path: pack(source, 'marked.squashfs', ['-xattrs']),
      target: 'layers/marked',
      bytesMax: 1e8,
      inodesMax: 100,
    });
    await rm(source, { recursive: true });
    const tree = join(dataDir, 'layers/marked');
    assert.ok(
      lstatSync(join(tree, 'file')).isCharacterDevice() && lstatSync(join(tree, 'home')).isCharacterDevice(),
    );
    const value = execFileSync('getfattr', [
      '--only-values',
      '-n',
      'user.overlay.opaque',
      join(tree, 'fuse'),
    ]);
    assert.equal(value.toString(), 'y');
    await using box = await launchSandbox(place, 'marked', {
      lowers: ['layers/marked', 'layers/marked-below', place.lower],
    });
    const { output } = await box.sh(
      'ls -A /opaque /merged /again; ls -d /home /file 2>/dev/null; ls -A / | grep wh',
    );
    assert.equal(output, '/again:\ntwo\n\n/merged:\none\ntwo\n\n/opaque:\n');
  });

  test('extended attributes and file capabilities survive when they are packed and unpacked', async () => {
    const source = await mkdtemp(join(dataDir, 'make-'));
    const words = ['-static', '-o', join(source, 'xattr'), join(repository, 'tests/support/xattr.c')];
    execFileSync('gcc', words);
    await client.unpack({
      path: pack(source, 'xattr.squashfs'),
      target: 'layers/xattr',
      bytesMax: 1e8,
      inodesMax: 100,
    });
    await rm(source, { recursive: true });
    // cap_net_bind_service+ep, as setcap writes it.
    const capability = '0100000200040000000000000000000000000000';
    const lowers = ['layers/xattr', place.lower];
    // Both live at once, so that they have different ids.
    await using box = await launchSandbox(place, 'attributes', { lowers });
    const set = await box.sh(
      `cp /xattr /root/x && /xattr /root/x user.note 6869 && /xattr /root/x security.capability ${capability}`,
    );
    assert.equal(set.exitCode, 0, set.output);
    const path = 'sandboxes/attributes/snapshots/one.squashfs';
    await client.pack({ name: box.start.name, upper: box.start.upper, path, bytesMax: 1e8 });
    await client.unpack({ path, target: 'layers/attributes', bytesMax: 1e8, inodesMax: 1_000 });
    await using other = await launchSandbox(place, 'attributes2', {
      lowers: ['layers/attributes', ...lowers],
    });
    const { output } = await other.sh('/xattr /root/x user.note; /xattr /root/x security.capability');
    assert.equal(output, `6869\n${capability}\n`);
  });

  test('a snapshot holds no half-written pair when files change in step', async () => {
    await using box = await launchSandbox(place, 'step');
    await box.sh('mkdir /p; (i=0; while :; do i=$((i+1)); echo $i > /p/a; echo $i > /p/b; done) &');
    await waitFor('writing to begin', () => existsSync(join(dataDir, 'sandboxes/step/uppers/1/data/p/b')));
    for (let round = 0; round < 3; round += 1) {
      const path = `sandboxes/step/snapshots/${round}.squashfs`;
      await client.pack({ name: box.start.name, upper: box.start.upper, path, bytesMax: 1e8 });
      const target = `layers/step${round}`;
      await client.unpack({ path, target, bytesMax: 1e8, inodesMax: 10_000 });
      const [a, b] = ['a', 'b'].map((name) => readFileSync(join(dataDir, target, 'p', name), 'utf8'));
      // The shell empties a file before it writes it: one of the two may be empty, never older than one step.
      const [first, second] = [Number(a), Number(b)];
      assert.ok(a === '' || b === '' || first - second === 0 || first - second === 1, `${a} ${b}`);
    }
  });

  function toolsRunning(): number {
    const names = readdirSync('/proc').map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
      } catch {
        // No process, or one that has ended.
        return '';
      }
    });
    return names.filter((name) => name === 'mksquashfs').length;
  }

  test('who asks for a little waits for none of many snapshots that are being made', {
    skip: place.mode !== 'default' && 'the same in each mode',
  }, async () => {
    await using box = await launchSandbox(place, 'large');
    const filled = await box.sh('seq 1 6000000 > /root/numbers; sync');
    assert.equal(filled.exitCode, 0, filled.output);
    const ends: string[] = [];
    const packs = Array.from({ length: 10 }, async (_, index) => {
      const path = `sandboxes/large/snapshots/${index}.squashfs`;
      await client.pack({ name: 'none' as SandboxId, upper: box.start.upper, path, bytesMax: 1e9 });
      ends.push('pack');
    });
    await waitFor('image tools', () => toolsRunning() >= 5);
    await client.upperUsage(box.start.upper);
    ends.push('usage');
    await Promise.all(packs);
    assert.equal(ends[0], 'usage');
  });

  test('image is refused and leaves nothing when it is cut off, garbage, or no image', async () => {
    const source = await mkdtemp(join(dataDir, 'make-'));
    await writeFile(join(source, 'file'), Buffer.alloc(300_000, 'x y z'));
    const good = readFileSync(join(dataDir, pack(source, 'good.squashfs', ['-comp', 'zstd', '-noD'])));
    const damaged = Buffer.from(good);
    damaged.fill(0xff, 120, 4_000);
    for (const [name, content] of [
      ['short', good.subarray(0, good.length / 2)],
      ['damaged', damaged],
      ['text', Buffer.from('no image at all')],
      ['empty', Buffer.alloc(0)],
    ] as const) {
      await writeFile(join(modules, `${name}.squashfs`), content);
      const unpack = client.unpack({
        path: `modules/${name}.squashfs`,
        target: `layers/${name}`,
        bytesMax: 1e8,
        inodesMax: 1_000,
      });
      // `-noD` keeps data readable past the damage: then the metadata at the end is what is missing.
      if (name === 'damaged')
        await unpack.catch((error: { code: string }) => assert.equal(error.code, 'layer_corrupt'));
      else await assert.rejects(unpack, { code: 'layer_corrupt' }, name);
      if (name !== 'damaged') assert.ok(!existsSync(join(dataDir, 'layers', name)));
    }
    assert.deepEqual(readdirSync(join(dataDir, 'tmp')), []);
    await rm(source, { recursive: true });
  });

  test('image is refused when it holds more bytes or files than allowed', async () => {
    const source = await mkdtemp(join(dataDir, 'make-'));
    await writeFile(join(source, 'bomb'), Buffer.alloc(20_000_000, 'a'));
    const bytes = pack(source, 'bomb.squashfs');
    const limits = { bytesMax: 1_000_000, inodesMax: 1_000 };
    await assert.rejects(client.unpack({ path: bytes, target: 'layers/bomb', ...limits }), {
      code: 'layer_corrupt',
    });
    await rm(join(source, 'bomb'));
    await mkdir(join(source, 'many'));
    for (let i = 0; i < 1_500; i += 1) await writeFile(join(source, 'many', String(i)), '');
    const inodes = pack(source, 'many.squashfs');
    await assert.rejects(client.unpack({ path: inodes, target: 'layers/many', ...limits }), {
      code: 'layer_corrupt',
    });
    assert.ok(!existsSync(join(dataDir, 'layers/bomb')) && !existsSync(join(dataDir, 'layers/many')));
    assert.deepEqual(readdirSync(join(dataDir, 'tmp')), []);
    await rm(source, { recursive: true });
  });

  test('device nodes are left out and everything else is there when an image holds some', async () => {
    const source = await mkdtemp(join(dataDir, 'make-'));
    await writeFile(join(source, 'file'), 'content');
    const path = pack(source, 'devices.squashfs', [
      '-p',
      'sda b 666 0 0 8 0',
      '-p',
      'null c 666 0 0 1 3',
      '-p',
      'gone c 0 0 0 0 0',
    ]);
    await client.unpack({ path, target: 'layers/devices', bytesMax: 1e8, inodesMax: 1_000 });
    const tree = join(dataDir, 'layers/devices');
    assert.deepEqual(readdirSync(tree).sort(), ['file', 'gone']);
    assert.equal(statSync(join(tree, 'gone')).rdev, 0);
    await rm(source, { recursive: true });
  });

  // fuse-overlayfs works by whole paths itself, so that no such path comes to be.
  const long = { skip: place.mode === 'fuse' };
  test('snapshot names what is wrong when a path is longer than it can hold', long, async () => {
    await using box = await launchSandbox(place, 'long');
    const name = 'd'.repeat(200);
    const deeper = `i=0; while [ $i -lt 25 ]; do mkdir ${name}; cd ${name}; i=$((i+1)); done; echo x >file`;
    // The outermost name is no UTF-8, as what a sandbox writes need not be.
    await box.sh(`top=/$(printf 'caf\\351'); mkdir "$top"; cd "$top"; ${deeper}`);
    const asked = client.pack({
      name: box.start.name,
      upper: box.start.upper,
      path: 'sandboxes/long/snapshots/x.squashfs',
      bytesMax: 1e8,
    });
    await assert.rejects(asked, { code: 'snapshot_path_too_long', message: /longer than 4092 bytes$/ });
    assert.equal((await box.sh('echo alive')).output, 'alive\n');
    assert.deepEqual(readdirSync(join(dataDir, 'tmp')), []);
  });

  test('snapshot fails and the sandbox runs on when the image would pass its limit', async () => {
    await using box = await launchSandbox(place, 'large');
    await box.sh('dd if=/dev/urandom of=/big bs=64k count=64');
    const asked = client.pack({
      name: box.start.name,
      upper: box.start.upper,
      path: 'sandboxes/large/snapshots/x.squashfs',
      bytesMax: 1_000_000,
    });
    await assert.rejects(asked, { code: 'disk_full' });
    assert.ok(!existsSync(join(dataDir, 'sandboxes/large/snapshots/x.squashfs')));
    assert.equal((await box.sh('echo alive')).output, 'alive\n');
    assert.deepEqual(readdirSync(join(dataDir, 'tmp')), []);
  });
});
