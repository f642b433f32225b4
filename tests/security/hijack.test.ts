/**
 * Root in a sandbox stops PID 1, takes its listening socket and speaks to the daemon in its place: every byte the
 * daemon reads is the attacker's. It must answer with an error in bounded time, keep its memory, serve the
 * neighbour, and be able to destroy the sandbox.
 *
 * Where PID 1 can't be taken over from inside, that is the stronger wall, and the attempt says so.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { limits } from '@squash/contract/limits';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { UnderAttack } from './under-attack.ts';

const stack = new AsyncDisposableStack();
let scene: UnderAttack;

before(async () => {
  scene = stack.use(await UnderAttack.start());
});

after(() => stack.disposeAsync());

const modes = [
  'silent',
  'garbage',
  'oversized',
  'truncated',
  'reserved',
  'exit-first',
  'exit-range',
  'lying-total',
  'lying-exit',
  'many-fields',
  'bad-field',
  'unknown-type',
  'request-type',
  'twice-started',
  'message',
  'flood',
  'flood-unasked',
  'ok-at-once',
] as const;

/** Answers that the daemon can tell from a PID 1 that is merely gone. */
const breaches: ReadonlySet<string> = new Set(['garbage', 'oversized', 'unknown-type', 'exit-range']);

/** The daemon's memory may grow by this much while a flood comes in: buffers, not the flood. */
const growthBytesMax = 200 * 1024 * 1024;

for (const mode of modes) {
  test(`daemon stays whole when a hijacked PID 1 answers with ${mode}`, async (context) => {
    const id = `hijacked-${mode}`;
    await scene.create(id);
    const memoryBefore = await daemonMemory();
    const taken = await scene.exec(id, `/attack/attack hijack ${mode} 20`);
    context.diagnostic(taken.stdout.trim());
    assert.match(taken.stdout, /^(breach|held): PID 1/m, taken.stdout + taken.stderr);
    if (taken.exitCode === 66) await waitFor('PID 1 to stand still', () => stopped() > 0);
    const answer = await scene.daemon.request('POST', `/cgi-bin/api/sandboxes/${id}/exec`, {
      cmd: 'echo never',
      timeout: 1,
    });
    if (taken.exitCode === 66) {
      assert.ok(answer.status === 200 || answer.status >= 400, answer.text);
      assert.ok(!answer.text.includes('"level":"fatal"}\n'), 'a forged line break reached the answer');
      assert.ok((await daemonMemory()) - memoryBefore < growthBytesMax, 'the daemon has grown');
    }
    if (taken.exitCode === 66 && breaches.has(mode)) {
      // The operator reads why, not merely that nobody answers.
      assert.match(
        scene.daemon.output,
        new RegExp(
          `"guest.broken".*"${id}".*breaks the protocol|"${id}".*"guest.broken".*breaks the protocol`,
        ),
      );
    }
    if (mode === 'lying-exit' && taken.exitCode === 66) {
      // A result of its own making: that it comes through shows that the attacker is really in PID 1's place.
      assert.equal(answer.json.exit_code, 0);
      assert.equal(answer.json.stdout, '');
    }
    await scene.expectUnharmed();
    await scene.destroy(id);
  });
}

test('a PID 1 that breaks the protocol again and again is ended with all that it holds', async () => {
  const id = 'hijacked-for-good';
  await scene.create(id);
  for (let count = 0; count <= limits.restartsMax; count += 1) {
    const taken = await scene.exec(id, 'rm -f /tmp/hijacked; /attack/attack hijack garbage 300');
    if (taken.stdout.startsWith('held')) return;
    assert.equal(taken.exitCode, 66, taken.stdout);
    await waitFor('PID 1 to stand still', () => stopped() > 0);
    await scene.daemon.request('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd: 'true' });
  }
  const { state } = await scene.daemon.call('GET', `/cgi-bin/api/sandboxes/${id}`);
  assert.equal(state, 'failed');
  await waitFor(
    'the hijacker to be ended',
    () => !processesOf(scene.daemon.dataDir).some(({ command }) => command.includes('hijack garbage')),
  );
  await scene.expectUnharmed();
  await scene.destroy(id);
});

test('a daemon is up soon when a hijacked PID 1 never comes to the end of its list', async () => {
  const id = 'hijacked-drip';
  await scene.create(id);
  const taken = await scene.exec(id, '/attack/attack hijack drip 300');
  if (taken.stdout.startsWith('held')) return;
  await waitFor('PID 1 to stand still', () => stopped() > 0);
  await scene.daemon.kill();
  // Throws where the daemon does not answer in four times `takeOverMs`.
  await scene.daemon.start();
  assert.match(scene.daemon.output, /recover\.guest.*took too long/);
  assert.equal((await scene.exec(id, 'echo back')).stdout, 'back\n');
  await scene.expectUnharmed();
  await scene.destroy(id);
});

/** How many processes of this daemon's sandboxes a tracer holds: that is PID 1 once it is taken over. */
function stopped(): number {
  return processesOf(scene.daemon.dataDir).filter(({ pid }) => {
    try {
      const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
      return stat.slice(stat.lastIndexOf(')') + 2).startsWith('t');
    } catch {
      // It ended while we looked.
      return false;
    }
  }).length;
}

async function daemonMemory(): Promise<number> {
  const status = await readFile(`/proc/${String(scene.daemon.pid)}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
}
