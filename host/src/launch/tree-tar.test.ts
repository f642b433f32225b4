/** Trees become tars that GNU tar makes the same trees of, whatever a sandbox has written. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { repository } from '../../../tests/support/base-layer.ts';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher } from '../../../tests/support/launcher.ts';

const written = [
  'mkdir -p /data/deep; cd /data; echo text >file; chmod 4751 file; ln file deep/second; ln -s file link; ln link link2',
  'mkfifo -m 640 fifo; mkdir "odd\nname" -- -d; echo x >"odd\nname/$(printf \'\\377 =%%\')"; : >empty',
  'dd if=/dev/urandom of=/data/holes bs=1000 count=1 seek=3000 2>/dev/null; touch -d "1965-01-02 03:04:05" empty',
  'touch -d "2242-03-17 00:00:00" deep/second; rm /etc/os-release; rm -r /home; mkdir /home; echo new >/home/only',
  'n=$(printf "%0200d" 7); mkdir -p $n/$n; echo x >$n/$n/$n; ln -s $n/$n/$n long; ln $n/$n/$n zlong; sync',
].join('; ');

await insideLauncher(import.meta.filename, ['default', 'single'], (place) => {
  const { client, dataDir } = place;
  const firstId = place.mode === 'single' ? 0 : 1;
  const list = (tree: string, first: number): readonly string[] =>
    execFileSync('python3', [join(repository, 'tests/support/list-tree.py'), tree, String(first)], {
      encoding: 'utf8',
    })
      .trim()
      .split('\n');

  async function tarOf(path: string, name: string): Promise<Buffer> {
    const file = join(dataDir, name);
    const stream = client.treeTar(path);
    await pipeline(stream, createWriteStream(file));
    return readFileSync(file);
  }

  test('tar of an upper unpacks to the same tree by GNU tar, and is the same each time', async () => {
    await using box = await launchSandbox(place, 'told');
    const made = await box.sh(written);
    assert.equal(made.exitCode, 0, made.output);
    if (firstId === 1) await box.sh('chown -h 1000:2000 /data/file /data/link; chown 65533 /data/fifo');
    const upper = `${box.start.upper.path}/data`;
    const tree = join(dataDir, upper);
    execFileSync('python3', [
      '-c',
      'import os,sys\nfor n,v in (("user.plain",b"a\\0b\\n"),("user.of=two%",b"\\0\\xff"),("user.large",b"z"*700)): os.setxattr(sys.argv[1],n,v)',
      join(tree, 'data/deep'),
    ]);
    const tar = await tarOf(upper, 'one.tar');
    assert.ok(tar.equals(await tarOf(upper, 'one.tar')));
    const unpacked = join(dataDir, 'unpacked');
    mkdirSync(unpacked);
    const words = ['--numeric-owner', '--same-owner', '--xattrs', '--xattrs-include=*', '-xpf'];
    execFileSync('tar', [...words, join(dataDir, 'one.tar'), '-C', unpacked], { stdio: 'pipe' });
    const expected = list(tree, firstId);
    assert.deepEqual(list(unpacked, 0), expected);
    await client.packTar({ path: 'one.tar', target: 'modules/one.squashfs', bytesMax: 1e8 });
    const unpack = { path: 'modules/one.squashfs', bytesMax: 1e8, inodesMax: 10_000 };
    await client.unpack({ ...unpack, target: 'layers/one' });
    // Squashfs has whole seconds of 32 bits, and its own root; sqfstar takes the name of an attribute as it is written.
    const asSquashfs = (lines: readonly string[]): readonly string[] =>
      lines
        .slice(1)
        .map((line) =>
          line.replace(/"mtime": (-?\d+)\d{9}/, '"mtime": $1').replace(/of(=|%3D)two(%25|%)/, ''),
        )
        .filter(
          (line) =>
            !/"mtime": (-|\d{11})/.test(line) && !/"path": "data\/(empty|deep\/second|file)"/.test(line),
        );
    assert.deepEqual(asSquashfs(list(join(dataDir, 'layers/one'), firstId)), asSquashfs(expected));
    await rm(unpacked, { recursive: true });
  });

  test('tar stays one while the tree is written, and ends with whoever reads it', async () => {
    await using box = await launchSandbox(place, 'busy');
    await box.sh(
      'mkdir /busy; cd /busy; for i in 1 2 3 4 5 6 7 8 9; do dd if=/dev/urandom of=$i bs=64k count=16; done',
    );
    const upper = `${box.start.upper.path}/data`;
    const stream = client.treeTar(upper);
    await stream.next();
    // What it has not come to yet, while it waits for us.
    const gone = await box.sh('cd /busy; : >7; rm 8; echo more >>9; mkdir 8');
    assert.equal(gone.exitCode, 0, gone.output);
    const rest = [];
    for await (const piece of stream) rest.push(piece);
    assert.ok(Buffer.concat(rest).length % 512 === 0);
    const left = client.treeTar(upper);
    await left.next();
    await left.return({ changed: 0 });
    const stop = new AbortController();
    const aborted = client.treeTar(upper, stop.signal);
    await aborted.next();
    stop.abort();
    await assert.rejects(async () => {
      for await (const piece of aborted) void piece;
    });
    await assert.rejects(client.treeTar('layers/none').next(), { code: 'layer_corrupt' });
    writeFileSync(join(dataDir, 'tmp/file'), '');
    await assert.rejects(client.treeTar('tmp/file').next(), { code: 'layer_corrupt' });
    await rm(join(dataDir, 'tmp/file'));
  });
});
