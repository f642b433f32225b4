/**
 * The module that virtual machines start from, built of Debian's packages: what it holds, and that its kernel, its QEMU and its
 * vhost-device-vsock work together. They run from the unpacked module and see nothing else of this machine.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { capabilitySchema } from '@squash/contract/capability';
import { z } from 'zod';
import { repository } from '../support/base-layer.ts';
import { cliEnvironment, squash, squashOk } from '../support/cli.ts';
import { vmModule } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';
import { directoryEntry, fileEntry, writeCpio } from '../../host/src/drivers/microvm/cpio.ts';

const skip = process.arch === 'x64' ? false : 'the module is of x86_64 alone';
const guestMsMax = 60_000;

let squashfs: string;
let place: string;
let tree: string;
before(async () => {
  if (skip !== false) return;
  squashfs = await vmModule();
  // The path of a socket is short.
  place = mkdtempSync(join(tmpdir(), 'squash-vm-'));
  tree = join(place, 'tree');
  execFileSync('unsquashfs', ['-quiet', '-no-progress', '-no-xattrs', '-dest', tree, squashfs]);
});
after(() => rmSync(place, { recursive: true, force: true }));

const part = z.strictObject({
  package: z.string(),
  version: z.string(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});
const aboutSchema = z.strictObject({
  schema: z.literal(1),
  kernel: part,
  qemu: part,
  vsock: part,
  packages: part.array().min(3),
});
const aboutOf = () => aboutSchema.parse(JSON.parse(readFileSync(join(tree, 'boot/about.json'), 'utf8')));

/** The machine as it is meant to be started: emulated, all its devices those that the driver gives it. */
const qemu = [
  '/usr/bin/qemu-system-x86_64 -M microvm,accel=tcg,pcie=on,memory-backend=ram -cpu max -m 256M -bios qboot.rom',
  '-nodefaults -no-user-config -display none -no-reboot -serial file:/run/console',
  '-object memory-backend-memfd,id=ram,size=256M,share=on -kernel /boot/vmlinux -initrd /run/initrd',
  '-drive id=l0,file=/run/l0,format=raw,if=none,readonly=on -device virtio-blk-device,drive=l0,serial=l0',
  '-device virtio-rng-device -netdev user,id=net -device virtio-net-device,netdev=net',
  '-device pcie-root-port,id=rp0,chassis=1,slot=1 -chardev socket,id=vsock,path=/run/vh.sock',
  '-device vhost-user-vsock-pci,chardev=vsock,bus=rp0',
].flatMap((line) => line.split(' '));

/** A program of the module on the module's tree alone, with a folder of the test's for what it writes. */
function inModule(words: readonly string[]): readonly string[] {
  const root = [
    '--ro-bind',
    tree,
    '/',
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '--bind',
    join(place, 'out'),
    '/run',
  ];
  return ['bwrap', '--unshare-all', '--die-with-parent', ...root, '--', ...words];
}

