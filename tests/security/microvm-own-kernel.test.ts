/**
 * A guest with a kernel of its own, which speaks to every device of its machine as no driver does: it reaches what its policy names, harms
 * nobody beside it, and changes nothing that machines share.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, mkdtemp, open, readdir, rename, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { vmModule } from '../support/clients-layer.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { placeOwnKernel } from './own-kernel.ts';
import { expectNoSecret, inTime, takenOptions } from './taken-scene.ts';
import { UnderAttack } from './under-attack.ts';

const sandboxes = '/cgi-bin/api/sandboxes';
let folder: string;
let scene: UnderAttack;
let outside: Server;
let visits = 0;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), ownedPrefix('kernel')));
  outside = createServer((_, response) => {
    visits += 1;
    response.end('visited');
  }).listen(0, '127.0.0.1');
  await once(outside, 'listening');
  scene = await UnderAttack.start(await takenOptions(folder));
});
after(async () => {
  await scene[Symbol.asyncDispose]();
  outside.close();
  await rm(folder, { recursive: true });
});

const mmio = '/sys/bus/platform/drivers/virtio-mmio';
const garbage = [
  ['a module', 'head -c 100000 /dev/urandom >/x.ko; insmod /x.ko', /invalid module format/],
  ['ports', '$G ports', /reached: 1/],
  [
    'registers in memory',
    // Debian's kernel gives those that have no driver.
    `mount -t devtmpfs d /home; mount -t tmpfs t /var/tmp; cp $G /var/tmp/g; sync; cd ${mmio}; for d in LNRO*; do echo $d >unbind; done; /var/tmp/g memory /home/mem`,
    /reached: 1/,
  ],
  ['rings and registers behind PCI', '/var/tmp/g pci', /reached: [1-9]/],
] as const;
const garbageMs = 5_000;

/** Of every file that VMs share. A disk is a layer with a hole of a gigabyte behind it: who writes there gives it more blocks. */
async function prints(): Promise<string> {
  const { dataDir } = scene.daemon;
  const hash = createHash('sha256');
  for (const place of ['vm', 'vm/layers']) {
    for (const { name } of (await readdir(join(dataDir, place), { withFileTypes: true })).filter((each) =>
      each.isFile(),
    )) {
      await using file = await open(join(dataDir, place, name));
      const { size, blocks } = await file.stat();
      const bytes = Buffer.alloc(Math.min(size, blocks * 512));
      await file.read(bytes);
      hash.update(`${name} ${size} ${blocks}\n`).update(bytes);
    }
  }
  return hash.digest('hex');
}

