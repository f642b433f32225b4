/**
 * Layers that nobody should have made: each is refused with a sentence, or becomes a tree that can hurt nobody. The names of what is
 * left, in the order of the tar that is written, is what comes of it.
 */
import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type RawEntry, tarOf } from '../../../tests/support/image-archive.ts';
import { writeLayer } from './layer-tar.ts';
import { LayerTree } from './layer-tree.ts';
import { readTar, type TarEntry } from './tar-reader.ts';

const directory = mkdtempSync(join(tmpdir(), 'squash-layer-tree-'));
after(() => rmSync(directory, { recursive: true }));
const bounds = { entriesMax: 64, textBytesMax: 12_288 };
const capability = '\u0001\0\0\u0002\0\u0004\0\0\0\0\0\0\0\0\0\0\0\0\0\0';

/** As it would be unpacked: written anew and read again. */
function taken(archive: Buffer): {
  readonly entries: readonly TarEntry[];
  readonly tree: LayerTree;
  readonly tar: Buffer;
} {
  const paths = { source: join(directory, 'source'), target: join(directory, 'target') };
  writeFileSync(paths.source, archive);
  const source = openSync(paths.source, 'r');
  const target = openSync(paths.target, 'w+');
  try {
    const tree = new LayerTree(bounds);
    for (const entry of readTar({ descriptor: source, offset: 0, length: archive.length })) tree.add(entry);
    const { bytes } = writeLayer(tree, { source, target });
    return {
      tree,
      entries: [...readTar({ descriptor: target, offset: 0, length: bytes })],
      tar: readFileSync(paths.target),
    };
  } finally {
    closeSync(source);
    closeSync(target);
  }
}

const shownFlags = { file: '', directory: '/', symlink: '@', link: '=', fifo: '|', device: '!' };
const shape = (archive: Buffer): string =>
  taken(archive)
    .entries.map(({ name, type, target }) => `${name}${shownFlags[type]}${target}`)
    .join(' ');

const long = 'n'.repeat(256);
const file = (name: string, more: Partial<RawEntry> = {}): RawEntry => ({ name, data: name, ...more });

