/**
 * Runs what differs for ordinary users, most of it of the end-to-end suite, from a run as root: once with subordinate ids (with
 * `--long` nearly everything), and a sample of it without.
 *
 * Each run has a user, a home and a copy of the project of its own, and nothing of them is left: the user's
 * processes are ended (every process of that uid is ours, nobody else has it) and the user is removed. The
 * large folders of the copy are hard links where the file systems allow it: the files are root's and closed to writing.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { thisTurn } from '../../tests/support/turn.ts';
import { filesOf, inTurns, isOfTurn, isWanted, longOnly, root, suites, turnOfRun } from './suites.ts';
import { add, emptyTally, parseTally, type Tally } from './tally.ts';

interface Kind {
  readonly name: string;
  readonly withSubordinateIds: boolean;
}

const kinds: readonly Kind[] = [
  { name: 'ordinary user with subordinate ids', withSubordinateIds: true },
  { name: 'ordinary user without (single-id mode)', withSubordinateIds: false },
];

/**
 * What is run as a user alone where there is one to run it: boxes, which are what users start, and files whose counterparts are run as root
 * alone (`sameForAll`, the microVMs' attacks and faults), so that each thing is tried as one of both and the launcher as both.
 */
export const asUsersAlone = [
  // Containers without root: their files belong to ids that nobody else has.
  'codemode/src/suite/container.test.ts',
  'tests/e2e/box.test.ts',
  'tests/e2e/box-caches.test.ts',
  'tests/e2e/box-doctor.test.ts',
  'tests/e2e/box-git.test.ts',
  'tests/e2e/box-learn.test.ts',
  'tests/e2e/box-policy.test.ts',
  'tests/e2e/box-ports.test.ts',
  'tests/e2e/box-programs.test.ts',
  'tests/e2e/box-questions.test.ts',
  'tests/e2e/box-seed.test.ts',
  'tests/e2e/box-sockets.test.ts',
  'tests/e2e/box-standby.test.ts',
  'tests/e2e/build-to-bucket.test.ts',
  'tests/e2e/cli.test.ts',
  'tests/e2e/cli-exec.test.ts',
  'tests/e2e/files.test.ts',
  'tests/e2e/groups.test.ts',
  'tests/e2e/idle-exit.test.ts',
  'tests/e2e/image-commit.test.ts',
  'tests/e2e/microvm.test.ts',
  'tests/e2e/modules.test.ts',
  'tests/e2e/ports.test.ts',
  'tests/e2e/processes-restart.test.ts',
  'tests/e2e/readme.test.ts',
  'tests/e2e/s3-ephemeral.test.ts',
  'tests/e2e/sandboxes.test.ts',
  'tests/e2e/srt.test.ts',
  'tests/e2e/srt-module.test.ts',
  'tests/security/box-elsewhere.test.ts',
  'tests/security/box-git.test.ts',
  'tests/security/box-huge.test.ts',
  'tests/security/box-kills.test.ts',
  'tests/security/box-races.test.ts',
  'tests/security/box-repository.test.ts',
];

/** Folders that nobody edits in place. */
const large = ['node_modules', '.cache'];

/** Longer than all of it takes on two slow cores, with `--long`. */
const runMsMax = 60 * 60_000;

/**
 * End-to-end files for which it makes no difference who started the daemon: what they try lies above the launcher, or is measured
 * and not judged. The others make sandboxes with ids, groups, mounts and sockets of that user, or are what he types.
 */