test('a guest with a kernel of its own', async (context) => {
  const { daemon, around, host } = scene;
  const real = await vmModule();
  const to = join(daemon.dataDir, 'modules/900-vmm.squashfs');
  await copyFile(real, `${to}.new`);
  await rename(`${to}.new`, to);
  await placeOwnKernel(daemon.dataDir, real);
  const port = (outside.address() as AddressInfo).port;
  const made = await daemon.request('POST', sandboxes, {
    id: 'kernel',
    layers: ['000-base-test', '050-attack', '060-guest'],
    memory_mb: 128,
    allow_net: [`host.squash.internal:${port}`],
  });
  assert.equal(made.status, 201, made.text + daemon.output.slice(-3000));
  const before = await prints();
  const guest = async (script: string): Promise<string> => {
    const { stdout, stderr } = await scene.exec('kernel', `export G=/guest/guest; ${script}`, 50);
    expectNoSecret(scene, stdout + stderr);
    return stdout + stderr;
  };
  /** Where it has taken its own machine down, it starts again. */
  const unharmed = async (what: string): Promise<void> => {
    await scene.expectUnharmed();
    assert.equal(await prints(), before, what);
  };
  assert.match(
    await guest(
      'cat /proc/self/status | grep CapEff; id -u; chmod +x $G; mount -t sysfs s /sys; mount -t devtmpfs d /mnt 2>/dev/null || mount -t devtmpfs d /run',
    ),
    /CapEff:\t0*[1-9a-f][0-9a-f]{9,}\n0\n/,
  );

  await context.test('reaches no vsock port of the host, and no other machine', async () => {
    const cids = [
      '0 1024',
      '1 1024',
      '2 1',
      '2 1024',
      '2 22',
      '2 65536',
      '4 1024',
      '5 1024',
      '4294967295 1024',
    ];
    const told = await guest(cids.map((each) => `$G vsock ${each}`).join('; '));
    assert.doesNotMatch(told, /breach/);
    assert.equal([...told.matchAll(/held/g)].length, cids.length, told);
  });
  await context.test('floods vsock without harm to others', async () => {
    await guest('$G flood 2 1 3000; $G flood 2 1024 3000; $G flood 9 9 500');
    await unharmed('flood');
    assert.match(await guest('echo answers'), /answers/);
  });
  await context.test('reaches what its policy names alone, by whatever address and frame', async () => {
    const named = `$(nslookup host.squash.internal | sed -n 's/^Address: //p' | grep -v :53 | head -n 1)`;
    assert.match(await guest(`$G get ${named} ${port}`), /visited/);
    const seen = visits;
    const addresses = [
      '10.0.2.2',
      '10.0.2.3',
      '10.0.2.4',
      '127.0.0.1',
      '169.254.169.254',
      '198.18.0.1',
      '0.0.0.0',
      '::1',
      'fec0::2',
      '::ffff:127.0.0.1',
    ];
    const ports = [port, around.apiPort, around.hostPort];
    const asked = addresses.flatMap((each) => ports.map((one) => `$G get ${each} ${one} &`));
    const told = await guest(`${asked.join(' ')} wait`);
    // The egress process itself says no.
    assert.doesNotMatch(told, /visited|HTTP\/1\.[01] (?!403)/);
    const frames = ['127.0.0.1', '10.0.2.2', '169.254.169.254', '255.255.255.255', '10.0.2.15'];
    assert.match(await guest(frames.map((each) => `$G frames ${each} ${port}`).join('; ')), /sent/);
    await guest(
      'tftp -g -r etc/passwd -l /tmp/got 10.0.2.2 & t=$!; nslookup denied.example 10.0.2.3; nslookup denied.example 10.0.2.2; kill $t',
    );
    assert.equal(visits, seen);
    await unharmed('network');
  });
  await context.test('writes to no drive that is shared, and has no room but its own', async () => {
    const told = await guest(
      'for d in /mnt/vd? /run/vd?; do [ -b $d ] || continue; s=$(cat /sys/block/${d##*/}/serial); case $s in l*) head -c 65536 /dev/urandom | dd of=$d bs=4096 conv=fsync 2>&1 && echo "breach $s" ;; esac; echo "saw $s"; done',
    );
    assert.match(told, /saw l0/);
    assert.doesNotMatch(told, /breach/);
    await unharmed('drives');
    // A discard storm, and all that fits.
    await guest('head -c 8000000 /dev/urandom >/fill; sync; rm /fill; sync; fstrim / 2>/dev/null; true');
    await unharmed('room');
  });
  for (const [what, script, proof] of garbage) {
    await context.test(`harms nobody by garbage in its devices: ${what}`, async () => {
      // It may have taken its own way to answer from itself.
      const answer = daemon.request('POST', `${sandboxes}/kernel/exec`, {
        cmd: `export G=/guest/guest; ${script}`,
        timeout: 10,
      });
      answer.catch(() => undefined);
      const told = await Promise.race([answer, delay(garbageMs)]);
      if (told !== undefined) assert.match(told.text, proof);
      await unharmed(what);
    });
  }
  // The last one answers nothing any more, and nobody waits for that.
  await inTime('its removal', daemon.request('DELETE', `${sandboxes}/kernel`));
  assert.ok((await host.harm()).length === 0);
});
