/**
 * Who has a microVM for himself, and then its monitor: what he tries from where the monitor runs, what he says in the guest's name, and
 * what he makes of its disk; with a kernel of his own he is in `microvm-own-kernel.test.ts`. Success is the failing condition; what an attempt
 * does where the wall is off is shown beside it.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ownedPrefix } from '../support/owned-directory.ts';
import { outcomeOf } from './attempt.ts';
import { monitorAttempts } from './attempts/monitor.ts';
import { frameLies, framed, tarLies } from './monitor-lies.ts';
import { runAttempts } from './run-attempts.ts';
import { expectNoSecret, inTime, takenOptions } from './taken-scene.ts';
import { runWeak } from './weak.ts';

const skip = process.getuid?.() !== 0 && 'the weakened sandbox needs root';
const sandboxes = '/cgi-bin/api/sandboxes';
const folder = mkdtempSync(join(tmpdir(), ownedPrefix('monitor')));

after(() => rm(folder, { recursive: true }));

const scene = runAttempts('the place of a monitor', () => takenOptions(folder), monitorAttempts);

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

const tellsNothing = (text: string): void => expectNoSecret(scene(), text);

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
