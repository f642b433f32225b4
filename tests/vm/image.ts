/**
 * Builds what the test guest boots from: Debian's cloud kernel, a small initramfs and an ext4 root with
 * systemd, all from Debian's packages and cached under `.cache/vm/<hash of the recipe>`.
 *
 * Nothing is installed on this machine, and root is not needed: `mmdebstrap` and the unpacking of the root
 * run in a user namespace where the caller has subordinate ids. A newcomer would miss that the project under
 * test is *not* in this image; `disks.ts` packs it at every boot.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { removeDataDirectory } from '../support/data-directory.ts';
import { type CpioEntry, directoryEntry, fileEntry, writeCpio } from '../../host/src/drivers/microvm/cpio.ts';

const run = promisify(execFile);
const recipeFolder = join(import.meta.dirname, 'image');
const cacheFolder = join(import.meta.dirname, '../../.cache/vm');

/** What an operator's machine has after `quickstart` installed the packages of the phase `run`, and systemd. */
const guestPackages = [
  'systemd-sysv',
  'udev',
  'dbus-user-session',
  'libpam-systemd',
  'uidmap',
  'bubblewrap',
  'squashfs-tools',
  'e2fsprogs',
  'fuse-overlayfs',
  'fuse3',
  'iproute2',
  'procps',
  'busybox-static',
  'kmod',
  'curl',
  'libatomic1',
  'libstdc++6',
];

/** Order of loading; each needs the ones before it. */
const bootModules = [
  'drivers/virtio/virtio_ring',
  'drivers/virtio/virtio',
  'drivers/virtio/virtio_pci_modern_dev',
  'drivers/virtio/virtio_pci_legacy_dev',
  'drivers/virtio/virtio_pci',
  'drivers/block/virtio_blk',
  // A root with project quota can not even be mounted without these.
  'fs/quota/quota_tree',
  'fs/quota/quota_v2',
];

/** Room for the root, the layers and uppers of a test; the file is sparse. */
const rootBytes = '4G';
/** Building takes about a minute on two cores; a hung mirror must not hang the suite. */
const buildMsMax = 600_000;

export interface GuestImage {
  readonly kernel: string;
  readonly initramfs: string;
  readonly root: string;
}

/** The image of this recipe, built where the cache has none, which `onBuild` is told. @throws when a Debian package can't be had */
export async function guestImage(onBuild?: () => void): Promise<GuestImage> {
  const kernelPackage = await newestKernelPackage();
  const folder = join(cacheFolder, await recipeHash(kernelPackage));
  const image = {
    kernel: join(folder, 'vmlinuz'),
    initramfs: join(folder, 'initramfs'),
    root: join(folder, 'root.ext4'),
  };
  if (existsSync(folder)) return image;
  // Two test files run at once: one builds.
  await using _turn = await turnToBuild();
  if (existsSync(folder)) return image;
  onBuild?.();
  await mkdir(cacheFolder, { recursive: true });
  const work = await mkdtemp(join(cacheFolder, 'build-'));
  try {
    await build(work, kernelPackage);
    await rename(join(work, 'image'), folder);
  } finally {
    await removeDataDirectory(work);
  }
  await removeOldImages(folder);
  return image;
}

/** A name that one process can have. The kernel takes it back when the process ends, however that happens. */
async function turnToBuild(): Promise<AsyncDisposable> {
  for (;;) {
    const server = createServer().listen('\0squash-tests-vm-image');
    try {
      await once(server, 'listening');
      return server;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error;
      await wait(500);
    }
  }
}

async function newestKernelPackage(): Promise<string> {
  const { stdout } = await run('apt-cache', ['depends', 'linux-image-cloud-amd64']);
  const name = /linux-image-\S*-cloud-amd64$/m.exec(stdout.split('\n').slice(1).join('\n'))?.[0];
  if (name === undefined) {
    throw new Error('apt knows no linux-image-cloud-amd64; run `apt-get update` once');
  }
  return name;
}

async function recipeHash(kernelPackage: string): Promise<string> {
  const hash = createHash('sha256').update(kernelPackage);
  for (const name of (await readdir(recipeFolder)).sort()) {
    hash.update(name).update(await readFile(join(recipeFolder, name)));
  }
  hash.update(await readFile(import.meta.filename));
  return hash.digest('hex').slice(0, 16);
}

