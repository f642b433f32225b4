/**
 * The guest's part of a microVM, from squash-boot to squash-init, in the real emulator on a real kernel: what a sandbox finds in it, and
 * that nobody but the host speaks to its PID 1.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { hostsFile, resolvConf } from '../../host/src/drivers/namespace/etc-files.ts';
import type { GuestFilePath } from '../../host/src/guest/guest.ts';
import { baseLayer } from '../support/base-layer.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { drain, specOf } from '../support/real-guest.ts';
import { waitFor } from '../support/wait.ts';
import { Machine, makeParts, type Parts } from './microvm/machine.ts';

const run = promisify(execFile);
const at = (path: string): GuestFilePath => path as GuestFilePath;
const words = [
  'squash.hostname=vm-7',
  'squash.nameserver=198.18.0.1',
  'squash.address=10.0.2.15/24',
  'squash.gateway=10.0.2.2',
  `squash.shm=${16 * 1024 * 1024}`,
  'squash.files=4096',
  'squash.pids=48',
];
let folder: string;
let parts: Parts;
let knocker: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), ownedPrefix('microvm')));
  parts = await makeParts(folder);
  knocker = await knockLayer();
});
after(() => rm(folder, { recursive: true }));

/** A layer of one program, that connects over vsock. */
async function knockLayer(): Promise<string> {
  const tree = join(folder, 'knock');
  await mkdir(join(tree, 'usr/bin'), { recursive: true });
  const strict = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-static'];
  const source = join(import.meta.dirname, 'microvm/knock.c');
  await run('gcc', [...strict, '-o', join(tree, 'usr/bin/knock'), source]);
  const layer = join(folder, 'knock.squashfs');
  await run('mksquashfs', [tree, layer, '-all-root', '-noappend', '-no-progress', '-quiet']);
  return layer;
}

async function boot(): Promise<Machine> {
  const time = `squash.time=${Math.floor(Date.now() / 1000)}`;
  const lowers = [knocker, await baseLayer()];
  return await Machine.boot(parts, { lowers, upper: parts.upper, words: [...words, time] });
}

/** What a script prints; it must succeed. */
async function output(machine: Machine, script: string, as: { uid?: number } = {}): Promise<string> {
  const ids = { uid: as.uid ?? 0, gid: as.uid ?? 0 };
  const ran = await drain(await machine.client.exec(specOf(['sh', '-c', script], ids)));
  assert.equal(ran.outcome.exitCode, 0, `${script}\n${ran.stdout}\n${ran.stderr}`);
  return ran.stdout;
}

test('a microVM is a sandbox: what a command finds in it, and what stays when it ends', async (t) => {
  {
    await using machine = await boot();
    t.diagnostic(`ready ${Math.round(machine.bootMs)} ms after the emulator's start`);
    const began = performance.now();
    assert.equal((await drain(await machine.client.exec(specOf(['true'])))).outcome.exitCode, 0);
    t.diagnostic(`first exec ${Math.round(performance.now() - began)} ms`);
    await looksLikeSandbox(machine);
    await takesInput(machine);
    await endsPorts(machine);
    await forgetsClients(machine);
    await refusesNeighbours(machine);
    assert.equal(await output(machine, 'ulimit -n'), '1024\n');
    // What it may have turned them into before it is started again.
    await output(machine, 'rm -r /tmp; ln -s /usr /tmp; echo kept >/root/kept; sync');
    await keepsToProcesses(machine);
  }
  await using machine = await boot();
  assert.equal(await output(machine, 'cat /root/kept; stat -c %F:%a /tmp'), 'kept\ndirectory:1777\n');
});

async function looksLikeSandbox(machine: Machine): Promise<void> {
  assert.equal(await output(machine, 'hostname'), 'vm-7\n');
  assert.equal(await output(machine, 'cat /etc/hosts'), hostsFile('vm-7'));
  assert.equal(await output(machine, 'cat /etc/resolv.conf', { uid: 1000 }), resolvConf(true));
  const tries = [
    'echo >/etc/hosts',
    'rm /dev/null',
    'echo x >/proc/sys/kernel/core_pattern',
    'mount -t proc proc /mnt',
  ];
  for (const line of tries)
    assert.equal(await output(machine, `(${line}) 2>/dev/null || echo refused`), 'refused\n');
  await output(machine, 'echo 50 >/proc/sys/net/ipv4/tcp_fin_timeout');
  assert.match(await output(machine, 'df -k /dev/shm'), / 16384 /);
  assert.equal(
    await output(machine, 'ls /dev | tr "\\n" " "'),
    'fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ',
  );
  const mounts = (await output(machine, 'cut -d" " -f1-3 /proc/mounts')).trim().split('\n');
  assert.deepEqual(mounts.filter((line) => !line.includes(' /proc/')).sort(), [
    'dev /dev tmpfs',
    'devpts /dev/pts devpts',
    'overlay / overlay',
    'proc /proc proc',
    'shm /dev/shm tmpfs',
    'squash /etc/hosts tmpfs',
    'squash /etc/resolv.conf tmpfs',
  ]);
  assert.match(await output(machine, 'grep " / " /proc/mounts'), /nosuid,nodev.*userxattr/);
  const status = await output(machine, 'cat /proc/1/status /proc/self/status');
  assert.deepEqual(new Set(status.match(/(?<=CapBnd:\t)\w+/g)), new Set(['00000000800405fb']));
  assert.deepEqual(new Set(status.match(/(?<=NoNewPrivs:\t)\w+/g)), new Set(['1']));
  assert.match(
    await output(machine, 'ip addr'),
    /LOOPBACK,UP[^]*127\.0\.0\.1\/8[^]*eth0[^]*10\.0\.2\.15\/24/,
  );
  assert.match(await output(machine, 'ip route'), /^default via 10\.0\.2\.2 dev eth0/);
  const seconds = Number(await output(machine, 'date +%s'));
  assert.ok(Math.abs(seconds - Date.now() / 1000) < 30, String(seconds));
}

