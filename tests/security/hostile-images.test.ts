/**
 * Layers made by an attacker. Unpacking one must neither write outside its tree nor take more than its share,
 * and what it brings must have no power in the sandbox that uses it.
 */
import assert from 'node:assert/strict';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import {
  corrupted,
  cutOff,
  type ImageMaker,
  withBomb,
  withDevices,
  withDuplicate,
  withLinks,
  withRedirect,
  withSetUserId,
  withTraversal,
} from './hostile-images.ts';
import type { Answer } from '../support/daemon.ts';
import { runWeak } from './weak.ts';
import { UnderAttack } from './under-attack.ts';

const stack = new AsyncDisposableStack();
let scene: UnderAttack;
let maker: ImageMaker;
let number = 0;

before(async () => {
  scene = stack.use(await UnderAttack.start());
  const folder = await mkdtemp(join(tmpdir(), 'squash-images-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  maker = {
    folder,
    program: scene.tool.program,
    secretFolder: scene.host.folder,
  };
});

afterEach(async () => {
  await scene.expectUnharmed();
  const modules = await scene.daemon.call('GET', '/cgi-bin/api/modules');
  assert.ok(Array.isArray(modules));
});

after(() => stack.disposeAsync());

/** Drops the file among the modules, as an operator would, and stacks a sandbox on it. */
async function createOn(file: string): Promise<{ readonly id: string; readonly answer: Answer }> {
  const name = `1${String(++number).padStart(2, '0')}-hostile`;
  await copyFile(file, join(scene.daemon.dataDir, 'modules', `${name}.squashfs`));
  const id = `image-${String(number)}`;
  const answer = await scene.daemon.request('POST', '/cgi-bin/api/sandboxes', {
    id,
    layers: ['000-base-test', '050-attack', name],
    memory_mb: 128,
  });
  return { id, answer };
}

/** The sandbox is created and the script finds no power, or the layer is refused. */
async function isPowerless(file: string, script: string): Promise<string> {
  const { id, answer } = await createOn(file);
  if (answer.status !== 201) {
    assert.match(answer.json.code, /^(layer_corrupt|disk_full)$/, answer.text);
    return 'refused';
  }
  const output = await scene.exec(id, scene.prepared(script));
  const text = output.stdout + output.stderr;
  assert.doesNotMatch(text, /^breach/m, text);
  for (const secret of scene.secrets) assert.ok(!text.includes(secret), text);
  await scene.destroy(id);
  return text;
}

test('images are hostile when they are unpacked without walls', {
  skip: process.getuid?.() !== 0 && 'the weakened sandbox needs root',
}, async () => {
  const unpacked = async (file: string, script: string): Promise<string> => {
    const output = await runWeak(
      scene.tool.program,
      'namespaces',
      `chmod 755 .; unsquashfs -q -n -d tree '${file}' >/dev/null 2>&1; ${script}`,
    );
    return output.stdout + output.stderr;
  };
  assert.match(await unpacked(await withDevices(maker), '$A open-device tree/hostile-mem'), /^breach/m);
  assert.match(
    await unpacked(await withSetUserId(maker), '$A run-set-user-id tree/hostile-suid'),
    /^breach/m,
  );
  const leaked = await unpacked(await withLinks(maker), 'cat tree/hostile-absolute/secret');
  assert.ok(scene.secrets.some((secret) => leaked.includes(secret)));
});

test('device nodes open nothing when an image brings them', async () => {
  const opening = ['mem', 'disk', 'loop', 'fuse'].map((name) => `$A open-device /hostile-${name}`);
  await isPowerless(await withDevices(maker), `${opening.join(' && ')}`);
});

test('a set-id program gives nothing when an image brings it', async () => {
  await isPowerless(await withSetUserId(maker), '$A run-set-user-id /hostile-suid');
});

test('links lead nowhere outside when an image brings them', async () => {
  const reading = ['absolute', 'relative', 'proc'].map((name) => `cat /hostile-${name}/secret`);
  const script = `${reading.join('; ')}; cat '/hostile-proc${scene.host.secretFile}'; echo x >/hostile-absolute/secret; true`;
  await isPowerless(await withLinks(maker), script);
});

test('nothing is written outside the tree when a name climbs', async () => {
  await isPowerless(await withTraversal(maker), 'true');
  for (const folder of ['', 'layers', 'tmp', 'modules']) {
    await assert.rejects(readFile(join(scene.daemon.dataDir, folder, 'escaped')), { code: 'ENOENT' });
  }
});

test('nothing is written through a link when two entries have one name', async () => {
  await isPowerless(await withDuplicate(maker), 'cat /hostileA/secret; true');
});

test('redirections are not followed when an image carries them', async () => {
  const script =
    'cat /hostile-metacopy; ls /hostile-redirect; cat /hostile-redirect/hostname /hostile-redirect/shadow';
  const text = await isPowerless(await withRedirect(maker), script);
  assert.doesNotMatch(text, /root:[^x]/);
});

test('the disk is not filled when a small image unpacks to much', async () => {
  const file = await withBomb(maker, 256);
  const packed = (await readFile(file)).length;
  assert.ok(packed < 1024 * 1024, `the bomb itself has ${String(packed)} bytes`);
  // Layers are the operator's to choose, so 256 MiB are taken; what counts is that the daemon survives them.
  await isPowerless(file, 'true');
});

test('a cut image is refused with a code and nothing else is harmed', async () => {
  const { answer } = await createOn(await cutOff(maker));
  assert.equal(answer.json.code, 'layer_corrupt', answer.text);
});

for (let seed = 1; seed <= 12; seed++) {
  test(`daemon answers with a code or a sandbox when an image is damaged (seed ${String(seed)})`, async () => {
    const { id, answer } = await createOn(await corrupted(maker, seed));
    if (answer.status === 201) await scene.destroy(id);
    else assert.match(answer.json.code, /^(layer_corrupt|disk_full|launch_failed)$/, answer.text);
  });
}