const refused: Readonly<Record<string, readonly [readonly RawEntry[] | Buffer, RegExp]>> = {
  'a path that goes up': [[file('../etc/passwd')], /leads out/],
  'a path that goes up in the middle': [[file('a/../../etc/passwd')], /leads out/],
  'a path that goes up and stays': [[file('a/../b')], /leads out/],
  'an absolute path that goes up': [[file('/../etc/passwd')], /leads out/],
  'a pax path that goes up': [[file('fine', { pax: { path: '../../etc/shadow' } })], /leads out/],
  'a hard link that goes up': [[{ name: 'a', flag: '1', target: '../../etc/passwd' }], /leads out/],
  'a hard link to what is not there': [[{ name: 'a', flag: '1', target: 'b' }], /does not have/],
  'a hard link to itself': [[{ name: 'a', flag: '1', target: 'a' }], /does not have/],
  'a hard link to a directory': [
    [{ name: 'd/' }, { name: 'a', flag: '1', target: 'd' }],
    /hard link to a directory/,
  ],
  'a hard link through a symbolic link': [
    [
      { name: 'd/' },
      file('d/f'),
      { name: 's', flag: '2', target: 'd' },
      { name: 'a', flag: '1', target: 's/f' },
    ],
    /does not have/,
  ],
  'a file below a symbolic link out': [
    [{ name: 'a', flag: '2', target: '/etc' }, file('a/passwd')],
    /no directory/,
  ],
  'a file below a symbolic link up': [
    [{ name: 'a', flag: '2', target: '..' }, file('a/b/c')],
    /no directory/,
  ],
  'a file below a file': [[file('a'), file('a/b')], /no directory/],
  'a file below a fifo': [[{ name: 'a', flag: '6' }, file('a/b')], /no directory/],
  'a directory below a symbolic link': [
    [{ name: 'a', flag: '2', target: 'b' }, { name: 'a/c/' }],
    /no directory/,
  ],
  'a mark of deletion below a symbolic link': [
    [{ name: 'a', flag: '2', target: '/' }, file('a/.wh.etc')],
    /no directory/,
  ],
  'a symbolic link to nothing': [[{ name: 'a', flag: '2' }], /to nowhere/],
  'a symbolic link with a zero byte': [[{ name: 'a', flag: '2', pax: { linkpath: 'b\0c' } }], /to nowhere/],
  'a name with a zero byte': [[file('a', { pax: { path: 'a\0b' } })], /zero byte/],
  'a name of 256 bytes': [[file('a', { pax: { path: `d/${long}` } })], /longer than 255/],
  'a path of 5,000 bytes': [[file('a', { pax: { path: 'd/'.repeat(2_500) } })], /longer than 4095/],
  'a root that is a file': [
    [file('./')].map((each) => ({ ...each, flag: '0', name: '.' })),
    /root is no directory/,
  ],
  'a mark that deletes ..': [[file('a/.wh...')], /deletes nothing/],
  'a mark that deletes .': [[file('a/.wh..')], /deletes nothing/],
  'a mark that deletes nothing': [[file('a/.wh.')], /deletes nothing/],
  'a mark that is a directory': [[{ name: '.wh.a/' }], /and a directory/],
  'a file in a mark': [[file('.wh.a/b')], /mark of deletion/],
  'a uid that no sandbox has': [[file('a', { uid: 65_536 })], /belongs to 65536:0/],
  'a gid that no sandbox has': [[file('a', { gid: 100_000 })], /belongs to 0:100000/],
  'a uid of 32 bits by pax': [[file('a', { pax: { uid: '4294967295' } })], /belongs to/],
  'a uid that is no number': [[file('a', { pax: { uid: '-1' } })], /no number/],
  'a size that is no number': [[file('a', { pax: { size: '0x10' } })], /no number/],
  'a size of 2^60': [[file('a', { pax: { size: '1152921504606846976' } })], /no number/],
  'a size behind the end': [[file('a', { size: 1_000_000 })], /ends|header/],
  'a size behind the end by pax': [[file('a', { pax: { size: '999999999' } })], /ends within/],
  'a negative size': [[file('a', { spoil: (header) => spoilNumber(header, 124) })], /negative|too large/],
  'a time that is no number': [[file('a', { pax: { mtime: 'soon' } })], /mtime/],
  'a sparse file of GNU': [[file('a', { flag: 'S' })], /sparse/],
  'a sparse file by pax': [[file('a', { pax: { 'GNU.sparse.major': '1' } })], /sparse/],
  'an unknown type': [[file('a', { flag: 'M' })], /unknown type/],
  'a volume label': [[file('a', { flag: 'V' })], /unknown type/],
  'a header whose sum is wrong': [[file('a', { spoil: (header) => void header.write('9', 0) })], /no header/],
  'no tar at all': [Buffer.alloc(1_024, 'x'), /no number|no header/],
  'a header that is cut': [tarOf([file('a')]).subarray(0, 300), /too early/],
  'data that is cut': [tarOf([file('a', { data: 'x'.repeat(5_000) })]).subarray(0, 2_048), /ends within/],
  'an extension that is cut': [tarOf([file('a', { pax: { path: 'b' } })]).subarray(0, 600), /too early/],
  'an extension behind which nothing comes': [
    tarOf([file('a', { pax: { path: 'b' } })]).subarray(0, 1_024),
    /extension|too early/,
  ],
  'an extension of a gigabyte': [[{ name: 'pax', flag: 'x', size: 1 << 30 }], /extensions of more than/],
  'extensions of three megabytes, each of which is small': [
    [...Array.from({ length: 3 }, () => ({ name: 'pax', flag: 'x', data: paxOf(1_000_000) })), file('a')],
    /extensions of more than/,
  ],
  'three thousand headers of extensions in a row': [
    [...Array.from({ length: 3_000 }, () => ({ name: 'g', flag: 'g' })), file('a')],
    /extensions of more than/,
  ],
  'a pax record without its end': [[{ name: 'pax', flag: 'x', data: '30 path=b' }, file('a')], /pax record/],
  'a pax record of no length': [[{ name: 'pax', flag: 'x', data: '0 path=b\n' }, file('a')], /pax record/],
  'a pax record without a key': [[{ name: 'pax', flag: 'x', data: '5 =b\n' }, file('a')], /pax record/],
  'an attribute of 100,000 bytes': [
    [file('a', { pax: { 'SCHILY.xattr.user.a': 'x'.repeat(100_000) } })],
    /attribute/,
  ],
  'more entries than the bound': [
    Array.from({ length: 65 }, (_, at) => file(`${at}`)),
    /more than 64 entries/,
  ],
  'more implied directories than the bound': [
    [file('a', { pax: { path: `${'d/'.repeat(70)}f` } })],
    /more than 64 entries/,
  ],
  'one entry a thousand times': [Array.from({ length: 1_000 }, () => file('a')), /more than 64 entries/],
  'more names than the bound': [
    Array.from({ length: 30 }, (_, at) =>
      file('a', { pax: { path: `${at}`.padStart(250, 'p') + '/' + 'q'.repeat(250) } }),
    ),
    /names and attributes/,
  ],
};

function paxOf(bytes: number): string {
  return `${bytes} comment=`.padEnd(bytes - 1, 'x') + '\n';
}