const sameForAll = [
  'tests/e2e/access.test.ts',
  // One of its disks wants root.
  'tests/e2e/admission.test.ts',
  'tests/e2e/api-access.test.ts',
  'tests/e2e/api-curl.test.ts',
  'tests/e2e/api-fuzz.test.ts',
  'tests/e2e/api-order.test.ts',
  'tests/e2e/api-readme.test.ts',
  'tests/e2e/approvals.test.ts',
  'tests/e2e/bench.test.ts',
  'tests/e2e/box-devices.test.ts',
  // A client of the API; what owners become of its layers is tried by `build-to-bucket`.
  'tests/e2e/build.test.ts',
  'tests/e2e/callers.test.ts',
  'tests/e2e/certificate.test.ts',
  'tests/e2e/cli-demo.test.ts',
  'tests/e2e/cli-documents.test.ts',
  'tests/e2e/cli-events.test.ts',
  'tests/e2e/cli-mounts.test.ts',
  'tests/e2e/cli-network.test.ts',
  'tests/e2e/cli-older-daemon.test.ts',
  'tests/e2e/cli-sandboxes.test.ts',
  'tests/e2e/cli-sync.test.ts',
  'tests/e2e/codemode-sandbox.test.ts',
  'tests/e2e/computesdk.test.ts',
  'tests/e2e/contexts.test.ts',
  'tests/e2e/contexts-interrupt.test.ts',
  'tests/e2e/crowd.test.ts',
  'tests/e2e/documents.test.ts',
  'tests/e2e/egress.test.ts',
  'tests/e2e/events.test.ts',
  'tests/e2e/files-cli.test.ts',
  'tests/e2e/group-global.test.ts',
  'tests/e2e/group-warm.test.ts',
  'tests/e2e/groups-mcp.test.ts',
  'tests/e2e/groups-nanoclaw.test.ts',
  'tests/e2e/groups-nanoclaw-v2.test.ts',
  'tests/e2e/held-actions.test.ts',
  // Its images are made by tools that want root; what single-id mode makes of them is tried with hostile ones.
  'tests/e2e/images.test.ts',
  'tests/e2e/image-push.test.ts',
  'tests/e2e/host-root.test.ts',
  'tests/e2e/keys.test.ts',
  'tests/e2e/mcp.test.ts',
  'tests/e2e/microvm-fork.test.ts',
  'tests/e2e/microvm-kvm.test.ts',
  'tests/e2e/microvm-memory.test.ts',
  'tests/e2e/microvm-mounts.test.ts',
  'tests/e2e/microvm-snapshot.test.ts',
  'tests/e2e/microvm-stopped.test.ts',
  'tests/e2e/openapi-clients.test.ts',
  'tests/e2e/original.test.ts',
  'tests/e2e/ports-access.test.ts',
  // It reads uppers from outside, which wants root.
  'tests/e2e/snapshots-share.test.ts',
  'tests/e2e/ports-api.test.ts',
  'tests/e2e/ports-browser.test.ts',
  'tests/e2e/ports-tls.test.ts',
  'tests/e2e/presets.test.ts',
  'tests/e2e/processes-attach.test.ts',
  'tests/e2e/processes-exec.test.ts',
  'tests/e2e/processes.test.ts',
  'tests/e2e/python-contexts.test.ts',
  'tests/e2e/python-sdk.test.ts',
  'tests/e2e/repl.test.ts',
  'tests/e2e/schedules.test.ts',
  // Bytes to and from a bucket; with a user's sandboxes it is `build-to-bucket` and `s3-ephemeral`.
  'tests/e2e/s3.test.ts',
  'tests/e2e/s3-snapshots.test.ts',
  'tests/e2e/secrets-file.test.ts',
  'tests/e2e/sdk-liars.test.ts',
  'tests/e2e/sdk-nouns.test.ts',
  'tests/e2e/sdk-runtimes.test.ts',
  'tests/e2e/sdk.test.ts',
  'tests/e2e/ssh-gateway.test.ts',
  'tests/e2e/ssh.test.ts',
  'tests/e2e/terminal.test.ts',
  'tests/e2e/usage.test.ts',
  // The same bytes whoever builds it, and a guest that knows nothing of ids.
  'tests/e2e/vm-module.test.ts',
  'tests/e2e/webhooks.test.ts',
];

