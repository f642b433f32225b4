/**
 * Runs a test file's body inside the namespaces of a `squash-launch` of its own, where the daemon would run.
 *
 * Outside, the file registers one test per mode, which starts the launcher, runs the same file again inside as its
 * command, and looks for leaks at the end. Inside, it registers the real tests. Nothing else can talk to the
 * launcher: it only hears the daemon's own id.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { LaunchClient } from '../../host/src/launch/launch-client.ts';
import type { LaunchStart } from '../../host/src/launch/launch-fields.ts';
import { thisMachine } from '../../tools/test/allowed-skips.ts';
import { baseLayer, repository } from './base-layer.ts';
import { removeDataDirectory } from './data-directory.ts';
import { expectNoLeaks } from './leaks.ts';
import { ownedPrefix } from './owned-directory.ts';
import { thisTurn } from './turn.ts';

const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
const program = join(repository, 'native/build', architecture, 'squash-launch');
const placeVariable = 'SQUASH_TEST_PLACE';

/** How the launcher is started: three ways that only root has, and those of an ordinary user. Root becomes one for them. */
export type LauncherMode = 'default' | 'single' | 'fuse' | 'user' | 'user-single';

export interface Place {
  readonly mode: LauncherMode;
  readonly dataDir: string;
  readonly runDir: string;
  readonly client: LaunchClient;
  /** A layer with a busybox, unpacked below the data directory. */
  readonly lower: string;
}

/** Call at the top of a test file with `import.meta.filename`. */
export async function insideLauncher(
  file: string,
  modes: readonly LauncherMode[],
  body: (place: Place) => Promise<void> | void,
): Promise<void> {
  const given = process.env[placeVariable];
  if (given === undefined) {
    // The first is what most have; what root's others have in common with it is shown by it. A user has few, and each.
    const chosen = isRoot ? [...modes.slice(0, 1), ...thisTurn(modes.slice(1))] : modes;
    for (const mode of chosen) {
      const skip = skipReason(mode);
      test(`inside a launcher (${mode})`, { skip }, async () => runInside(file, mode));
    }
    return;
  }
  const { mode, dataDir } = JSON.parse(given) as { mode: LauncherMode; dataDir: string };
  const runDir = join(dataDir, 'run');
  const client = new LaunchClient(runDir);
  const lower = 'layers/base';
  await client.unpack({ path: 'modules/base.squashfs', target: lower, bytesMax: 1e8, inodesMax: 10_000 });
  after(async () => {
    await client.shutdown();
    client[Symbol.dispose]();
  });
  await body({ mode, dataDir, runDir, client, lower });
}

/** A start that asks for little; what a test is about it sets itself. */
export function startOf(place: Place, name: string, changes: Partial<LaunchStart> = {}): LaunchStart {
  return {
    name: name as LaunchStart['name'],
    instance: nextInstance(),
    hostname: name,
    lowers: [place.lower],
    upper: { path: `sandboxes/${name}/uppers/1`, kind: 'directory', bytesMax: 2 ** 26, inodesMax: 4_096 },
    makesUpper: false,
    mounts: [],
    memoryBytesMax: 2 ** 27,
    cpuMilli: 2_000,
    pidsMax: 64,
    shmBytesMax: 2 ** 20,
    openFilesMax: 1_024,
    hosts: '127.0.0.1\tlocalhost\n',
    resolvConf: '# none\n',
    ...changes,
  };
}

let instance = Date.now();

export function nextInstance(): number {
  instance += 1;
  return instance;
}

const isRoot = process.getuid?.() === 0;
const isOfUser = (mode: LauncherMode): mode is 'user' | 'user-single' =>
  mode === 'user' || mode === 'user-single';

function skipReason(mode: LauncherMode): string | false {
  if (isRoot) return false;
  if (!isOfUser(mode)) return 'only root has control groups everywhere, and a privileged helper';
  return mode === 'user' && !thisMachine(false).hasSubordinateIds ? 'no subordinate ids' : false;
}

async function runInside(file: string, mode: LauncherMode): Promise<void> {
  using user = isRoot && isOfUser(mode) ? new ThrowAwayUser(mode) : undefined;
  const dataDir = mkdtempSync(join('/tmp', ownedPrefix('launch')));
  mkdirSync(join(dataDir, 'run'));
  mkdirSync(join(dataDir, 'modules'));
  copyFileSync(await baseLayer(), join(dataDir, 'modules/base.squashfs'));
  if (user !== undefined) {
    for (const path of ['', 'run', 'modules', 'modules/base.squashfs']) {
      chownSync(join(dataDir, path), user.uid, user.uid);
    }
  }
  chmodSync(join(dataDir, 'modules/base.squashfs'), 0o644);
  const words = [program, 'enter', '--data', dataDir, '--run', join(dataDir, 'run'), '--app', repository];
  const command = [...words, '--', process.execPath, file];
  const asUser =
    user === undefined
      ? []
      : ['setpriv', '--reuid', String(user.uid), '--regid', String(user.uid), '--clear-groups', '--'];
  try {
    const { code, output } = await run([...asUser, ...command], {
      [placeVariable]: JSON.stringify({ mode, dataDir }),
      ...(mode === 'single' || mode === 'user-single' ? { SQUASH_IDS: 'single' } : {}),
      ...(mode === 'fuse' ? { SQUASH_OVERLAY: 'fuse' } : {}),
    });
    const log = code === 0 ? '' : readFileSync(join(dataDir, 'run/launch.log'), 'utf8').slice(-4_000);
    assert.equal(code, 0, `${output}\n${log}`);
    await expectNoLeaks(dataDir);
  } finally {
    await removeDataDirectory(dataDir);
  }
}

async function run(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ code: number; output: string }> {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('NODE_TEST'));
  const child = spawn(words[0] ?? '', words.slice(1), {
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const [code] = (await once(child, 'close')) as [number | null];
  return { code: code ?? -1, output };
}

/** With subordinate ids, which `useradd` gives, or without. */
class ThrowAwayUser implements Disposable {
  readonly #name: string;
  readonly uid: number;

  constructor(mode: 'user' | 'user-single') {
    this.#name = `sqlaunch${process.pid}${mode === 'user' ? 'r' : 's'}`;
    execFileSync('useradd', ['--no-create-home', '--shell', '/bin/sh', this.#name]);
    this.uid = Number(execFileSync('id', ['-u', this.#name], { encoding: 'utf8' }));
  }

  [Symbol.dispose](): void {
    execFileSync('userdel', [this.#name], { stdio: 'ignore' });
  }
}
