/** The layer store over real squashfs files. Trees are unpacked by the real unsquashfs, here without the launcher. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  access,
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { AppError } from '@squash/contract/errors';
import { layerDigestSchema, moduleNameSchema } from '@squash/contract/ids';
import { LocalLayerStore } from './local-layer-store.ts';
import type { ImageTool } from './tree-store.ts';

const run = promisify(execFile);
const name = (text: string) => moduleNameSchema.parse(text);
const unused = { modules: [], trees: new Set<never>() };

/** A data directory of its own, and a store on it. */
class Place implements AsyncDisposable {
  readonly dataDir: string;
  unpacked = 0;

  private constructor(dataDir: string) {
    this.dataDir = dataDir;
  }

  static async make(): Promise<Place> {
    const dataDir = await mkdtemp(join(tmpdir(), 'squash-layers-'));
    for (const part of ['modules', 'layers', 'tmp', 'trash', 'in']) await mkdir(join(dataDir, part));
    return new Place(dataDir);
  }

  store(): LocalLayerStore {
    const tool: ImageTool = {
      unpack: async ({ path: image, target }) => {
        this.unpacked += 1;
        try {
          await run('unsquashfs', ['-no-progress', '-d', this.path(target), this.path(image)]);
        } catch (cause) {
          throw new AppError('layer_corrupt', `unsquashfs refuses "${image}"`, { cause });
        }
      },
      removeTree: async (path) => rm(this.path(path), { recursive: true, force: true }),
    };
    return new LocalLayerStore({ dataDir: this.dataDir, tool });
  }

  path(...parts: readonly string[]): string {
    return join(this.dataDir, ...parts);
  }

  /** A squashfs file that holds one file with this text. */
  async image(text: string): Promise<string> {
    const tree = await mkdtemp(this.path('in', 'tree-'));
    await chmod(tree, 0o755);
    await writeFile(join(tree, 'hello'), text);
    const image = `${tree}.squashfs`;
    await run('mksquashfs', [tree, image, '-comp', 'zstd', '-no-progress', '-quiet']);
    return image;
  }

  /** What a failure must not leave: trees, modules, temporary files. */
  async leftovers(): Promise<readonly string[]> {
    const found: string[] = [];
    for (const part of ['modules', 'layers', 'tmp', 'trash']) {
      for (const entry of await readdir(this.path(part)))
        if (entry !== 'index.json') found.push(`${part}/${entry}`);
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.dataDir, { recursive: true, force: true });
  }
}

function refused(code: string) {
  return (error: unknown) => error instanceof AppError && error.code === code;
}

