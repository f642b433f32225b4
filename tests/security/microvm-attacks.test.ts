/**
 * Who has a microVM for himself, and then its monitor: what he tries from where the monitor runs, what he says in the guest's name,
 * what he makes of its disk, and what he does to its devices with a kernel of his own. Success is the failing condition; what an attempt
 * does where the wall is off is shown beside it.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { packModule } from '../support/base-layer.ts';
import { vmModule } from '../support/clients-layer.ts';
import type { Answer } from '../support/daemon.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { takenVmm } from '../support/taken-vmm.ts';
import { outcomeOf } from './attempt.ts';
import { monitorAttempts } from './attempts/monitor.ts';
import { frameLies, framed, tarLies } from './monitor-lies.ts';
import { placeOwnKernel } from './own-kernel.ts';
import { runAttempts } from './run-attempts.ts';
import { attackTool, smallTool } from './tool.ts';
import { runWeak } from './weak.ts';

const skip = process.getuid?.() !== 0 && 'the weakened sandbox needs root';
const sandboxes = '/cgi-bin/api/sandboxes';
/** Nobody waits longer for a liar, whose connection is begun anew once. */
const answerMsMax = 20_000;

let folder: string;
let outside: Server;
let visits = 0;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), ownedPrefix('monitor')));
  outside = createServer((_, response) => {
    visits += 1;
    response.end('visited');
  }).listen(0, '127.0.0.1');
  await once(outside, 'listening');
});
after(async () => {
  outside.close();
  await rm(folder, { recursive: true });
});

/** `flood` and `early` name what they do before the guest is ready. */
const bootLies = String.raw`#!/bin/sh
case $(hostname) in
  flood) i=0; while [ $i -lt 400 ]; do printf '\033]0;owned\007\033[2J\033[31m\r\n%60000s'; i=$((i+1)); done; kill -9 $PPID ;;
  early) /attack/attack connect-path /dev/shm/v.sock_1; /attack/attack connect-path /dev/shm/v.sock_1; sleep 1 ;;
esac
`;