/** What of other suites is tried anew under other ids: of security seconds, where all of it takes minutes. */
const others = [
  // Without a freezer a sandbox is stopped by signals, and its upper is held by measuring.
  'tests/security/abuse.test.ts',
  'tests/security/attacks.test.ts',
  'tests/security/box-attacks.test.ts',
  'tests/security/box-elsewhere.test.ts',
  'tests/security/box-git.test.ts',
  'tests/security/box-huge.test.ts',
  'tests/security/box-kills.test.ts',
  'tests/security/box-nesting.test.ts',
  'tests/security/box-outside.test.ts',
  'tests/security/box-races.test.ts',
  'tests/security/box-repository.test.ts',
  'tests/security/host-directories.test.ts',
  'tests/security/mount-levels.test.ts',
  'tests/security/own-files.test.ts',
  // What ends with a launcher, and who may start another one, is not the same for root.
  'tests/faults/mended.test.ts',
  // A launcher of a user's own, where for root a user is only played.
  'host/src/launch/launch-client.test.ts',
  'codemode/src/suite/container.test.ts',
];

/** With `--long` as well: as root, and single-id where that has a file of its own, they show most of it each time. */
const othersLong = [
  'tests/security/group-warm.test.ts',
  // Real clients over the machine's own network, because a network of the tests' own needs root.
  'tests/egress/presets.test.ts',
  'tests/security/file-operations.test.ts',
  'host/src/launch/images.test.ts',
];

/** All but the linters, and machines, for which it makes no difference who starts them. */
const wholeSuites = ['native', ...suites.map(({ name }) => name).filter((name) => name !== 'vm')];

/**
 * What runs with one id, and not with subordinate ids as well, unless all is wanted: a file for each thing that ids decide, which are
 * owners of files in layers, uppers and snapshots, commands and jobs, what is closed to whom, and the launcher that the next daemon finds.
 * Every attempt is made in this mode by `tests/security/*-single-id.test.ts`, and a Debian package can not be installed in it.
 */
const singleId = [
  'tests/e2e/api.test.ts',
  'tests/e2e/api-restart.test.ts',
  'tests/e2e/snapshots.test.ts',
  'tests/security/box-repository.test.ts',
  'tests/security/own-files.test.ts',
  'tests/faults/mended.test.ts',
];

/** Whole paths, for some files' names hold others'. */
export function filesFor(kind: Pick<Kind, 'withSubordinateIds'>, isAll: boolean): readonly string[] {
  if (!isAll && !kind.withSubordinateIds) return singleId;
  const e2e = suites.find(({ name }) => name === 'e2e');
  const files = e2e === undefined ? [] : filesOf(e2e, []);
  if (isAll) return [...files, ...others, ...othersLong];
  const turn = turnOfRun();
  const isElsewhere = (file: string) =>
    sameForAll.includes(file) ||
    longOnly.includes(file) ||
    (singleId.includes(file) && !asUsersAlone.includes(file));
  const chosen = [...files, ...others].filter((file) => !isElsewhere(file));
  const ownTurn = inTurns.flat();
  // What root has run as well is a user's in one of three turns: of a list that is the same in each of them.
  const isInAll = (file: string): boolean => asUsersAlone.includes(file) || ownTurn.includes(file);
  const rest = thisTurn(chosen.filter((file) => !isInAll(file)));
  return [...chosen.filter((file) => isInAll(file) && isOfTurn(file, turn)), ...rest];
}

/** Podman of root's that is ended leaves this behind, and no box has a copy of a directory in which something else is mounted. */
const podmanMount = '/var/lib/containers/storage/overlay';

function removePodmanMount(): void {
  if (readFileSync('/proc/mounts', 'utf8').includes(` ${podmanMount} `)) spawnSync('umount', [podmanMount]);
}