async function build(work: string, kernelPackage: string): Promise<void> {
  const options = { cwd: work, timeout: buildMsMax, maxBuffer: 64 * 1024 * 1024 };
  const image = join(work, 'image');
  const kernel = join(work, 'kernel');
  const busybox = join(work, 'busybox');
  await mkdir(image);
  for (const [name, folder] of [
    [kernelPackage, kernel],
    ['busybox-static', busybox],
  ] as const) {
    await run('apt-get', ['-q', '-o', 'APT::Sandbox::User=root', 'download', name], options);
    const file = (await readdir(work)).find((entry) => entry.startsWith(`${name}_`));
    if (file === undefined) throw new Error(`apt-get download ${name} left no file`);
    await run('dpkg-deb', ['-x', file, folder], options);
  }
  const [version] = await readdir(join(kernel, 'lib/modules'));
  if (version === undefined) throw new Error(`${kernelPackage} holds no modules`);
  await rename(join(kernel, 'boot', `vmlinuz-${version}`), join(image, 'vmlinuz'));
  await writeFile(join(image, 'initramfs'), await initramfs(join(kernel, 'lib/modules', version), busybox));
  // Hooks run as an id of the user namespace that may not enter the caller's home: what they need is copied in.
  const stage = join(work, 'stage');
  await cp(recipeFolder, stage, { recursive: true });
  await rename(join(kernel, 'lib/modules'), join(stage, 'modules'));
  await run('mmdebstrap', [...appArmorArguments, join(stage, 'apparmor.tar')], options);
  await run('mmdebstrap', bootstrapArguments(work), options);
  await makeFilesystem(work);
}

/** Debian 12's parser does not know the rules for user namespaces: the next one's, with the libraries it needs. */
const appArmorArguments = [
  '--quiet',
  '--variant=extract',
  '--include=apparmor',
  '--aptopt=Acquire::Languages "none"',
  'trixie',
];

function bootstrapArguments(work: string): string[] {
  const unread = ['man', 'doc', 'locale', 'info'].map((name) => `path-exclude=/usr/share/${name}/*`);
  return [
    '--quiet',
    '--variant=minbase',
    `--mode=${process.getuid?.() === 0 ? 'root' : 'unshare'}`,
    `--include=${guestPackages.join(',')}`,
    '--aptopt=Acquire::Languages "none"',
    ...unread.map((option) => `--dpkgopt=${option}`),
    `--customize-hook=copy-in '${join(work, 'stage')}' /`,
    '--customize-hook=chroot "$1" sh /stage/setup.sh /stage',
    'bookworm',
    join(work, 'root.tar'),
  ];
}

/**
 * `mke2fs -d` keeps owners, so the tree must be unpacked with its ids: by root, or in a user namespace, where nobody makes device nodes.
 * The kernel makes them at each boot.
 */
async function makeFilesystem(work: string): Promise<void> {
  const script = `
    mkdir root && tar -xf root.tar -C root --numeric-owner --exclude './dev/*' &&
    mke2fs -q -t ext4 -O quota,project -E lazy_itable_init=1,lazy_journal_init=1 -d root image/root.ext4 ${rootBytes} &&
    rm -rf root root.tar`;
  const path = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;
  const shell = ['sh', '-euc', script];
  const [program, ...args] =
    process.getuid?.() === 0 ? shell : ['unshare', '--map-root-user', '--map-auto', ...shell];
  await run(program ?? 'sh', args, { cwd: work, timeout: buildMsMax, env: { ...process.env, PATH: path } });
}

async function initramfs(modules: string, busybox: string): Promise<Buffer> {
  const entries: CpioEntry[] = ['bin', 'dev', 'modules', 'root'].map(directoryEntry);
  entries.push(fileEntry('bin/busybox', await readFile(join(busybox, 'bin/busybox')), 0o755));
  entries.push(fileEntry('init', await readFile(join(recipeFolder, 'initramfs.sh')), 0o755));
  for (const module of bootModules) {
    const data = await readFile(join(modules, 'kernel', `${module}.ko`));
    entries.push(fileEntry(`modules/${module.slice(module.lastIndexOf('/') + 1)}.ko`, data));
  }
  return writeCpio(entries);
}

/** One image is a gigabyte at most; those of older recipes are of no more use. */
async function removeOldImages(current: string): Promise<void> {
  for (const name of await readdir(cacheFolder)) {
    const folder = join(cacheFolder, name);
    if (/^[0-9a-f]{16}$/.test(name) && folder !== current) {
      await rm(folder, { recursive: true, force: true });
    }
  }
}
