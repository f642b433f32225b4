/** Archives of images that nobody should have made. What is in one layer is the matter of `host/src/oci/layer-tree.test.ts`. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { configOf, dockerArchive, type RawEntry, sha256, tarOf } from '../support/image-archive.ts';

let directory: string;
let daemon: TestDaemon;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'squash-hostile-'));
  daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: 'token-of-images' } });
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

const good = tarOf([{ name: 'f', data: 'f' }]);
const oci = (files: Readonly<Record<string, string | Buffer>>): Buffer =>
  tarOf(Object.entries(files).map(([name, data]) => ({ name, data })));
const blob = (data: string | Buffer): Readonly<Record<string, string | Buffer>> => ({
  [`blobs/sha256/${sha256(data)}`]: data,
});
const described = (data: string | Buffer) => ({
  mediaType: 'x',
  digest: `sha256:${sha256(data)}`,
  size: Buffer.byteLength(data),
});
const config = configOf({ layers: [good] });
const manifest = JSON.stringify({ schemaVersion: 2, config: described(config), layers: [described(good)] });
const indexOf = (data: string): string => JSON.stringify({ schemaVersion: 2, manifests: [described(data)] });
const layoutFile = { 'oci-layout': '{"imageLayoutVersion":"1.0.0"}' };

const archives: Readonly<Record<string, readonly [Buffer, string]>> = {
  'no archive': [Buffer.from('hello'), 'image_invalid'],
  'an empty tar': [tarOf([]), 'image_invalid'],
  'a compressed archive': [gzipSync(dockerArchive({ layers: [good] })), 'image_invalid'],
  'a layer with another digest': [
    dockerArchive({ layers: [good], diffIds: ['0'.repeat(64)] }),
    'image_invalid',
  ],
  'fewer layers than it says': [dockerArchive({ layers: [good], diffIds: [] }), 'image_invalid'],
  'a layer that is no tar': [dockerArchive({ layers: [Buffer.from('x'.repeat(1_024))] }), 'image_invalid'],
  'a layer that leads out': [
    dockerArchive({ layers: [tarOf([{ name: '../../etc/cron.d/x', data: 'x' }])] }),
    'image_invalid',
  ],
  'a layer whose gzip is cut': [
    dockerArchive({ layers: [gzipSync(good).subarray(0, 60)], diffIds: [sha256(good)] }),
    'image_invalid',
  ],
  'a layer whose zstd is cut': [
    dockerArchive({ layers: [zstdCompressSync(good).subarray(0, 40)], diffIds: [sha256(good)] }),
    'image_invalid',
  ],
  'a layer in bzip2': [dockerArchive({ layers: [Buffer.from('BZh91AY&SY')] }), 'image_unsupported'],
  'a layer in xz': [dockerArchive({ layers: [Buffer.from('fd377a585a000000', 'hex')] }), 'image_unsupported'],
  'another processor': [
    dockerArchive({ layers: [good], config: { architecture: 's390x' } }),
    'image_unsupported',
  ],
  'another system': [dockerArchive({ layers: [good], config: { os: 'windows' } }), 'image_unsupported'],
  'variables without a name': [
    dockerArchive({ layers: [good], config: { config: { Env: ['=x'] } } }),
    'image_invalid',
  ],
  'too many variables': [
    dockerArchive({
      layers: [good],
      config: { config: { Env: Array.from({ length: 300 }, (_, at) => `V${at}=1`) } },
    }),
    'image_invalid',
  ],
  'a working directory that goes up': [
    dockerArchive({ layers: [good], config: { config: { WorkingDir: '/a/../..' } } }),
    'image_invalid',
  ],
  'a date of a megabyte': [
    dockerArchive({ layers: [good], config: { created: 'x'.repeat(1_000_000) } }),
    'image_invalid',
  ],
  'labels whose record no daemon would read again': [
    dockerArchive({
      layers: [good],
      config: {
        config: {
          Labels: { a: '\u0001'.repeat(65_000) },
          Cmd: ['\u0001'.repeat(65_000)],
          Entrypoint: ['\u0001'.repeat(65_000)],
        },
      },
    }),
    'image_invalid',
  ],
  'labels of a megabyte': [
    dockerArchive({ layers: [good], config: { config: { Labels: { a: 'x'.repeat(1_000_000) } } } }),
    'image_invalid',
  ],
  'a configuration that is no JSON': [
    tarOf([
      { name: 'manifest.json', data: '[{"Config":"c","Layers":[]}]' },
      { name: 'c', data: '{' },
    ]),
    'image_invalid',
  ],
  'a configuration that is not there': [
    tarOf([{ name: 'manifest.json', data: '[{"Config":"c","Layers":[]}]' }]),
    'image_invalid',
  ],
  'a configuration outside': [
    tarOf([{ name: 'manifest.json', data: '[{"Config":"../../etc/passwd","Layers":[]}]' }]),
    'image_invalid',
  ],
  'a configuration that is a link outside': [
    tarOf([
      { name: 'manifest.json', data: '[{"Config":"c","Layers":[]}]' },
      { name: 'c', flag: '2', target: '/etc/passwd' },
    ]),
    'image_invalid',
  ],
  'links in a circle': [
    tarOf([
      { name: 'manifest.json', data: '[{"Config":"c","Layers":[]}]' },
      { name: 'c', flag: '2', target: 'd' },
      { name: 'd', flag: '2', target: 'c' },
    ]),
    'image_invalid',
  ],
  'links to names of megabytes': [
    Buffer.concat([
      tarOf(
        Array.from({ length: 9 }, (_, at) => ({
          name: `${at}`,
          flag: '2',
          pax: { linkpath: 'x'.repeat(1_000_000) },
        })),
        Buffer.alloc(0),
      ),
      dockerArchive({ layers: [good] }),
    ]),
    'image_invalid',
  ],
  'two lists': [
    Buffer.concat([
      tarOf([{ name: 'manifest.json', data: '[]' }], Buffer.alloc(0)),
      dockerArchive({ layers: [good] }),
    ]),
    'image_invalid',
  ],
  'a manifest with another digest': [
    oci({
      ...layoutFile,
      'index.json': indexOf(manifest),
      [`blobs/sha256/${sha256(manifest)}`]: manifest.replace('2', '3'),
    }),
    'image_invalid',
  ],
  'a manifest that is not there': [oci({ ...layoutFile, 'index.json': indexOf(manifest) }), 'image_invalid'],
  'a manifest that is an index as well': [
    oci({
      ...layoutFile,
      'index.json': indexOf('{"manifests":[],"config":{}}'),
      ...blob('{"manifests":[],"config":{}}'),
    }),
    'image_invalid',
  ],
  'a manifest of schema 1': [
    oci({ ...layoutFile, 'index.json': indexOf('{"schemaVersion":1}'), ...blob('{"schemaVersion":1}') }),
    'image_unsupported',
  ],
  'a layer of another size': [
    oci({
      ...layoutFile,
      ...(() => {
        const spoilt = manifest.replace(`"size":${good.length}`, `"size":${good.length + 1}`);
        return { 'index.json': indexOf(spoilt), ...blob(spoilt) };
      })(),
      ...blob(config),
      ...blob(good),
    }),
    'image_invalid',
  ],
  'a layout of version 9': [
    oci({ 'oci-layout': '{"imageLayoutVersion":"9"}', 'index.json': indexOf(manifest) }),
    'image_invalid',
  ],
};

/** The only layer of an image. */
const inLayer = (...entries: RawEntry[]): Buffer => dockerArchive({ layers: [tarOf(entries)] });
const withConfig = (config: Readonly<Record<string, unknown>>): Buffer =>
  dockerArchive({ layers: [good], config: { config } });