async function options() {
  const { program } = await attackTool();
  const taken = join(folder, 'taken.squashfs');
  await takenVmm(taken, { files: { 'lies/boot': bootLies }, copies: { 'attack/attack': program } });
  const guest = join(folder, 'guest.squashfs');
  await packModule(guest, { 'guest/guest': await readFile(await smallTool('guest')) });
  return {
    // On KVM the VMM has its device.
    env: { SQUASH_BACKEND: 'vm', SQUASH_VM_ACCEL: 'tcg', SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.1/32' },
    modules: { '900-vmm': taken, '060-guest': guest },
  };
}

const scene = runAttempts('the place of a monitor', options, monitorAttempts);

for (const attempt of monitorAttempts) {
  const { control } = attempt;
  if (control.kind === 'none') continue;
  test(`weakened sandbox lets ${attempt.id} succeed`, { skip }, async () => {
    const { host, around, tool } = scene();
    const { socket, port, secrets } = host;
    const there = { ...around, neighbourSocket: socket, neighbourPort: port, apiPort: port };
    const script = (control.run ?? attempt.run)(there);
    const output = await runWeak(tool.program, control.kind, script);
    assert.equal(outcomeOf(script, output, secrets), 'breach', `${script}\n${output.stdout}${output.stderr}`);
  });
}

async function put(id: string, path: string, bytes: string | Buffer): Promise<void> {
  const { daemon } = scene();
  const answer = await fetch(`${daemon.url}/v1/sandboxes/${id}/files?path=${path}&mode=0755`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${scene().secrets[0] ?? ''}` },
    body: typeof bytes === 'string' ? bytes : new Uint8Array(bytes),
  });
  assert.ok(answer.ok, await answer.text());
}

async function inTime(what: string, answer: Promise<Answer>): Promise<Answer> {
  const began = performance.now();
  const came = await answer;
  const took = performance.now() - began;
  assert.ok(took < answerMsMax, `${what} took ${took} ms: ${came.text}`);
  return came;
}

function tellsNothing(text: string): void {
  for (const secret of scene().secrets) assert.ok(!text.includes(secret), text);
}

for (const lie of tarLies) {
  test(`a tar of what a guest has written, with ${lie.id}, leads nowhere`, async () => {
    const { daemon, host } = scene();
    const tar = lie.tar(host);
    await put('attacked', '/lies/bytes', framed(tar));
    await put('attacked', '/lies/47', '#!/bin/sh\nexec cat /lies/bytes\n');
    const wanted = { from: { sandbox: 'attacked' }, backend: 'chroot' };
    const made = await inTime('the fork', daemon.request('POST', '/v1/sandboxes', wanted));
    assert.ok(made.status < 300 || typeof made.json.code === 'string', made.text);
    assert.notEqual(made.json.code, 'internal', made.text);
    if (made.status < 300) {
      const id = String(made.json.id);
      const look = await scene().exec(
        id,
        'cat /stolen /out/e /hostile/* /hostile-* 2>/dev/null | head -c 100000; : </disk; head -c 10 /dev/stolen',
      );
      tellsNothing(look.stdout + look.stderr);
      assert.notEqual((await scene().exec(id, 'head -c 1 /disk 2>&1 || head -c 1 /stolen')).exitCode, 126);
      await scene().destroy(id);
    }
    assert.ok(!existsSync(join(host.folder, 'e')), 'it was written outside');
    await scene().exec('attacked', 'rm -f /lies/47 /lies/bytes');
    await scene().expectUnharmed();
    if (lie.control === undefined || skip !== false) return;
    await writeFile(join(folder, 'lie.tar'), tar);
    const unpack = `tar -xPf ${join(folder, 'lie.tar')} 2>/dev/null; `;
    const found = lie.control === 'e' ? `cat ${host.folder}/e && rm ${host.folder}/e` : lie.control;
    const weak = await runWeak(scene().tool.program, 'namespaces', `${unpack}${found}`);
    assert.equal(weak.exitCode, 0, `the control: ${weak.stdout}${weak.stderr}`);
  });
}

test('who lies to a command, or says nothing at all, is waited for by nobody else', async () => {
  const { daemon } = scene();
  await scene().create('liar');
  const waiting: Promise<unknown>[] = [];
  for (const [id, script] of Object.entries(frameLies)) {
    await put('liar', '/lies/1', `#!/bin/sh\n${script}\n`);
    const asked = daemon.request('POST', `${sandboxes}/liar/exec`, { cmd: 'true' });
    const isSlow = id === 'byte-by-byte' || id === 'silence';
    if (isSlow) waiting.push(asked.catch(() => undefined));
    else {
      const { status, json, text } = await inTime(id, asked);
      assert.ok(status !== 500 && json.exit_code !== 0, `${id}: ${text}`);
    }
    const beside = await inTime(
      `another one beside ${id}`,
      daemon.request('POST', `${sandboxes}/neighbour/exec`, { cmd: 'echo beside' }),
    );
    assert.equal(beside.json.stdout, 'beside\n');
  }
  await inTime('its removal', daemon.request('DELETE', `${sandboxes}/liar`));
  await Promise.all(waiting);
  await scene().expectUnharmed();
});

const disks: Readonly<Record<string, (secret: string) => string>> = {
  'a link to a secret': (secret) => `ln -s ${secret} /disk`,
  'a pipe': () => 'mkfifo /disk',
  'a directory': () => 'mkdir -p /disk/a/b',
  'a name of a layer': () => 'ln -s /drives/l0 /disk',
  'a file of a terabyte': () => 'dd if=/dev/null of=/disk bs=1 seek=1T 2>/dev/null; : >>/disk',
  'an empty file': () => ': >/disk',
  // The rest of that disk is a hole.
  'a file system of others': () => 'head -c 4000000 /drives/l0 >/disk',
  'all room there is': () => 'dd if=/dev/zero of=/disk bs=1M count=100000 2>/dev/null; true',
};

