/** Images whose marks root of a host has written: translated where that is possible, refused or left alone where not. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { needsRoot } from '../../../tests/support/small-disk.ts';
import { translateTrustedMarks } from './trusted-marks.ts';

class Place implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'squash-marks-'));
  readonly tree = join(this.path, 'tree');
  readonly image = join(this.path, 'image');
  readonly copy = join(this.path, 'copy');

  constructor() {
    mkdirSync(join(this.tree, 'dir'), { recursive: true });
    // More attributes than fit one block of the table.
    const dump = Array.from({ length: 600 }, (_, i) => {
      writeFileSync(join(this.tree, `f${i}`), '');
      return `# file: f${i}\nuser.number="${`${i} `.repeat(12)}"\n`;
    });
    execFileSync('setfattr', ['--restore=-'], { cwd: this.tree, input: dump.join('\n') });
  }

  mark(name: string): void {
    execFileSync('setfattr', ['-n', name, '-v', 'y', join(this.tree, 'dir')]);
  }

  pack(options: readonly string[]): void {
    rmSync(this.image, { force: true });
    const words = [this.tree, this.image, '-xattrs', '-quiet', '-no-progress', ...options];
    execFileSync('mksquashfs', words, { stdio: 'ignore' });
  }

  /** All attributes of the copy's tree. */
  unpacked(): string {
    const out = join(this.path, 'out');
    rmSync(out, { recursive: true, force: true });
    execFileSync('unsquashfs', ['-quiet', '-no-progress', '-d', out, this.copy], { stdio: 'ignore' });
    return execFileSync('getfattr', ['-R', '-d', '-m', '-', '.'], { cwd: out, encoding: 'utf8' });
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

test('trusted marks become those of a user namespace, and nothing else changes', {
  skip: needsRoot,
}, async () => {
  for (const options of [['-comp', 'zstd'], ['-comp', 'gzip'], ['-noX']]) {
    using place = new Place();
    place.pack(options);
    assert.equal(await translateTrustedMarks(place.image, place.copy), false);
    assert.ok(!existsSync(place.copy));
    place.mark('trusted.overlay.opaque');
    place.pack(options);
    const before = execFileSync('getfattr', ['-R', '-d', '-m', '-', '.'], {
      cwd: place.tree,
      encoding: 'utf8',
    });
    assert.equal(await translateTrustedMarks(place.image, place.copy), true);
    assert.equal(place.unpacked(), before.replace('trusted.overlay.opaque', 'user.overlay.opaque'));
  }
});

test('an image is refused when it has marks that are not followed there', { skip: needsRoot }, async () => {
  using place = new Place();
  place.mark('trusted.overlay.redirect');
  place.pack([]);
  await assert.rejects(translateTrustedMarks(place.image, place.copy), {
    code: 'layer_corrupt',
    message: /"trusted\.overlay\.redirect", which an overlay in a user namespace does not follow/,
  });
});

test('an image is left alone when its tables are garbage', { skip: needsRoot }, async () => {
  using place = new Place();
  place.mark('trusted.overlay.opaque');
  place.pack(['-noX']);
  const good = readFileSync(place.image);
  const start = Number(good.readBigUInt64LE(56));
  let translated = 0;
  for (let at = start - 20_000; at < start + 40; at += 61) {
    const bad = Buffer.from(good);
    bad.writeUInt32LE(0xfffffff0, at);
    writeFileSync(place.image, bad);
    // Either way it ends: what is wrong the tools say.
    if (await translateTrustedMarks(place.image, place.copy)) translated += 1;
    rmSync(place.copy, { force: true });
  }
  assert.ok(translated > 0);
  writeFileSync(place.image, good.subarray(0, start + 10));
  assert.equal(await translateTrustedMarks(place.image, place.copy), false);
});