const listed = (list: string, ...more: RawEntry[]): Buffer =>
  tarOf([{ name: 'manifest.json', data: list }, ...more]);
/** A layout whose index names this manifest, with its blobs. */
const layoutOf = (own: string, ...blobs: (string | Buffer)[]): Buffer =>
  oci(Object.assign({ ...layoutFile, 'index.json': indexOf(own) }, ...[own, ...blobs].map(blob)));
const nested = (depth: number): readonly string[] =>
  Array.from({ length: depth }).reduce<string[]>((all) => [...all, indexOf(all.at(-1) ?? '')], [manifest]);

const refusedLists: Readonly<Record<string, readonly [Buffer, string]>> = {
  'a list of another shape': [listed('{}'), 'image_invalid'],
  'a list with nothing in it': [listed('[]'), 'image_invalid'],
  'a list that is a directory': [tarOf([{ name: 'manifest.json/' }]), 'image_invalid'],
  'a list that is too long': [listed(`[${' '.repeat(5_000_000)}]`), 'image_invalid'],
  'a layer that is not there': [
    listed('[{"Config":"c","Layers":["l"]}]', { name: 'c', data: config }),
    'image_invalid',
  ],
  'a layer outside': [
    listed('[{"Config":"c","Layers":["../../etc/passwd"]}]', { name: 'c', data: config }),
    'image_invalid',
  ],
  'a layer that is a link outside': [
    listed(
      '[{"Config":"c","Layers":["l"]}]',
      { name: 'c', data: config },
      { name: 'l', flag: '2', target: '/etc/passwd' },
    ),
    'image_invalid',
  ],
  'a configuration of five megabytes': [
    listed('[{"Config":"c","Layers":[]}]', { name: 'c', data: ' '.repeat(5_000_000) }),
    'image_invalid',
  ],
  'an archive that ends within a layer': [
    dockerArchive({ layers: [good] }).subarray(0, 3_000),
    'image_invalid',
  ],
  'a diff id that is none': [dockerArchive({ layers: [good], diffIds: ['xyz'] }), 'image_invalid'],
  'six hundred layers': [
    dockerArchive({ layers: [good], diffIds: Array.from({ length: 600 }, () => sha256(good)) }),
    'image_invalid',
  ],
  'a root file system of another kind': [
    dockerArchive({ layers: [good], config: { rootfs: { type: 'windows', diff_ids: [] } } }),
    'image_invalid',
  ],
  'a layout without an index': [oci(layoutFile), 'image_invalid'],
  'a layout that is no JSON': [oci({ 'oci-layout': '{', 'index.json': indexOf(manifest) }), 'image_invalid'],
  'an index of indexes of indexes': [layoutOf(nested(6).at(-1) ?? '', ...nested(6)), 'image_invalid'],
  'an index that leads outside': [
    oci({ ...layoutFile, 'index.json': indexOf(manifest).replace('sha256:', 'sha256:../../') }),
    'image_invalid',
  ],
  'a digest of another kind': [
    oci({ ...layoutFile, 'index.json': indexOf(manifest).replace('sha256:', 'md5:') }),
    'image_invalid',
  ],
  'a size below nothing': [
    oci({ ...layoutFile, 'index.json': indexOf(manifest).replace('"size":', '"size":-') }),
    'image_invalid',
  ],
  'an image for others alone': [
    layoutOf(
      JSON.stringify({
        manifests: [{ ...described(manifest), platform: { os: 'linux', architecture: 's390x' } }],
      }),
      manifest,
    ),
    'image_unsupported',
  ],
  'a configuration with another digest': [
    oci({
      ...layoutFile,
      'index.json': indexOf(manifest),
      ...blob(manifest),
      ...blob(good),
      [`blobs/sha256/${sha256(config)}`]: config.replace('linux', 'linuX'),
    }),
    'image_invalid',
  ],
  'a blob with another digest': [
    oci({
      ...layoutFile,
      'index.json': indexOf(manifest),
      ...blob(manifest),
      ...blob(config),
      [`blobs/sha256/${sha256(good)}`]: tarOf([{ name: 'g', data: 'f' }]),
    }),
    'image_invalid',
  ],
};

