/** A layer that can't be read any more: the sandboxes on it say so, the others go on, and all is well when it is back. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { packModule } from '../support/base-layer.ts';
import { written } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { processesOf, signalAll } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

interface Index {
  readonly files: Readonly<Record<string, { readonly digest: string }>>;
}

/** As after a reboot: nothing runs, so every sandbox has to be started on its layers again. */
async function endEverything(daemon: TestDaemon): Promise<void> {
  await daemon.stop();
  const isLauncher = ({ command }: { readonly command: string }): boolean =>
    command.includes('squash-launch');
  signalAll(daemon.dataDir, 'SIGTERM', isLauncher);
  await waitFor('the launcher to end', () => !processesOf(daemon.dataDir).some(isLauncher));
}

test('a layer that is gone and a module that is cut off fail their sandboxes by a code, and no other one', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-lost-'));
  const tool = join(directory, 'tool.squashfs');
  await packModule(tool, { 'opt/tool/answer': '42\n' });
  {
    await using daemon = await TestDaemon.start({ modules: { '100-tool': tool } });
    const layers = ['000-base-test', '100-tool'];
    await daemon.call('POST', sandboxesPath, { id: 'lost', layers, memory_mb: 64 });
    await daemon.call('POST', sandboxesPath, { id: 'other', memory_mb: 64 });
    await output(daemon, 'lost', `echo kept > /kept${written}`);
    await endEverything(daemon);
    const index = JSON.parse(readFileSync(join(daemon.dataDir, 'layers/index.json'), 'utf8')) as Index;
    const digest = index.files['modules/100-tool.squashfs']?.digest ?? '';
    await removeDataDirectory(join(daemon.dataDir, 'layers', digest));
    const module = join(daemon.dataDir, 'modules/100-tool.squashfs');
    const bytes = readFileSync(module);
    writeFileSync(module, bytes.subarray(0, 200));
    await daemon.start();
    const state = async (): Promise<string> =>
      ((await daemon.call('GET', boxPath('lost'))) as SandboxInfo).state;
    await waitFor('the sandbox to be given up', async () => (await state()) === 'failed');
    assert.match(daemon.output, /layer_corrupt: Cannot use module \\"100-tool\\": it is cut off/);
    const refused = await daemon.request('POST', boxPath('lost', '/exec'), { cmd: 'true' });
    assert.equal(refused.json.code, 'sandbox_not_ready');
    const created = await daemon.request('POST', sandboxesPath, { id: 'new', layers, memory_mb: 64 });
    assert.equal(created.json.code, 'layer_corrupt');
    assert.equal(await output(daemon, 'other', 'echo fine'), 'fine\n');
    await daemon.stop();
    writeFileSync(module, bytes);
    await daemon.start();
    await waitFor('the sandbox to be back', async () => (await state()) === 'ready');
    assert.equal(await output(daemon, 'lost', 'cat /kept /opt/tool/answer'), 'kept\n42\n');
  }
  rmSync(directory, { recursive: true });
});

test('a layer that was lost or damaged and is put back is found by the next create, without a restart', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-lost-'));
  const tool = join(directory, 'tool.squashfs');
  await packModule(tool, { 'opt/tool/answer': '42\n' });
  {
    await using daemon = await TestDaemon.start({ modules: { '100-tool': tool } });
    const layers = ['000-base-test', '100-tool'];
    const module = join(daemon.dataDir, 'modules/100-tool.squashfs');
    const bytes = readFileSync(module);
    let count = 0;
    const create = async (): Promise<string> => {
      count += 1;
      const answer = await daemon.request('POST', sandboxesPath, {
        id: `box${count}`,
        layers,
        memory_mb: 64,
      });
      if (answer.status !== 201) return answer.json.code;
      assert.equal(await output(daemon, `box${count}`, 'cat /opt/tool/answer'), '42\n');
      await daemon.call('DELETE', boxPath(`box${count}`));
      return 'fine';
    };
    const loseTrees = async (): Promise<void> => {
      for (const name of readdirSync(join(daemon.dataDir, 'layers')))
        if (/^[0-9a-f]{64}$/.test(name)) await removeDataDirectory(join(daemon.dataDir, 'layers', name));
    };
    assert.equal(await create(), 'fine');
    await daemon.call('POST', sandboxesPath, { id: 'kept', layers, memory_mb: 64 });
    const damages: Readonly<Record<string, () => void>> = {
      module_not_found: () => rmSync(module),
      layer_corrupt: () => writeFileSync(module, bytes.subarray(0, 200)),
      fine: () => undefined,
    };
    for (const [code, damage] of Object.entries(damages)) {
      await loseTrees();
      damage();
      assert.equal(await create(), code);
      writeFileSync(module, bytes);
      assert.equal(await create(), 'fine', `after ${code}`);
    }
    // The same for a sandbox that could not be started again.
    await loseTrees();
    rmSync(module);
    signalAll(daemon.dataDir, 'SIGKILL', ({ command }) => command.includes('--listen-fd'));
    const exec = { cmd: 'cat /opt/tool/answer' };
    await waitFor('the sandbox to be given up', async () => {
      const info = (await daemon.call('GET', boxPath('kept'))) as SandboxInfo;
      return info.state === 'failed';
    });
    const refused = await daemon.request('POST', boxPath('kept', '/exec'), exec);
    assert.equal(refused.json.code, 'sandbox_not_ready');
    writeFileSync(module, bytes);
    assert.equal(await output(daemon, 'kept', exec.cmd), '42\n');
  }
  rmSync(directory, { recursive: true });
});