export async function runAsUsers(options: {
  readonly long: boolean;
  readonly patterns: readonly string[];
}): Promise<Tally> {
  let total = emptyTally;
  removePodmanMount();
  for (const kind of kinds) {
    console.log(`  ${kind.name}`);
    // Whoever names a file wants it from both.
    const isAll = options.long || options.patterns.length > 0;
    const files = filesFor(kind, isAll).filter((file) => isWanted(file, options.patterns));
    if (files.length === 0) continue;
    using user = new ThrowAwayUser(kind);
    const isWhole = options.long && options.patterns.length === 0 && kind.withSubordinateIds;
    const suitesOf = isWhole ? wholeSuites : ['unit', 'codemode', 'e2e', 'egress', 'security', 'faults'];
    const words = ['--no-user', ...(options.long ? ['--long'] : []), '--only', suitesOf.join(',')];
    const tally = await user.test([...words, ...(isWhole ? [] : ['--together', ...files])]);
    const flaky = tally.flaky.map((report) => report.replace(/^flaky /, `flaky as ${kind.name}: `));
    total = add(total, { ...tally, flaky });
  }
  return total;
}

class ThrowAwayUser implements Disposable {
  readonly #base: string;
  readonly #name: string;
  readonly #uid: number;

  constructor(kind: Kind) {
    this.#base = mkdtempSync('/var/tmp/squash-user-');
    this.#name = `sqtest${process.pid}`;
    execFileSync('chmod', ['755', this.#base]);
    try {
      const home = join(this.#base, 'home');
      execFileSync('useradd', ['--create-home', '--home-dir', home, '--shell', '/bin/bash', this.#name]);
      this.#uid = Number(execFileSync('id', ['-u', this.#name], { encoding: 'utf8' }));
      setSubordinateIds(this.#name, kind.withSubordinateIds);
      copyProject(join(this.#base, 'squash'), this.#name);
      copyLayerCache(join(home, '.cache/squash'), this.#name);
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Runs `squash test` with these arguments in the copy and returns its counts. What failed it has run again itself, with nothing
   * beside it: nothing else runs meanwhile. Its closing lines are not shown, they become a part of the whole run's.
   */
  test(args: readonly string[]): Promise<Tally> {
    const node = join(this.#base, 'squash', process.execPath.slice(root.length + 1));
    const program = process.execPath.startsWith(`${root}/`) ? node : process.execPath;
    const script = join(this.#base, 'squash/tools/test/main.ts');
    const turn = process.env['TEST_TURN'];
    const env = {
      HOME: join(this.#base, 'home'),
      USER: this.#name,
      LANG: 'C.UTF-8',
      PATH: `${dirname(program)}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin`,
      ...(turn === undefined ? {} : { TEST_TURN: turn }),
    };
    const identity = [`--reuid=${this.#name}`, `--regid=${this.#name}`, '--init-groups'];
    return new Promise((resolve, reject) => {
      const child = spawn('setpriv', [...identity, '--', program, script, ...args], {
        cwd: join(this.#base, 'home'),
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
        timeout: runMsMax,
      });
      let output = '';
      let isClosing = false;
      createInterface({ input: child.stdout }).on('line', (line) => {
        output += `${line}\n`;
        isClosing ||= /^(?:flaky |\d+ passed, )/.test(line);
        if (!isClosing) console.log(line);
      });
      child.on('error', reject);
      child.on('close', (code) => resolve(tallyOf(output, code)));
    });
  }

  [Symbol.dispose](): void {
    removeUser(this.#name, this.#uid);
    rmSync(this.#base, { recursive: true, force: true });
  }
}

/** With every process of it. */
export function removeUser(name: string, uid: number): void {
  // Daemons, launchers and sandboxes that a test left behind all belong to this uid or its range.
  if (uid > 0) spawnSync('setpriv', [`--reuid=${uid}`, '--clear-groups', '--', 'kill', '-KILL', '-1']);
  spawnSync('userdel', ['--force', name], { stdio: 'ignore' });
  spawnSync('groupdel', [name], { stdio: 'ignore' });
}

/** Those of runs that were killed, also of `tests/support/launcher.ts`: their names say whose process made them. */
export function removeLeftUsers(): void {
  const users = readFileSync('/etc/passwd', 'utf8').matchAll(
    /^(sq(?:test|launch)(\d+)[rsl]?):x:(\d+):\d+:[^:]*:([^:]*):/gm,
  );
  for (const [, name = '', pid = '', uid, home = ''] of users) {
    if (existsSync(`/proc/${pid}`)) continue;
    removeUser(name, Number(uid));
    const [base] = /^\/var\/tmp\/squash-user-\w{6}(?=\/home$)/.exec(home) ?? [];
    if (base !== undefined) rmSync(base, { recursive: true, force: true });
    console.log(`left by a run that was killed, removed: user ${name}`);
  }
}

function tallyOf(output: string, code: number | null): Tally {
  const tally = parseTally(output);
  if (tally === undefined)
    console.log(`  FAIL the run ended with ${code ?? 'a signal'} and without its counts`);
  return tally ?? { ...emptyTally, failed: 1 };
}

/** Debian's useradd hands out a range where /etc/subuid exists: set what this run is about, whatever it did. */
function setSubordinateIds(name: string, wanted: boolean): void {
  for (const [file, add, remove] of [
    ['/etc/subuid', '--add-subuids', '--del-subuids'],
    ['/etc/subgid', '--add-subgids', '--del-subgids'],
  ] as const) {
    const ranges = subordinateRanges(file);
    const own = ranges.filter((range) => range.name === name);
    for (const range of own) {
      if (!wanted) execFileSync('usermod', [remove, `${range.first}-${range.first + range.count - 1}`, name]);
    }
    if (wanted && own.length === 0) {
      const first = Math.max(1_000_000, ...ranges.map((range) => range.first + range.count));
      execFileSync('usermod', [add, `${first}-${first + 65_535}`, name]);
    }
  }
}

function subordinateRanges(file: string) {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  return [...text.matchAll(/^([^:\n]+):(\d+):(\d+)$/gm)].map(([, name, first, count]) => ({
    name,
    first: Number(first),
    count: Number(count),
  }));
}

function copyProject(target: string, owner: string): void {
  mkdirSync(target);
  for (const name of readdirSync(root)) {
    if (name === '.git' || name === '.env') continue;
    const from = join(root, name);
    const isLinked =
      large.includes(name) && spawnSync('cp', ['-al', from, target], { stdio: 'ignore' }).status === 0;
    if (isLinked) continue;
    // Another file system, or a file that went meanwhile.
    rmSync(join(target, name), { recursive: true, force: true });
    execFileSync('cp', ['-a', from, target]);
  }
  // Written by whoever sets the project up, or good only where the sources lay.
  for (const name of ['setup.lock', 'native.log', 'test-compiled'])
    rmSync(join(target, '.cache', name), { recursive: true, force: true });
  // What tests build and keep: the folders, not the files in them, which are root's as well.
  for (const folder of ['.cache', '.cache/test-layers', '.cache/attack']) {
    if (existsSync(join(target, folder))) execFileSync('chown', [owner, join(target, folder)]);
  }
  const built = join(target, '.cache/built');
  if (existsSync(built)) execFileSync('find', [built, '-type', 'd', '-exec', 'chown', owner, '{}', '+']);
}

/** The layers that root has built already: building them again as this user is another test's business. */
function copyLayerCache(target: string, owner: string): void {
  const cache = join(
    process.env['XDG_CACHE_HOME'] ?? join(process.env['HOME'] ?? '/root', '.cache'),
    'squash',
  );
  if (!existsSync(cache)) return;
  cpSync(cache, target, { recursive: true });
  execFileSync('chown', ['-R', `${owner}:${owner}`, dirname(target)]);
}