const refusedConfigs: Readonly<Record<string, readonly [Buffer, string]>> = {
  'a user with a zero byte': [withConfig({ User: 'a\0b' }), 'image_invalid'],
  'a user of three hundred letters': [withConfig({ User: 'u'.repeat(300) }), 'image_invalid'],
  'a variable with a zero byte': [withConfig({ Env: ['A=\0'] }), 'image_invalid'],
  'variables of megabytes': [withConfig({ Env: [`A=${'x'.repeat(3_000_000)}`] }), 'image_invalid'],
  'a command of two thousand words': [
    withConfig({ Cmd: Array.from({ length: 2_000 }, () => 'x') }),
    'image_invalid',
  ],
  'an entrypoint that is one word': [withConfig({ Entrypoint: 'sh' }), 'image_invalid'],
  'a working directory of five thousand letters': [
    withConfig({ WorkingDir: `/${'x'.repeat(5_000)}` }),
    'image_invalid',
  ],
  'a label that is a number': [withConfig({ Labels: { a: 1 } }), 'image_invalid'],
};

const refusedLayers: Readonly<Record<string, readonly [Buffer, string]>> = {
  'a link to a file outside': [
    inLayer({ name: 'l', flag: '1', target: '../../etc/passwd' }),
    'image_invalid',
  ],
  'a link to nothing': [inLayer({ name: 'l', flag: '1', target: 'none' }), 'image_invalid'],
  'a file below a link': [
    inLayer({ name: 'a', flag: '2', target: '/etc' }, { name: 'a/b', data: 'x' }),
    'image_invalid',
  ],
  'an owner beyond all ranges': [inLayer({ name: 'f', uid: 100_000 }), 'image_invalid'],
  'a sparse file': [inLayer({ name: 'f', flag: 'S' }), 'image_invalid'],
  'a type that nobody knows': [inLayer({ name: 'f', flag: 'Z' }), 'image_invalid'],
  'a size beyond its end': [inLayer({ name: 'f', size: 1_000_000 }), 'image_invalid'],
  'a size below nothing in a layer': [
    inLayer({ name: 'f', spoil: (header) => header.fill(0xff, 124, 136) }),
    'image_invalid',
  ],
  'a header whose sum is wrong': [
    inLayer({ name: 'f', spoil: (header) => header.write('g', 0) }),
    'image_invalid',
  ],
  'a size in pax that is no number': [inLayer({ name: 'f', pax: { size: '1e3' } }), 'image_invalid'],
  'an owner in pax that is no number': [inLayer({ name: 'f', pax: { uid: '-1' } }), 'image_invalid'],
  'a name of three hundred letters': [
    inLayer({ name: 'f', pax: { path: 'n'.repeat(300) } }),
    'image_invalid',
  ],
  'a name that goes up and comes back': [inLayer({ name: 'a/../../f' }), 'image_invalid'],
  'a deletion of nothing': [inLayer({ name: '.wh.' }), 'image_invalid'],
  'a deletion of what is above': [inLayer({ name: 'a/.wh...' }), 'image_invalid'],
};

