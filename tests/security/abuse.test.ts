/**
 * Abuse that needs more than one command: what a sandbox leaves behind for the daemon to walk, read or log.
 * After each the daemon answers, the neighbour is as it was, and the sandbox can be destroyed.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { UnderAttack } from './under-attack.ts';

const stack = new AsyncDisposableStack();
let scene: UnderAttack;

before(async () => {
  scene = stack.use(await UnderAttack.start());
});

afterEach(async () => {
  await scene.expectUnharmed();
});

after(() => stack.disposeAsync());

/** Creates a sandbox, lets it do something, snapshots it where asked, and destroys it completely. */
async function leavesNothing(id: string, script: string, snapshots = true): Promise<void> {
  await scene.create(id);
  const output = await scene.exec(id, scene.prepared(script));
  assert.doesNotMatch(output.stdout, /^(breach|untried)/m, output.stdout + output.stderr);
  if (snapshots) {
    const answer = await scene.daemon.request('POST', `/cgi-bin/api/sandboxes/${id}/snapshot`, {
      label: 's',
    });
    // A path longer than PATH_MAX can't be packed; that is said, and harms nothing.
    const isTold = answer.status === 507 || answer.json.code === 'snapshot_path_too_long';
    assert.ok(answer.status === 200 || isTold, answer.text);
  }
  await scene.destroy(id);
  assert.equal(existsSync(`${scene.daemon.dataDir}/sandboxes/${id}`), false);
}

test('daemon snapshots and destroys when directories are nested ten thousand deep', async () => {
  await leavesNothing('deep', '$A deep 10000', true);
});

test('daemon snapshots and destroys when names are no text', async () => {
  await leavesNothing('names', '$A odd-names');
});

test('daemon snapshots and destroys when a directory holds ten thousand files', async () => {
  const { warnings } = await scene.daemon.call('GET', '/cgi-bin/api/sandboxes/attacked');
  // An upper that is held by measuring may take them all before it is measured.
  const verdict = JSON.stringify(warnings).includes('upper') ? '/dev/null' : '/dev/stdout';
  await leavesNothing('files', `$A files many 10000 >${verdict}; echo`);
});

test('daemon destroys when files are closed to their owner', async () => {
  await leavesNothing('closed', 'mkdir -p a/b; touch a/b/c; chmod 0 a/b/c a/b a; echo held: closed');
});

test('daemon destroys when the disk of the sandbox is full', async () => {
  const script = 'dd if=/dev/zero of=big bs=1M count=200 2>/dev/null; echo held: full';
  await leavesNothing('full', script);
});

test('inodes are limited when a sandbox makes empty files without end', async () => {
  await scene.create('inodes');
  const warnings = (await scene.daemon.call('GET', '/cgi-bin/api/sandboxes/inodes')).warnings;
  const output = await scene.exec('inodes', scene.prepared('$A files many 400000'), 120);
  if (!JSON.stringify(warnings).includes('upper')) assert.match(output.stdout, /^held: /m, output.stdout);
  await scene.destroy('inodes');
});

test('output without end is cut and counted when a command never stops writing', async () => {
  await scene.create('loud');
  const answer = await scene.daemon.call('POST', '/cgi-bin/api/sandboxes/loud/exec', {
    cmd: 'yes "$(printf %1000s x)"',
    timeout: 2,
  });
  assert.equal(answer.timed_out, true);
  assert.equal(answer.truncated, true);
  assert.ok(answer.stdout.length <= 65_536);
  await scene.destroy('loud');
});

test('a command line longer than the kernel takes is a result when the shell builds it', async () => {
  const output = await scene.exec(
    'attacked',
    'x=$(head -c 3000000 /dev/zero | tr "\\0" x); /bin/echo $x >/dev/null; echo over',
  );
  assert.match(output.stdout, /over/);
});