function spoilNumber(header: Buffer, at: number): void {
  header.fill(0xff, at, at + 12);
  header.fill(0x20, 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
}

for (const [what, [archive, sentence]] of Object.entries(refused)) {
  test(`a layer with ${what} is refused`, () => {
    const bytes = Buffer.isBuffer(archive) ? archive : tarOf(archive);
    assert.throws(() => taken(bytes), { code: 'tar_malformed', message: sentence });
  });
}

const accepted: Readonly<Record<string, readonly [readonly RawEntry[], string]>> = {
  'names that differ in their case alone': [
    [file('Readme'), file('README'), file('readme')],
    'README Readme readme',
  ],
  'an absolute path': [[file('/etc/hostname')], 'etc/ etc/hostname'],
  'a symbolic link out of the tree, which is a text': [
    [{ name: 'a', flag: '2', target: '../../../etc' }],
    'a@../../../etc',
  ],
  'a link in the place of a directory with files': [
    [file('d/f'), { name: 'd', flag: '2', target: '/etc' }],
    'd@/etc',
  ],
  'a directory in the place of a link': [
    [{ name: 'd', flag: '2', target: '/etc' }, { name: 'd/' }, file('d/f')],
    'd/ d/f',
  ],
  'a directory twice, with what is in it': [
    [{ name: 'd/' }, file('d/f'), { name: 'd/', mode: 0o700 }],
    'd/ d/f',
  ],
  'device nodes, which are left out': [
    [{ name: 'null', flag: '3' }, { name: 'sda', flag: '4' }, file('f')],
    'f',
  ],
  'a character device 0:0, which would be a whiteout': [[{ name: 'etc', flag: '3', mode: 0 }], ''],
  'hard links, whichever comes first': [[file('b'), { name: 'a', flag: '1', target: 'b' }], 'a b=a'],
  'a hard link to what is replaced later': [
    [file('a'), { name: 'b', flag: '1', target: 'a' }, file('a')],
    'a b',
  ],
  'a whiteout': [[file('d/.wh.f')], 'd/ d/f!'],
  'a whiteout beside a file of its name': [[file('.wh.f'), file('f')], 'f'],
  'a whiteout behind a directory of its name': [[file('d/f'), file('.wh.d')], 'd/ d/f'],
  'whiteouts in an opaque directory': [[file('d/.wh.a'), file('d/.wh..wh..opq'), file('d/b')], 'd/ d/b'],
  'names of aufs': [[file('.wh..wh.plnk'), file('.wh..wh.aufs'), file('f')], 'f'],
  'global extensions': [[{ name: 'g', flag: 'g', data: '10 path=z\n' }, file('f')], 'f'],
  'a name that is no UTF-8': [[file('a', { pax: { path: '\xff\xfe' } })], '\xff\xfe'],
  'no entry at all': [[], ''],
};

for (const [what, [archive, wanted]] of Object.entries(accepted)) {
  test(`a layer with ${what} becomes a tree`, () => assert.equal(shape(tarOf(archive)), wanted));
}

test('a layer keeps modes, owners, times and attributes, and no word to the overlay or the host', () => {
  const { entries } = taken(
    tarOf([
      file('f', {
        mode: 0o4755,
        uid: 1_000,
        gid: 65_535,
        mtime: 1_600_000_000,
        pax: {
          mtime: '1600000000.987654321',
          'SCHILY.xattr.user.mark': 'a\0b',
          'SCHILY.xattr.security.capability': capability,
          'SCHILY.xattr.user.overlay.redirect': '/etc',
          'SCHILY.xattr.user.overlay.metacopy': '',
          'SCHILY.xattr.user.fuseoverlayfs.opaque': 'y',
          'SCHILY.xattr.trusted.overlay.opaque': 'y',
          'SCHILY.xattr.security.selinux': 'system_u',
        },
      }),
      { name: 'd/', mode: 0o1777, pax: { 'SCHILY.xattr.user.overlay.opaque': 'y' } },
    ]),
  );
  const [directoryEntry, fileEntry] = entries;
  assert.deepEqual([...(directoryEntry?.attributes ?? [])], []);
  assert.equal(directoryEntry?.mode, 0o1777);
  assert.deepEqual(
    [...(fileEntry?.attributes ?? [])],
    [
      ['security.capability', capability],
      ['user.mark', 'a\0b'],
    ],
  );
  const { mode, uid, gid, mtimeS } = fileEntry ?? {};
  assert.deepEqual(
    { mode, uid, gid, mtimeS },
    { mode: 0o4755, uid: 1_000, gid: 65_535, mtimeS: 1_600_000_000 },
  );
});

test('a directory that a layer only implies is root’s and open to all', () => {
  const [implied] = taken(tarOf([file('a/b', { mode: 0o600, uid: 7 })])).entries;
  assert.deepEqual({ mode: implied?.mode, uid: implied?.uid }, { mode: 0o755, uid: 0 });
});

test('a directory is opaque by its mark, and where it is deleted and made anew', () => {
  const { entries } = taken(tarOf([file('a/.wh..wh..opq'), file('.wh.b'), { name: 'b/' }, { name: 'c/' }]));
  const opaque = entries.map(({ name, attributes }) => [name, attributes.get('user.overlay.opaque')]);
  assert.deepEqual(opaque, [
    ['a', 'y'],
    ['b', 'y'],
    ['c', undefined],
  ]);
  assert.equal(taken(tarOf([file('.wh..wh..opq')])).tree.facts.isRootOpaque, true);
});

test('the same tree gives the same bytes, whatever the order of its archive', () => {
  const parts = [file('b'), file('a/x'), { name: 'a/', mode: 0o700 }, { name: 'c', flag: '1', target: 'b' }];
  assert.deepEqual(
    taken(tarOf(parts)).tar,
    taken(tarOf([parts[2], parts[1], parts[0], parts[3]].filter((each) => each !== undefined))).tar,
  );
});