test('whatever a monitor makes of its disk, the host reads nothing by it', async () => {
  const { daemon, host } = scene();
  await scene().create('disk');
  for (const [what, make] of Object.entries(disks)) {
    const made = await scene().exec('disk', `rm -rf /disk; ${make(host.secretFile)}`);
    assert.ok(made.exitCode === 0 || made.exitCode === 137, `${what}: ${made.stderr}`);
    const usage = await inTime(what, daemon.request('GET', '/v1/sandboxes/disk'));
    tellsNothing(usage.text);
    await inTime(what, daemon.request('POST', '/v1/sandboxes/disk/pause', { keep: 'files' }));
    const resumed = await inTime(what, daemon.request('POST', '/v1/sandboxes/disk/resume'));
    // One that holds more than it may is ended, and has no more of it.
    if (what === 'all room there is') continue;
    assert.equal(resumed.status, 200, `${what}: ${resumed.text}`);
    const again = await scene().exec(
      'disk',
      'head -c 100 /disk 2>/dev/null </dev/null & sleep 0.2; kill $! 2>/dev/null; echo again',
    );
    assert.match(again.stdout, /again\n$/, what);
    tellsNothing(again.stdout);
  }
  await inTime('its removal', daemon.request('DELETE', `${sandboxes}/disk`));
  await scene().expectUnharmed();
  if (skip !== false) return;
  // Whoever follows the link on the host reads it.
  const link = await runWeak(scene().tool.program, 'namespaces', `ln -s ${host.secretFile} disk; cat disk`);
  assert.ok(host.secrets.some((secret) => link.stdout.includes(secret)));
});

test('a console that floods and speaks to terminals is told in a few plain lines', async () => {
  const { daemon } = scene();
  const answer = await inTime(
    'its start',
    daemon.request('POST', sandboxes, { id: 'flood', memory_mb: 128 }),
  );
  assert.ok(answer.status >= 400, answer.text);
  assert.match(answer.text, /ended by signal 9|was ended|does not start/);
  assert.ok(answer.text.length < 4_000, `${answer.text.length} characters`);
  assert.match(String(answer.json.error), /^[ -~]+$/);
  await daemon.request('DELETE', `${sandboxes}/flood`);
  await scene().expectUnharmed();
});

test('a guest that says twice, and too early, that it is ready, gets nothing by it', async () => {
  await scene().create('early');
  const again = await scene().exec('early', '/attack/attack connect-path /dev/shm/v.sock_1; echo over');
  assert.match(again.stdout, /^held: [^\n]*\nover\n$/);
  await scene().destroy('early');
});

test('what a monitor writes over its own programs is its own', async () => {
  const spoil =
    'for f in /boot/vmlinux /usr/bin/qemu-system-x86_64 /taken-vmm /squash-init; do cat /etc/passwd >$f.x && mv $f.x $f; done; cat /boot/vmlinux';
  assert.match((await scene().exec('attacked', spoil)).stdout, /^root:/);
  const beside = await scene().exec('neighbour', 'cat /boot/vmlinux; ls -l /taken-vmm | wc -l');
  assert.equal(beside.stdout, '1\n');
  await scene().create('later');
  assert.equal((await scene().exec('later', 'cat /boot/vmlinux; echo whole')).stdout, 'whole\n');
  await scene().destroy('later');
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

/** Of every file that VMs share. */
async function prints(): Promise<string> {
  const { dataDir } = scene().daemon;
  const hash = createHash('sha256');
  for (const place of ['vm', 'vm/layers']) {
    for (const entry of (await readdir(join(dataDir, place), { withFileTypes: true })).filter((each) =>
      each.isFile(),
    ))
      hash.update(entry.name).update(await readFile(join(dataDir, place, entry.name)));
  }
  return hash.digest('hex');
}

test('a guest with a kernel of its own', async (context) => {
  const { daemon, around, host } = scene();
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
    const { stdout, stderr } = await scene().exec('kernel', `export G=/guest/guest; ${script}`, 50);
    tellsNothing(stdout + stderr);
    return stdout + stderr;
  };
  /** Where it has taken its own machine down, it starts again. */
  const unharmed = async (what: string): Promise<void> => {
    await scene().expectUnharmed();
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
