/** Trust layers on trees of ordinary and of hostile images. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { rootCertificates } from 'node:tls';
import { type LayerDigest, layerDigestSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { loadInstallationCa } from '@squash/installation/installation-ca';
import { systemClock } from '@squash/base/clock';
import { trustPaths } from './trust-environment.ts';
import { TrustLayers } from './trust-layers.ts';

const bundlePath = 'etc/ssl/certs/ca-certificates.crt';
const tree = (letter: string): LayerDigest => layerDigestSchema.parse(letter.repeat(64));

class Place implements AsyncDisposable {
  readonly dataDir: string;
  readonly authority: string;
  readonly layers: TrustLayers;

  private constructor(dataDir: string, authority: string) {
    this.dataDir = dataDir;
    this.authority = authority;
    this.layers = this.renewed();
  }

  static async make(): Promise<Place> {
    const dataDir = await mkdtemp(join(tmpdir(), 'squash-trust-'));
    for (const name of ['layers', 'tmp']) await mkdir(join(dataDir, name));
    const { certificate } = await loadInstallationCa(join(dataDir, 'proxy-ca'), systemClock);
    return new Place(dataDir, certificate);
  }

  /** As the next daemon has it. */
  renewed(): TrustLayers {
    const removeTree = (path: string): Promise<void> =>
      rm(join(this.dataDir, path), { recursive: true, force: true });
    return new TrustLayers({ dataDir: this.dataDir, authority: this.authority, removeTree });
  }

  path(digest: LayerDigest, name = ''): string {
    return join(this.dataDir, 'layers', digest, name);
  }

  async put(digest: LayerDigest, name: string, content: string): Promise<void> {
    await mkdir(dirname(this.path(digest, name)), { recursive: true });
    await writeFile(this.path(digest, name), content);
  }

  async bundle(lowers: readonly LayerDigest[]): Promise<string> {
    return readFile(this.path(await this.layers.ensure(lowers), trustPaths.bundle), 'utf8');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.dataDir, { recursive: true });
  }
}

const [one = '', two = ''] = rootCertificates;

test('a trust layer holds the topmost bundle of the stack with the authority behind it', async () => {
  await using place = await Place.make();
  await place.put(tree('a'), bundlePath, `${one}\n`);
  await place.put(tree('b'), bundlePath, `${two}\n`);
  const text = await place.bundle([tree('b'), tree('a')]);
  assert.ok(text.includes(two) && !text.includes(one));
  assert.ok(text.trimEnd().endsWith(place.authority.trimEnd()));
  assert.ok((await place.bundle([tree('a')])).includes(one));
});

test('a trust layer has the public authorities where the stack has no bundle', async () => {
  await using place = await Place.make();
  await place.put(tree('a'), 'etc/passwd', '');
  const digest = await place.layers.ensure([tree('a')]);
  const text = await readFile(place.path(digest, trustPaths.bundle), 'utf8');
  assert.ok(text.includes(one) && text.includes(two));
  const authority = await readFile(place.path(digest, trustPaths.authority), 'utf8');
  assert.equal(new X509Certificate(authority).ca, true);
  for (const path of [trustPaths.bundle, trustPaths.authority, trustPaths.java]) {
    assert.equal((await stat(place.path(digest, path))).mode & 0o777, 0o644, path);
    assert.equal((await stat(dirname(place.path(digest, path)))).mode & 0o777, 0o755, path);
  }
});

test('equal stacks share one tree, the next daemon finds it, and a collected one is made again', async () => {
  await using place = await Place.make();
  await place.put(tree('a'), bundlePath, one);
  await place.put(tree('b'), 'etc/passwd', '');
  const [first, second] = await Promise.all([
    place.layers.ensure([tree('a')]),
    place.layers.ensure([tree('a')]),
  ]);
  assert.equal(first, second);
  assert.equal(await place.layers.ensure([tree('b'), tree('a')]), first);
  const made = await stat(place.path(first));
  assert.equal(await place.renewed().ensure([tree('a')]), first);
  assert.equal((await stat(place.path(first))).ino, made.ino);
  await rm(place.path(first), { recursive: true });
  assert.equal(await place.layers.ensure([tree('a')]), first);
  assert.ok((await stat(place.path(first, trustPaths.bundle))).isFile());
});

test('many who find the tree collected at the same time make it once', async () => {
  await using place = await Place.make();
  await place.put(tree('a'), bundlePath, `${one}\n`);
  let removed = 0;
  const removeTree = async (path: string): Promise<void> => {
    removed += 1;
    await rm(join(place.dataDir, path), { recursive: true });
  };
  const layers = new TrustLayers({ dataDir: place.dataDir, authority: place.authority, removeTree });
  const digest = await layers.ensure([tree('a')]);
  await rm(place.path(digest), { recursive: true });
  const found = await Promise.all(Array.from({ length: 8 }, () => layers.ensure([tree('a')])));
  assert.deepEqual(new Set(found), new Set([digest]));
  assert.ok(await stat(place.path(digest)));
  assert.equal(removed, 0, 'each but the first had made one that was not needed');
});

test('nothing outside a tree gets into a bundle', async () => {
  await using place = await Place.make();
  const outside = join(place.dataDir, 'outside.crt');
  await writeFile(outside, one);
  await mkdir(dirname(place.path(tree('a'), bundlePath)), { recursive: true });
  await symlink(outside, place.path(tree('a'), bundlePath));
  await mkdir(place.path(tree('b'), 'etc'), { recursive: true });
  await mkdir(join(place.dataDir, 'certs/certs'), { recursive: true });
  await writeFile(join(place.dataDir, 'certs/certs/ca-certificates.crt'), one);
  await symlink(join(place.dataDir, 'certs'), place.path(tree('b'), 'etc/ssl'));
  await place.put(tree('c'), bundlePath, '');
  await truncate(place.path(tree('c'), bundlePath), limits.trustBundleBytesMax + 1);
  await place.put(tree('d'), bundlePath, two);
  for (const hostile of [tree('a'), tree('b'), tree('c')]) {
    const text = await place.bundle([hostile, tree('d')]);
    assert.ok(text.includes(two) && !text.includes(one));
  }
});
