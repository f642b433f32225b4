/**
 * A microVM that is forked with its memory, through the API: both go on with the same processes, and are two from then on. Whatever goes
 * wrong meanwhile, the one that was there goes on.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { cliCommand, cliEnvironment } from '../support/cli.ts';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

const sandboxes = '/v1/sandboxes';
let daemon: TestDaemon;
let source: string;
let copy: string;

before(async () => {
  daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule() },
  });
  source = await create({ from: { layers: ['000-base-debian'] }, backend: 'vm', memory_mb: 128 });
});
after(async () => await daemon[Symbol.asyncDispose]());

async function send(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await daemon.request(method, path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

async function create(body: unknown): Promise<string> {
  return (await send('POST', sandboxes, body)).json.id;
}

async function refused(body: unknown): Promise<readonly [number, string]> {
  const { status, json } = await daemon.request('POST', sandboxes, body);
  return [status, json.code];
}

async function output(id: string, cmd: string): Promise<string> {
  const { json } = await send('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd });
  assert.equal(json.exit_code, 0, json.stderr);
  return json.stdout.trim();
}

function leftovers(): readonly string[] {
  const names = (folder: string): readonly string[] => {
    try {
      return readdirSync(join(daemon.dataDir, folder));
    } catch {
      return [];
    }
  };
  return [...names('tmp').filter((name) => /^(memory|disk)-/.test(name)), ...names('vm/forks')];
}

/** Of a program that holds them in its memory: a word of its own, and how far it has counted. */
async function counted(id: string, file: string): Promise<{ readonly word: string; readonly count: number }> {
  const [word = '', count = '0'] = (await output(id, `cat /dev/shm/${file} 2>/dev/null || :`)).split(' ');
  return { word, count: Number(count) };
}

async function goesOn(id: string, file: string, than: number): Promise<void> {
  await waitFor('it to count on', async () => (await counted(id, file)).count > than, 30_000);
}

/** Who looks on sees that it goes on; what is left at its end is the id. */
async function forkOnTerminal(): Promise<string> {
  const size = { rows: 10, columns: 80, env: cliEnvironment(daemon) };
  await using terminal = new Terminal([...cliCommand, 'fork', '--with-memory', source], size);
  await terminal.see(new RegExp(`\r\u001b\\[Kforking ${source}  \\d+ s`));
  assert.equal((await terminal.end()).status, 0, terminal.screen);
  const [shown = ''] = terminal.screen.split('\r\u001b[K').slice(-1);
  // Behind what the host can't hold it to.
  const [id = ''] = shown.trim().split('\r\n').slice(-1);
  assert.match(id, /^[a-z0-9]+$/, terminal.screen);
  return id;
}

const counts = (file: string): string =>
  `w=$(head -c 8 /dev/urandom | od -An -tx1 | tr -d " "); i=0; while :; do i=$((i+1)); echo $w $i >/dev/shm/.${file}; mv /dev/shm/.${file} /dev/shm/${file}; [ $i = "$1" ] && exit; echo $i; sleep 0.2; done`;

test('its processes go on in both, which are two sandboxes from then on', async () => {
  await output(source, 'tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id; echo before >/root/before');
  await output(source, `nohup sh -c '${counts('n')}' >/dev/null 2>&1 &`);
  // It is followed meanwhile: 30 lines, one in each fifth of a second.
  const followed = daemon.request('POST', `/cgi-bin/api/sandboxes/${source}/exec`, {
    cmd: `sh -c '${counts('followed')}' sh 30`,
  });
  await goesOn(source, 'n', 0);
  await goesOn(source, 'followed', 3);
  const before = await counted(source, 'n');
  copy = await forkOnTerminal();
  assert.deepEqual(leftovers(), []);
  for (const id of [source, copy]) {
    const now = await counted(id, 'n');
    assert.equal(now.word, before.word);
    assert.ok(now.count > before.count, `${now.count} after ${before.count}`);
    await goesOn(id, 'n', now.count);
    assert.equal(
      await output(id, 'cat /root/before; hostname; grep -c "127.0.1.1.$(hostname)$" /etc/hosts'),
      `before\n${id}\n1`,
    );
  }
  for (const cmd of [
    'cat /etc/machine-id',
    'cat /proc/sys/kernel/random/uuid',
    'head -c 16 /dev/urandom | od -An -tx1',
  ]) {
    const [one, other] = await Promise.all([output(source, cmd), output(copy, cmd)]);
    assert.match(one, /^[0-9a-f -]{32,}$/);
    assert.notEqual(one, other, cmd);
  }
  const told = Number(await output(copy, 'date +%s%3N'));
  assert.ok(Math.abs(told - Date.now()) < 5000, `${told - Date.now()} ms off`);
  // What PID 1 has for it no command gets.
  assert.equal(await output(copy, 'cut -f2 /proc/self/status | grep -c 00000000800405fb'), '3');
  assert.equal(await output(copy, 'cat /proc/1/environ 2>/dev/null || echo closed'), 'closed');
  await output(source, 'echo source >/root/mine');
  await output(copy, 'echo copy >/root/mine; sync');
  assert.equal(await output(source, 'cat /root/mine'), 'source');
  assert.equal(await output(copy, 'cat /root/mine'), 'copy');
  // What nobody follows there goes on as well, and whoever followed it has missed nothing.
  await goesOn(copy, 'followed', 26);
  const { json } = await followed;
  assert.deepEqual(
    [json.exit_code, json.stdout],
    [0, Array.from({ length: 29 }, (_, at) => `${at + 1}\n`).join('')],
  );
  const { json: commands } = await send('GET', `${sandboxes}/${copy}/processes?limit=100`);
  assert.ok(commands.items.every(({ state }: { readonly state: string }) => state === 'ended'));
});