async function takesInput(machine: Machine): Promise<void> {
  const exec = await machine.client.exec(specOf(['sha256sum'], { stdin: 'pipe' }));
  const block = Buffer.alloc(50_000, 'squash');
  for (let i = 0; i < 20; i++) await exec.writeStdin(block);
  exec.endStdin();
  const { stdout } = await drain(exec);
  const piped = await output(
    machine,
    `yes squash | tr -d '\\n' | head -c 50000 >/tmp/b; for i in $(seq 20); do cat /tmp/b; done | sha256sum`,
  );
  assert.equal(stdout, piped);
  assert.equal((await output(machine, 'head -c 3000000 /dev/zero')).length, 3_000_000);
  const text = Buffer.alloc(300_000, 'written ');
  await machine.client.files.write(
    at('/root/file'),
    (async function* () {
      yield text;
    })(),
  );
  assert.equal(await output(machine, 'cat /root/file'), text.toString());
  const read: Buffer[] = [];
  for await (const chunk of machine.client.files.read(at('/root/file'))) read.push(chunk);
  assert.ok(Buffer.concat(read).equals(text));
}

/** No VMM passes half an end on: a server that closes is a connection that ends. */
async function endsPorts(machine: Machine): Promise<void> {
  await output(
    machine,
    '(head -c 200000 /dev/zero | nc -l -p 8000 >/dev/null) >/dev/null 2>&1 & until netstat -ltn | grep -q :8000; do :; done',
  );
  const stream = await machine.client.dial(8000);
  const timer = setTimeout(() => stream.destroy(new Error('no end has come')), 20_000);
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) bytes += chunk.length;
  clearTimeout(timer);
  assert.equal(bytes, 200_000);
}

/** The kernel tells of a vsock peer's end otherwise than of a Unix one's: who looks through 4 GB for nobody must hear of it. */
async function forgetsClients(machine: Machine): Promise<void> {
  const inits = async () => Number(await output(machine, 'ps | grep -c "[s]quash-init"'));
  const lines = 'yes "a line of text" | head -c 8000000 >0';
  await output(machine, `mkdir /root/long; cd /root/long; ${lines}; for i in $(seq 500); do ln 0 $i; done`);
  const giveUp = new AbortController();
  const search = machine.client.files.search(at('/root/long'), { text: 'another' }, giveUp.signal).next();
  await waitFor('the worker', async () => (await inits()) === 2);
  giveUp.abort();
  await assert.rejects(search);
  await waitFor('the worker’s end', async () => (await inits()) === 1, 5000);
  await output(machine, 'rm -r /root/long');
}

async function refusesNeighbours(machine: Machine): Promise<void> {
  // By the loopback of vsock, as root and as anybody, and by the machine's own number.
  for (const uid of [0, 1000]) {
    assert.equal(await output(machine, 'knock 1 1024', { uid }), 'closed\n');
    assert.match(await output(machine, 'knock 3 1024', { uid }), /^(closed|refused \d+)\n$/);
  }
  assert.equal((await drain(await machine.client.exec(specOf(['true'])))).outcome.exitCode, 0);
}

/** Nothing can be started afterwards. */
async function keepsToProcesses(machine: Machine): Promise<void> {
  const script = 'i=0; while [ $i -lt 60 ]; do sleep 600 & i=$((i + 1)); echo $i; done';
  const ran = await drain(await machine.client.exec(specOf(['sh', '-c', script])));
  assert.match(ran.stderr, /can't fork/);
  assert.match(ran.stdout, /\n4\d\n$/);
}

test('a microVM that can’t be made goes off, and its console says why in one line', async () => {
  const options = {
    lowers: [await baseLayer()],
    upper: parts.upper,
    words: ['squash.hostname=x', 'squash.lowers=2'],
  };
  await using machine = await Machine.start(parts, options);
  assert.match(await machine.ended(), /^squash-boot: find drive "l1": No such device\r?$/m);
});

test('one that waits to be copied goes off at anything but the word who it is', async () => {
  const words = ['squash.lowers=1', 'squash.copied=1'];
  await using machine = await Machine.boot(parts, {
    lowers: [await baseLayer()],
    upper: parts.upper,
    words,
  });
  assert.match(await machine.console(), /^squash-boot: waits to be copied\r?$/m);
  await assert.rejects(machine.client.info(), { code: 'guest_failed' });
  assert.match(await machine.ended(), /^squash-boot: understand the host: Invalid argument\r?$/m);
});