describe('LocalLayerStore', () => {
  test('ensureModule unpacks a dropped-in module once, however many ask at once', async () => {
    await using place = await Place.make();
    const store = place.store();
    await run('cp', [await place.image('hi'), place.path('modules/000-a.squashfs')]);
    const digests = await Promise.all([1, 2, 3, 4].map(() => store.ensureModule(name('000-a'))));
    assert.equal(new Set(digests).size, 1);
    assert.equal(place.unpacked, 1);
    const { stdout } = await run('sha256sum', [place.path('modules/000-a.squashfs')]);
    assert.equal(digests[0], stdout.slice(0, 64));
    assert.equal(await readFile(place.path('layers', String(digests[0]), 'hello'), 'utf8'), 'hi');
    assert.deepEqual(await readdir(place.path('tmp')), []);
  });

  test('ensureModule sees what was replaced before it was asked, whatever look is under way', async () => {
    await using place = await Place.make();
    const store = place.store();
    const base = name('000-base');
    await store.importModule(await place.image('old'), base);
    const looks: Promise<unknown>[] = [];
    const asking = setInterval(() => looks.push(store.ensureModule(base)), 0);
    const { digest } = await store.importModule(await place.image('new'), base, { replace: true });
    assert.equal(await store.ensureModule(base), digest);
    clearInterval(asking);
    assert.ok((await Promise.all(looks)).length > 0);
  });

  test('ensureModule finds tree and digest again when the daemon is a new one', async () => {
    await using place = await Place.make();
    await place.store().importModule(await place.image('hi'), name('000-a'));
    const first = await place.store().ensureModule(name('000-a'));
    const second = await place.store().ensureModule(name('000-a'));
    assert.equal(first, second);
    assert.equal(place.unpacked, 1);
  });

  test('ensureModule refuses a module whose bytes changed since its import and leaves nothing', async () => {
    await using place = await Place.make();
    const store = place.store();
    await store.importModule(await place.image('first'), name('000-a'));
    await run('cp', [await place.image('second'), place.path('modules/000-a.squashfs')]);
    await assert.rejects(store.ensureModule(name('000-a')), refused('layer_corrupt'));
    assert.equal(place.unpacked, 1);
    assert.deepEqual(await readdir(place.path('tmp')), []);
  });

  test('ensureModule follows a module that an operator replaced together with its manifest', async () => {
    await using place = await Place.make();
    const store = place.store();
    const before = await store.importModule(await place.image('first'), name('000-a'));
    await rm(place.path('modules/000-a.squashfs.manifest.json'));
    await run('cp', [await place.image('second'), place.path('modules/000-a.squashfs')]);
    assert.notEqual(await store.ensureModule(name('000-a')), before.digest);
  });

  test('ensureModule says module_not_found for a name without a file', async () => {
    await using place = await Place.make();
    await assert.rejects(place.store().ensureModule(name('000-none')), refused('module_not_found'));
  });

  test('ensureModule refuses a malformed manifest', async () => {
    await using place = await Place.make();
    const store = place.store();
    await store.importModule(await place.image('hi'), name('000-a'));
    await writeFile(place.path('modules/000-a.squashfs.manifest.json'), '{"schema":1}');
    await assert.rejects(store.ensureModule(name('000-a')), refused('layer_corrupt'));
  });

  test('importModule refuses what is no whole squashfs and leaves nothing', async () => {
    await using place = await Place.make();
    const store = place.store();
    const text = place.path('in/text');
    await writeFile(text, 'x'.repeat(5000));
    const cut = await place.image('hi');
    await truncate(cut, 200);
    const damaged = await place.image('hello '.repeat(1000));
    const bytes = await readFile(damaged);
    bytes.fill(0xff, 96, Math.floor(bytes.length / 8));
    await writeFile(damaged, bytes);
    const empty = place.path('in/empty');
    await writeFile(empty, '');
    for (const file of [text, cut, damaged, empty]) {
      await assert.rejects(store.importModule(file, name('000-a')), refused('module_invalid'), file);
      assert.deepEqual(await place.leftovers(), []);
    }
  });

  test('importModule takes the same content twice, other content only to replace', async () => {
    await using place = await Place.make();
    const store = place.store();
    const first = await place.image('first');
    const second = await place.image('second');
    const { digest } = await store.importModule(first, name('000-a'));
    assert.equal((await store.importModule(first, name('000-a'))).digest, digest);
    await assert.rejects(store.importModule(second, name('000-a')), refused('module_exists'));
    assert.equal(await store.ensureModule(name('000-a')), digest);
    assert.equal((await readdir(place.path('layers'))).filter((entry) => entry !== 'index.json').length, 1);
    const replaced = await store.importModule(second, name('000-a'), { replace: true });
    assert.equal(await store.ensureModule(name('000-a')), replaced.digest);
    assert.ok((await stat(first)).isFile(), 'the caller keeps its file');
  });

  test('importModule of one name by two clients leaves one of them, whole', async () => {
    await using place = await Place.make();
    const store = place.store();
    const images = [await place.image('first'), await place.image('second')];
    await Promise.all(images.map((image) => store.importModule(image, name('000-a'), { replace: true })));
    const digest = await store.ensureModule(name('000-a'));
    assert.match(await readFile(place.path('layers', digest, 'hello'), 'utf8'), /^(first|second)$/);
  });

  test('ensureFile refuses a snapshot with another digest, and one that is gone', async () => {
    await using place = await Place.make();
    const store = place.store();
    const image = await place.image('hi');
    const wrong = layerDigestSchema.parse('0'.repeat(64));
    await assert.rejects(store.ensureFile(image, { digest: wrong }), refused('layer_corrupt'));
    assert.deepEqual(await place.leftovers(), []);
    const digest = await store.ensureFile(image);
    assert.equal(await store.ensureFile(image, { digest }), digest);
    await assert.rejects(store.ensureFile(place.path('in/none')), refused('layer_corrupt'));
  });

  test('removeModule refuses a module in use and removes it with its manifest otherwise', async () => {
    await using place = await Place.make();
    const store = place.store();
    const { digest } = await store.importModule(await place.image('hi'), name('000-a'));
    const use = { modules: [{ module: name('000-a'), digest }], trees: new Set([digest]) };
    await assert.rejects(store.removeModule(name('000-a'), use), refused('module_in_use'));
    assert.equal((await store.modules()).length, 1);
    await store.removeModule(name('000-a'), unused);
    assert.deepEqual(
      (await place.leftovers()).filter((entry) => entry !== 'layers/index.json'),
      [],
    );
    await assert.rejects(store.removeModule(name('000-a'), unused), refused('module_not_found'));
  });

  test('removeModule lets a copy under another name go, and leaves the tree that both share', async () => {
    await using place = await Place.make();
    const store = place.store();
    const { digest } = await store.importModule(await place.image('hi'), name('000-a'));
    await store.importModule(await place.image('hi'), name('000-copy'));
    const use = { modules: [{ module: name('000-a'), digest }], trees: new Set([digest]) };
    await store.removeModule(name('000-copy'), use);
    await access(place.path(`layers/${digest}`));
    // Here nothing but a snapshot has the content: its own file brings the tree back, but what runs is on the tree.
    await store.removeModule(name('000-a'), { modules: [], trees: use.trees });
    await access(place.path(`layers/${digest}`));
  });

  test('collect removes trees that neither a sandbox nor a module has', async () => {
    await using place = await Place.make();
    const store = place.store();
    const used = await store.ensureFile(await place.image('used by a sandbox'));
    const module = await store.importModule(await place.image('a module'), name('000-a'));
    const unused = await store.ensureFile(await place.image('unused'));
    assert.equal(await store.collect(new Set([used])), 1);
    const trees = (await readdir(place.path('layers'))).filter((entry) => entry !== 'index.json');
    assert.deepEqual(trees.sort(), [used, module.digest].sort());
    assert.ok(!trees.includes(unused));
  });

  test('modules lists files by name and passes over what is no module', async () => {
    await using place = await Place.make();
    await run('cp', [await place.image('b'), place.path('modules/100-b.squashfs')]);
    await run('cp', [await place.image('a'), place.path('modules/000-a.squashfs')]);
    await writeFile(place.path('modules/.hidden.squashfs'), '');
    await writeFile(place.path('modules/000-a.squashfs.manifest.json'), '{}');
    await mkdir(place.path('modules/200-directory.squashfs'));
    assert.deepEqual(
      (await place.store().modules()).map((module) => module.name),
      ['000-a', '100-b'],
    );
  });
});
