/**
 * A layer on the Debian base with the programs that people really speak to the network with. Built from Debian's
 * packages by the project's own builder and kept where that keeps its layers: the first build takes minutes, and `squash test` has
 * it done before files that ask for it (`tools/test/layers.ts`).
 *
 * Java brings no compiler of its own here (70 MB of packages less): ecj, which is a Java program, compiles the test's
 * source inside. The Go program is rclone, which Debian builds with Go's own resolver and HTTP stack.
 */
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { buildLayer } from '../../images/build-layer.ts';
import { presetSchema } from '../../images/preset.ts';
import { findPreset, type FoundPreset } from '../../images/preset-files.ts';
import { repository } from './base-layer.ts';

const run = promisify(execFile);
const locks = join(repository, '.cache/test-layers');

/** A preset of this file's own, on the Debian base. */
function ofDebian(made: {
  readonly name: string;
  readonly prefix: string;
  readonly module: string;
  readonly packages: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
  readonly summary: string;
}): FoundPreset {
  const { packages, ...fields } = made;
  const preset = presetSchema.parse({
    schema: 1,
    base: 'debian',
    sources: [{ kind: 'debian', packages }],
    size: { squashfs_mb: 300, unpacked_mb: 1_000 },
    licence: 'as its packages say',
    ...fields,
  });
  return { preset, files: fields.files ?? {}, path: import.meta.filename };
}

const clients = ofDebian({
  name: 'clients',
  prefix: '100',
  module: 'clients-test',
  packages: [
    'busybox-static',
    'ecj',
    'git',
    'nodejs',
    'openjdk-17-jre-headless',
    'python3',
    'python3-grpcio',
    'python3-pip',
    'python3-requests',
    'python3-websockets',
    'rclone',
    'wget',
  ],
  files: { 'etc/pip.conf': '[global]\nbreak-system-packages = true\n' },
  summary: 'clients of the network, for tests',
});

type Progress = (layer: string, text: string) => void;

/** Module name → squashfs file, as `TestDaemon.start` takes them: the Debian base alone. */
export async function debianModules(say?: Progress): Promise<Record<string, string>> {
  return { '000-base-debian': (await built(findPreset('debian'), say)).squashfs };
}

/** The same with the clients on it. */
export async function clientModules(say?: Progress): Promise<Record<string, string>> {
  const layer = await built(clients, say);
  return { ...(await debianModules(say)), '100-clients-test': layer.squashfs };
}

/** The Debian base with what contexts need, as users build it. */
export async function interpreterModules(say?: Progress): Promise<Record<string, string>> {
  const interpreter = await built(findPreset('interpreter'), say);
  return { ...(await debianModules(say)), '120-interpreter': interpreter.squashfs };
}

/** Below the clients, whose package database then is the one that programs see. */
const databases = ofDebian({
  name: 'databases',
  prefix: '050',
  module: 'databases-test',
  packages: ['iproute2', 'postgresql', 'sqlite3'],
  summary: 'databases and iproute2, for tests',
});

/** PostgreSQL, SQLite and iproute2. */
export async function databaseModules(say?: Progress): Promise<Record<string, string>> {
  return { '050-databases-test': (await built(databases, say)).squashfs };
}

/** What virtual machines start from, as users build it: the squashfs file. */
export async function vmModule(say?: Progress): Promise<string> {
  return (await built(findPreset('vmm'), say)).squashfs;
}

/** HTTP and SOCKS5 proxies as Debian has them. */
const proxies = ofDebian({
  name: 'proxies',
  prefix: '100',
  module: 'proxies-test',
  packages: ['microsocks', 'tinyproxy-bin'],
  summary: 'proxies, for tests',
});

/** Puts `tinyproxy` and `microsocks` into a directory of the host's. */
export async function unpackProxies(directory: string): Promise<void> {
  const { squashfs } = await built(proxies);
  const words = ['-quiet', '-no-progress', '-force', '-dest', directory, squashfs];
  await run('unsquashfs', [...words, 'usr/bin/tinyproxy', 'usr/bin/microsocks']);
}

async function built(
  wanted: FoundPreset,
  say: Progress = () => undefined,
): Promise<{ readonly squashfs: string }> {
  mkdirSync(locks, { recursive: true });
  // Two files that want the same layer at once would each build it. Whoever is ended has let go.
  using turn = new DatabaseSync(join(locks, `${wanted.preset.name}.${process.getuid?.()}.lock`), {
    timeout: 10 * 60_000,
  });
  turn.exec('BEGIN EXCLUSIVE');
  return await buildLayer(wanted, {
    fresh: false,
    onProgress: say,
    signal: AbortSignal.timeout(20 * 60_000),
  });
}
