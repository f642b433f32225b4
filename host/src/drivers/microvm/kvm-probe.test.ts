/**
 * A guest that is to say its word, in a VMM's sandbox of its own. Emulated it does, which shows all of the trial but KVM; with KVM this
 * sandbox has no device, and QEMU says so.
 */
import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { limits } from '@squash/contract/limits';
import { SocketDirectory } from '@squash/base/socket-directory';
import { vmModule } from '../../../../tests/support/clients-layer.ts';
import { keptLog } from '../../../../tests/support/kept-log.ts';
import { insideLauncher } from '../../../../tests/support/launcher.ts';
import { ownedPrefix } from '../../../../tests/support/owned-directory.ts';
import { waitFor } from '../../../../tests/support/wait.ts';
import { probeHost } from '../../launch/host-probe.ts';
import { isProbe, type Probe, probeGuest, type ProbeHost } from './kvm-probe.ts';
import { MicrovmDriver } from './microvm-driver.ts';
import { qemu } from './qemu.ts';
import { Templates } from './templates.ts';
import { VmModule } from './vm-module.ts';

const bootMsMax = 120_000;
const variable = 'SQUASH_TEST_VM_MODULE';
if (process.env[variable] === undefined) {
  // Inside nobody reads what lies in root's home.
  const place = mkdtempSync(join(tmpdir(), ownedPrefix('probe')));
  after(() => rmSync(place, { recursive: true }));
  const readable = join(place, 'vmm');
  copyFileSync(await vmModule(), readable);
  chmodSync(place, 0o755);
  chmodSync(readable, 0o644);
  process.env[variable] = readable;
}

await insideLauncher(import.meta.filename, ['default'], async ({ dataDir, runDir, client: launcher }) => {
  copyFileSync(process.env[variable] ?? '', join(dataDir, 'modules/900-vmm.squashfs'));
  const module = await new VmModule({ dataDir, launcher, isUsed: () => false }).files();
  const sockets = new SocketDirectory(runDir);
  after(() => sockets[Symbol.dispose]());
  const host: ProbeHost = {
    launcher,
    upperKind: 'directory',
    connect: ({ instance }, signal) => sockets.connect(`g/${instance}.sock`, signal),
  };
  const emulated: Probe = { vmm: qemu, module, accelerator: 'tcg', wordMsMax: bootMsMax };
  const probe = (changes: Partial<Probe>, signal = new AbortController().signal) =>
    probeGuest(host, { ...emulated, ...changes }, signal);
  const begun = (): Promise<unknown> => waitFor('a trial', async () => (await launcher.list()).some(isProbe));
  const expectNothing = async (): Promise<void> => {
    assert.deepEqual(await launcher.list(), []);
    assert.deepEqual(readdirSync(join(dataDir, 'tmp')), []);
  };

  test('a guest that runs says its word', async () => {
    assert.equal(await probe({}), undefined);
    await expectNothing();
  });

  test('what QEMU says is why there is none', async () => {
    const vmm = { ...qemu, devices: () => [] };
    assert.match((await probe({ vmm, accelerator: 'kvm' })) ?? '', /kvm: No such file or directory$/);
    await expectNothing();
  });

  test('a guest that says nothing in its time is given up', async () => {
    assert.match((await probe({ wordMsMax: 50 })) ?? '', /^no word of a guest within 0\.05 s/);
    await expectNothing();
  });

  test('a trial that is ended leaves nothing', async () => {
    const ending = new AbortController();
    const ended = assert.rejects(probe({}, ending.signal), { name: 'AbortError' });
    await begun();
    ending.abort();
    await ended;
    await expectNothing();
  });

  test('what a daemon that died has left of one is ended by the next, which waits for no guest', async () => {
    const left = probe({});
    await begun();
    await using driver = new MicrovmDriver({
      launcher,
      dataDir,
      runDir,
      capabilities: await probeHost(launcher),
      upper: 'directory',
      hungMs: limits.launcherHungMs,
      snapshotBytesMax: 1,
      vmm: qemu,
      templates: new Templates(dataDir, keptLog('warn').log),
      accelerator: 'auto',
    });
    const began = performance.now();
    for (const { id } of await driver.list()) await driver.stop(id);
    // A guest that does not answer would have half a minute.
    assert.ok(performance.now() - began < 15_000);
    assert.ok((await left) !== undefined);
    await expectNothing();
  });
});
