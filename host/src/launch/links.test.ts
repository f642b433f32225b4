/** Links in the data directory, which daemon and egress process may make: no verb of the launcher goes behind one. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher, startOf } from '../../../tests/support/launcher.ts';
import { ownedPrefix } from '../../../tests/support/owned-directory.ts';

await insideLauncher(import.meta.filename, ['default', 'single'], (place) => {
  /** What the launcher can reach and who asks it can't. */
  const outside = (): Disposable & { readonly path: string } => {
    const path = mkdtempSync(join('/tmp', ownedPrefix('outside')));
    for (const name of ['data', 'work', 'uppers']) mkdirSync(join(path, name));
    writeFileSync(join(path, 'secret'), 'x');
    return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) };
  };
  const link = (to: string, path: string): Disposable => {
    const name = join(place.dataDir, path);
    mkdirSync(join(name, '..'), { recursive: true });
    symlinkSync(to, name);
    return { [Symbol.dispose]: () => rmSync(name, { force: true }) };
  };

  /** The first process may be gone before the launcher asks PID 1, and then that is what it says. */
  const refused = /can't attach "egress\/x|PID 1/;

  test('a start refuses a lower and an upper behind a link', async () => {
    using host = outside();
    using _link = link(host.path, 'egress/x');
    for (const lower of ['egress/x', 'egress/x/data']) {
      await assert.rejects(launchSandbox(place, 'lower', { lowers: [lower, place.lower] }), refused);
    }
    const upper = { ...startOf(place, 'upper').upper, path: 'egress/x' };
    await assert.rejects(place.client.start(startOf(place, 'upper', { upper })), refused);
    await place.client.removeTree('sandboxes/lower');
  });

  test('a start refuses an upper whose data or work is a link', async () => {
    for (const part of ['data', 'work']) {
      using host = outside();
      const start = startOf(place, 'parts');
      const other = part === 'data' ? 'work' : 'data';
      mkdirSync(join(place.dataDir, start.upper.path, other), { recursive: true });
      using _link = link(join(host.path, part), join(start.upper.path, part));
      await assert.rejects(
        place.client.createUpper(start.upper),
        new RegExp(`can't make the upper's "${part}"`),
      );
      await assert.rejects(place.client.start(start), /"data" and "work" of upper .* are no directories/);
      assert.deepEqual(readdirSync(join(host.path, part)), []);
      await place.client.removeTree('sandboxes/parts');
    }
  });

  test('nothing is made, unpacked or packed behind a link', async () => {
    using host = outside();
    using _link = link(host.path, 'egress/x');
    const upper = { ...startOf(place, 'made').upper, path: 'egress/x/uppers/1' };
    await assert.rejects(place.client.createUpper(upper), /can't make upper/);
    const image = {
      path: 'modules/base.squashfs',
      target: 'egress/x/new/tree',
      bytesMax: 1e8,
      inodesMax: 10_000,
    };
    await assert.rejects(place.client.unpack(image), /can't make the directory of "egress\/x\/new\/tree"/);
    const merge = { lowers: [place.lower], path: 'egress/x/new/image', bytesMax: 1e8 };
    await assert.rejects(place.client.merge(merge), /can't make the directory of "egress\/x\/new\/image"/);
    using _modules = link(host.path, 'linked');
    await assert.rejects(
      place.client.unpack({ ...image, path: 'linked/secret' }),
      /can't open "linked\/secret"/,
    );
    assert.deepEqual(readdirSync(join(host.path, 'uppers')), []);
    assert.equal(existsSync(join(host.path, 'new')), false);
  });
});