function start(words: readonly string[]): ChildProcess {
  const [program = '', ...rest] = inModule(words);
  return spawn(program, rest, { stdio: ['ignore', 'ignore', 'inherit'] });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

test('it holds QEMU, what its programs need, a kernel with its modules, and no more', { skip }, () => {
  const about = aboutOf();
  const names = about.packages.map((each) => each.package);
  assert.deepEqual(new Set(names).size, names.length);
  for (const each of [about.qemu, about.vsock]) assert.ok(names.includes(each.package));
  assert.match(about.kernel.version, /^\d+\.\d+\.\d+.*cloud-amd64$/);
  const unused = ['python3', 'perl-base', 'libudev-dev', 'ipxe-qemu', 'kmod', 'initramfs-tools', 'logsave'];
  assert.deepEqual(
    names.filter((name) => unused.includes(name)),
    [],
  );
  assert.deepEqual(readdirSync(join(tree, 'usr/bin')).sort(), ['qemu-system-x86_64', 'vhost-device-vsock']);
  assert.deepEqual(readdirSync(join(tree, 'boot')).sort(), ['about.json', 'modules', 'vmlinux', 'vmlinuz']);
  const modules = readdirSync(join(tree, 'boot/modules')).sort();
  assert.deepEqual(
    modules.map((name) => name.slice(0, 2)),
    modules.map((_, index) => String(index).padStart(2, '0')),
  );
  for (const wanted of ['virtio_blk', 'virtio_net', 'vmw_vsock_virtio_transport', 'squashfs', 'overlay'])
    assert.ok(
      modules.some((name) => name.slice(3) === `${wanted}.ko`),
      wanted,
    );
  const folders = 'bin boot dev drives etc lib lib64 mounts proc run sbin sys tmp usr';
  assert.equal(readdirSync(tree).sort().join(' '), folders);
  for (const name of ['hosts', 'resolv.conf'])
    assert.equal(readFileSync(join(tree, 'etc', name), 'utf8'), '');
});

test('a guest boots in its QEMU, loads all modules in their order and has disk, network and vsock', {
  skip,
}, async () => {
  mkdirSync(join(place, 'out'));
  const out = (name: string) => join(place, 'out', name);
  const guest = join(place, 'guest');
  execFileSync('gcc', ['-static', '-O1', '-w', '-o', guest, join(import.meta.dirname, 'vm-guest.c')]);
  const modules = readdirSync(join(tree, 'boot/modules')).sort();
  const entries = modules.map((name) =>
    fileEntry(`modules/${name}`, readFileSync(join(tree, 'boot/modules', name))),
  );
  const init = fileEntry('init', readFileSync(guest), 0o755);
  writeFileSync(out('initrd'), writeCpio([init, directoryEntry('modules'), ...entries]));
  execFileSync('cp', [squashfs, out('l0')]);
  const [format = '', ...words] = inModule(['/usr/sbin/mke2fs', '-q', '-t', 'ext4', '/run/upper', '16M']);
  execFileSync(format, words);

  await using stack = new AsyncDisposableStack();
  const host = createServer((socket) => socket.on('error', () => {})).listen(out('v.sock_1'));
  stack.defer(() => void host.close());
  const reached = once(host, 'connection');
  const vsock = start(['/usr/bin/vhost-device-vsock', '--socket=/run/vh.sock', '--uds-path=/run/v.sock']);
  stack.defer(() => end(vsock));
  await waitFor('vhost-device-vsock', () => existsSync(out('vh.sock')), 20_000);
  const mhz = Number(/MHz\s*:\s*([\d.]+)/.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 2_000);
  const append = `console=ttyS0 quiet reboot=t panic=-1 pcie_ports=native tsc=reliable tsc_early_khz=${Math.round(mhz * 1_000)}`;
  const emulator = start([...qemu, '-append', append]);
  stack.defer(() => end(emulator));
  const late = setTimeout(() => emulator.kill('SIGKILL'), guestMsMax);
  await once(emulator, 'exit');
  clearTimeout(late);

  const console = readFileSync(out('console'), 'utf8').replaceAll('\r', '');
  const said = (what: string) => new RegExp(`^${what}: (.*)$`, 'm').exec(console)?.[1];
  assert.equal(said('kernel'), aboutOf().kernel.version, console);
  for (const name of modules) assert.equal(said(`/modules/${name}`), 'ok', console);
  assert.equal(said('serial'), 'l0');
  for (const what of ['mount', 'about', 'eth0', 'vsock'])
    assert.equal(said(what), 'ok', `${what}\n${console}`);
  await reached;
});

test('sq-mkvm makes the module, sq-firecracker runs one, doctor tells its versions, and no sandbox takes it as a layer', {
  skip,
}, async () => {
  await using daemon = await TestDaemon.start();
  const row = async (name: string) => {
    const schema = z.object({ host: capabilitySchema.array() });
    const { host } = schema.parse(JSON.parse(await squashOk(daemon, ['doctor', '--json'])));
    return host.find((each) => each.name === name);
  };
  const old = (script: string, ...words: string[]) =>
    spawnSync(join(repository, 'packaging/bin', script), words, {
      encoding: 'utf8',
      env: { ...process.env, ...cliEnvironment(daemon) },
    });
  const mkvm = (...words: string[]) => old('sq-mkvm', ...words);
  const none = await row('vm_module');
  assert.deepEqual(
    [none?.state, none?.required, none?.remedy],
    ['missing', false, 'squash module build vmm'],
  );
  const kvm = await row('kvm');
  assert.match(
    kvm?.choice ?? '',
    /^(?:used where a guest has answered on it|not used: virtual machines are emulated)/,
  );

  const made = mkvm('all');
  assert.deepEqual([made.status, made.stdout.startsWith('900-vmm  ')], [0, true], made.stderr);
  const found = await row('vm_module');
  const { kernel, qemu } = aboutOf();
  assert.equal(found?.state, 'ok', 'found while the daemon runs');
  assert.ok(found?.found.includes(`Linux ${kernel.version}, QEMU ${qemu.version}`), found?.found);

  for (const version of ['6.12', 'bookworm']) {
    const { code, stderr } = await squash(daemon, ['module', 'build', 'vmm', '--version', version]);
    assert.equal(code, 2, stderr);
    const whole = `a Debian release whose kernel fits: trixie-backports, trixie, bookworm-backports, forky, sid, and not "${version}"`;
    assert.ok(stderr.includes(whole), stderr);
    assert.doesNotMatch(stderr, /reading the index/);
  }

  const refused = await squash(daemon, ['create', 'none', '-l', '000-base-test,900-vmm']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /"900-vmm": virtual machines start from it.*\(invalid_request\)/);
  await squashOk(daemon, ['create', 'some', '-l', '000-base-test']);
  const late = await squash(daemon, ['activate', 'some', '900-vmm']);
  assert.match(late.stderr, /"900-vmm": virtual machines start from it.*\(invalid_request\)/);
  await squashOk(daemon, ['rm', 'some']);

  const vm = (...words: string[]) => old('sq-firecracker', ...words);
  assert.equal(vm('start', 'it', '1', '128', 'modules/000-base-test.squashfs').status, 0);
  const inside = vm('exec', 'it', 'uname -r; pwd; echo "$(id -u)\'"; exit 3', '/tmp', '60');
  assert.equal(inside.status, 3, inside.stderr);
  const { stdout, exit_code: code } = JSON.parse(inside.stdout);
  assert.deepEqual([stdout, code], [`${kernel.version}\n/tmp\n0'\n`, 3]);
  assert.match(vm('add-drive', 'it', '/none.squashfs').stderr, /module not found: none;/);
  assert.equal(vm('stop', 'it').status, 0);
  assert.match(vm('exec', 'it', 'true').stderr, /sandbox_not_found/);
  assert.deepEqual([vm('start', 'it').status, vm().status], [2, 2]);

  const firecracker = mkvm('firecracker');
  assert.equal(firecracker.status, 1);
  assert.match(firecracker.stderr, /Debian has no package of Firecracker.*SQUASH_FIRECRACKER/s);
  for (const words of [[], ['other'], ['all', 'more']]) assert.equal(mkvm(...words).status, 2);
});