test('what can not be forked with its memory is refused', async () => {
  const plain = await create({ from: { layers: ['000-base-debian'] } });
  assert.deepEqual(await refused({ from: { sandbox: plain }, memory: true }), [400, 'unsupported_feature']);
  assert.deepEqual(await refused({ memory: true }), [400, 'invalid_request']);
  const from = { sandbox: source };
  assert.deepEqual(await refused({ from, memory: true, backend: 'chroot' }), [400, 'invalid_request']);
  assert.deepEqual(await refused({ from, memory: true, memory_mb: 256 }), [400, 'invalid_request']);
  const { json: volume } = await send('POST', '/v1/volumes', { name: 'v' });
  const mounts = [{ volume: volume.id, path: '/mnt' }];
  assert.deepEqual(await refused({ from, memory: true, mounts }), [409, 'vm_unsupported']);
  await send('POST', `${sandboxes}/${copy}/pause`);
  assert.deepEqual(await refused({ from: { sandbox: copy }, memory: true }), [409, 'sandbox_not_ready']);
  await send('POST', `${sandboxes}/${copy}/resume`);
  assert.deepEqual(leftovers(), []);
});

test('a daemon that dies while one is forked leaves nothing behind, and the one that was there goes on', async () => {
  for (const when of [/^s/, /^memory-/]) {
    const before = await counted(source, 'n');
    const boot = await output(source, 'cat /proc/sys/kernel/random/boot_id');
    daemon.request('POST', sandboxes, { from: { sandbox: source }, memory: true }).catch(() => undefined); // Nobody is there to answer.
    await waitFor('it to be forked', () => leftovers().some((name) => when.test(name)), 60_000);
    await daemon.kill();
    await daemon.start();
    assert.deepEqual(leftovers(), []);
    for (const id of [source, copy]) {
      const now = await counted(id, 'n');
      assert.equal(now.word, before.word);
      await goesOn(id, 'n', now.count);
    }
    assert.equal(await output(source, 'cat /proc/sys/kernel/random/boot_id'), boot);
    await waitFor(
      'what was begun to be gone',
      async () => (await send('GET', sandboxes)).json.items.length === 3,
    );
  }
});

test('one whose VMM dies while it is forked is not forked', async () => {
  const [vmm] = processesOf(daemon.dataDir).filter(
    ({ command }) => command.includes('/qemu-system-x86_64 ') && !command.includes(' -incoming '),
  );
  const forked = refused({ from: { sandbox: source }, memory: true });
  await waitFor('it to be forked', () => leftovers().length > 0, 60_000);
  process.kill(vmm?.pid ?? 0, 'SIGKILL');
  assert.deepEqual(await forked, [502, 'guest_failed']);
  assert.deepEqual(leftovers(), []);
});

test('nothing is left of them when they are gone', async () => {
  for (const { id } of (await send('GET', sandboxes)).json.items) await send('DELETE', `${sandboxes}/${id}`);
  assert.deepEqual(
    processesOf(daemon.dataDir).filter(({ command }) => command.includes('qemu-system')),
    [],
  );
});