test('log lines stay one line each when a command prints what looks like them', async () => {
  const forged = '{"level":"error","message":"forged by the sandbox"}';
  await scene.exec('attacked', `printf '%s\\n' '\n${forged}\n' | tee /dev/stderr; printf '\\033[2J\\r'`);
  await scene.daemon.request('POST', '/cgi-bin/api/sandboxes/attacked/exec', {
    cmd: 'true',
    workdir: `/x\n${forged}`,
  });
  for (const line of scene.daemon.output.split('\n').filter((text) => text.startsWith('{'))) {
    const parsed: unknown = JSON.parse(line);
    assert.ok(typeof parsed === 'object' && parsed !== null);
    assert.notEqual('message' in parsed && parsed.message, 'forged by the sandbox');
  }
  // Nothing of the daemon's secrets is in its own log either.
  for (const secret of scene.secrets) assert.ok(!scene.daemon.output.includes(secret));
});

test('all commands of a sandbox end with it when they ignore signals and leave their group', async () => {
  await scene.create('stubborn');
  const script =
    'for i in 1 2 3 4 5; do (trap "" TERM HUP INT; setsid sleep 900 &) & done; sleep 0.1; echo started';
  await scene.exec('stubborn', script);
  await scene.destroy('stubborn');
});

test('the neighbour is served when every processor is busy in another sandbox', async () => {
  await scene.create('busy');
  const spin = 'for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; sleep 5';
  await scene.daemon.call('POST', '/cgi-bin/api/sandboxes/busy/exec-bg', { cmd: spin, timeout: 60 });
  await scene.expectUnharmed();
  await scene.destroy('busy');
});

test('an out-of-memory end is reported as such and the sandbox goes on', async (t) => {
  const { warnings } = await scene.daemon.call('GET', '/cgi-bin/api/sandboxes/attacked');
  if (JSON.stringify(warnings).includes('memory_limit')) return t.skip('no cgroup for memory');
  const answer = await scene.exec('attacked', 'x=x; while :; do x=$x$x$x$x; done');
  assert.equal(answer.reason, 'oom_killed', JSON.stringify(answer));
  assert.equal((await scene.exec('attacked', 'echo up')).stdout, 'up\n');
});

test('a secret of the host is in no snapshot when a directory is swapped for a link meanwhile', async () => {
  await scene.create('swapper');
  await scene.daemon.call('POST', '/cgi-bin/api/sandboxes/swapper/exec-bg', {
    cmd: scene.prepared(`$A swap-forever '${scene.host.folder}' 100000000`),
    timeout: 120,
  });
  for (let round = 0; round < 5; round++) {
    const label = `race-${String(round)}`;
    await scene.daemon.call('POST', '/cgi-bin/api/sandboxes/swapper/snapshot', { label });
    const file = `${scene.daemon.dataDir}/sandboxes/swapper/snapshots/${label}.squashfs`;
    assert.equal(await listsSecret(file), false);
  }
  await scene.destroy('swapper');
  assert.deepEqual(await scene.host.harm(), []);
});

async function listsSecret(squashfs: string): Promise<boolean> {
  const { execFile } = await import('node:child_process');
  const { promisify } = await import('node:util');
  const { stdout } = await promisify(execFile)('unsquashfs', ['-lls', squashfs]);
  return /swap(-link)?\/secret/.test(stdout);
}

test('forged overlay attributes come back as they were and redirect nothing when a snapshot is restored', async () => {
  await scene.create('forger');
  const forge = [
    'mkdir -p d',
    '$A forge-overlay user.overlay.redirect /bin || true',
    '$A forge-overlay user.overlay.opaque y || true',
    'echo held: forged',
  ].join('; ');
  await scene.exec('forger', scene.prepared(forge));
  await scene.daemon.call('POST', '/cgi-bin/api/sandboxes/forger/snapshot', { label: 'forged' });
  await scene.daemon.call('POST', '/cgi-bin/api/sandboxes/forger/restore', { label: 'forged' });
  const output = await scene.exec('forger', 'ls /work/a/forged; ls /bin | head -n 1');
  assert.doesNotMatch(output.stdout.split('\n')[0] ?? '', /busybox|sh$/);
  await scene.destroy('forger');
});