test('archives that are malformed or hostile are refused, and nothing is left of them', async () => {
  const before = readdirSync(join(daemon.dataDir, 'modules'));
  const all = { ...archives, ...refusedLists, ...refusedConfigs, ...refusedLayers };
  for (const [what, [bytes, code]] of Object.entries(all)) {
    const answer = await fetch(`${daemon.url}/v1/images?name=hostile:1`, {
      method: 'PUT',
      headers: { authorization: 'Bearer token-of-images' },
      body: bytes,
    });
    assert.equal(((await answer.json()) as { readonly code: string }).code, code, what);
  }
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'modules')), before);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
  // The same form without the fault.
  const whole = join(directory, 'whole.tar');
  writeFileSync(
    whole,
    oci({
      ...layoutFile,
      'index.json': indexOf(manifest),
      ...blob(manifest),
      ...blob(config),
      ...blob(good),
    }),
  );
  await squashOk(daemon, ['image', 'import', whole, '--name', 'whole:1']);
});

test('a user is looked up in the file that a sandbox sees, and in none that a layer has deleted', async () => {
  const passwd = tarOf([{ name: 'etc/' }, { name: 'etc/passwd', data: 'app:x:1000:1000::/home:/bin/sh\n' }]);
  const above: Readonly<Record<string, readonly [RawEntry, number | null]>> = {
    kept: [{ name: 'etc/group', data: 'app:x:1000:\n' }, 1_000],
    deleted: [{ name: 'etc/.wh.passwd' }, null],
    'deleted with its directory': [{ name: '.wh.etc' }, null],
    replaced: [{ name: 'etc/passwd', data: 'app:x:7:7::/:/bin/sh\n' }, 7],
    'a link': [{ name: 'etc/passwd', flag: '2', target: '../../../../etc/passwd' }, null],
    'below a link': [{ name: 'etc', flag: '2', target: '/etc' }, null],
  };
  for (const [what, [entry, uid]] of Object.entries(above)) {
    const file = join(directory, 'user.tar');
    const layers = [passwd, tarOf([entry])];
    writeFileSync(file, dockerArchive({ layers, config: { config: { User: 'app' } } }));
    const words = ['image', 'import', file, '--name', 'user:1', '--json'];
    const image = JSON.parse(await squashOk(daemon, words)) as { readonly uid: number | null };
    assert.equal(image.uid, uid, what);
  }
});
