/**
 * Whatever of a microVM is killed, and whenever: what was synced is there, it runs again or stands where it was put, and nothing of an
 * earlier life is left.
 *
 * `./squash test --long` kills 100 times; `KILLS=1000 SEED=7 node --test tests/faults/microvm-kills.test.ts` any number.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { vmModule } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { type ProcessEntry, processesOf, sandboxCgroupsOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, sandboxesPath } from './model.ts';
import { type Random, seeded } from './random.ts';

const kills = Number(process.env['KILLS'] ?? (process.env['TEST_LONG'] === '1' ? 100 : 5));
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
/** Of an emulated one on a busy machine, after it was killed while it booted. */
const readyMsMax = 240_000;

const isPidOne = ({ command }: ProcessEntry): boolean =>
  /^\/proc\/self\/fd\/\d+ --listen-fd 3$/.test(command);

/** How each is known among the processes that name the data directory, or descend from one that does. */
const victims = {
  qemu: ({ command }) => command.includes('/qemu-system-x86_64 '),
  'vsock device': ({ command }) => command.includes('/vhost-device-vsock '),
  'squash-vmm': isPidOne,
  daemon: ({ command }) => command.includes('host/src/main.ts'),
  keeper: ({ command }) => command.startsWith('squash-launch keeper'),
  helper: ({ command }) => command.startsWith('squash-launch helper'),
  gate: ({ command }) => command.startsWith('squash-launch gate'),
  spare: ({ command }) => command.startsWith('squash-launch spare'),
  launcher: ({ command }) => command.startsWith('squash-launch resident'),
  egress: ({ command }) => command.includes('egress/src/main.ts'),
} as const satisfies Record<string, (entry: ProcessEntry) => boolean>;
type Victim = keyof typeof victims;

/** What goes on, and how long after its beginning at most the kill comes. */
const phases = {
  rest: 0,
  write: 300,
  stop: 400,
  snapshot: 600,
  boot: 8_000,
  fork: 8_000,
  memory: 3_000,
  read: 8_000,
} as const;
type Phase = keyof typeof phases;

interface Killing {
  readonly phase: Phase;
  readonly victim: Victim;
  readonly afterMs: number;
}

/** The VM's own parts in each phase, and the others; the rest by chance. */
function plan(random: Random, count: number): readonly Killing[] {
  const own: readonly Victim[] = ['qemu', 'vsock device', 'squash-vmm', 'daemon'];
  const sure: readonly Omit<Killing, 'afterMs'>[] = [
    { phase: 'write', victim: 'qemu' },
    { phase: 'snapshot', victim: 'daemon' },
    { phase: 'stop', victim: 'squash-vmm' },
    { phase: 'rest', victim: 'helper' },
    { phase: 'rest', victim: 'egress' },
    ...(Object.keys(phases) as Phase[]).flatMap((phase) => own.map((victim) => ({ phase, victim }))),
    ...(['keeper', 'gate', 'spare', 'launcher', 'helper', 'egress'] as const).map((victim) => ({
      phase: 'write' as const,
      victim,
    })),
  ];
  return Array.from({ length: count }, (_, at) => {
    const chosen = sure[at] ?? random.pick(sure);
    return { ...chosen, afterMs: random.below(phases[chosen.phase] + 1) };
  });
}

/** By number, and only what descends from this test's own daemon. */
function kill(daemon: TestDaemon, victim: Victim): number {
  const found = processesOf(daemon.dataDir).filter(victims[victim]);
  for (const { pid } of found) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself meanwhile.
    }
  }
  return found.length;
}

async function stateOf(daemon: TestDaemon): Promise<string> {
  return String((await daemon.call('GET', '/v1/sandboxes/vm')).state);
}

/** What a command prints; undefined where it could not be run to its end. */
async function output(daemon: TestDaemon, cmd: string): Promise<string | undefined> {
  const { status, json } = await daemon.request('POST', boxPath('vm', '/exec'), { cmd });
  return status === 200 && json.exit_code === 0 ? String(json.stdout) : undefined;
}

async function begin(daemon: TestDaemon, phase: Phase, at: number): Promise<unknown> {
  const pause = (): Promise<unknown> => daemon.request('POST', '/v1/sandboxes/vm/pause', { keep: 'files' });
  if (phase === 'write')
    return await daemon.request('POST', boxPath('vm', '/exec'), {
      cmd: 'i=0; while [ $i -lt 200 ]; do head -c 100000 /dev/zero >/root/w$i; i=$((i+1)); done; rm /root/w*',
    });
  if (phase === 'stop') return await pause();
  if (phase === 'snapshot' || phase === 'read')
    return await daemon.request('POST', boxPath('vm', '/snapshot'), { label: `s${at}` });
  if (phase === 'boot') return await daemon.request('POST', '/v1/sandboxes/vm/resume');
  if (phase === 'fork')
    return await daemon.request('POST', '/v1/sandboxes', { from: { sandbox: 'vm' }, memory: true });
  if (phase === 'memory')
    return await daemon.request('POST', '/v1/sandboxes/vm/snapshots', { label: `s${at}`, memory: true });
  return undefined;
}

/** Brings the daemon back where it is gone, and the VM. */
async function recover(daemon: TestDaemon): Promise<void> {
  if (!(await answers(daemon))) {
    await daemon.kill();
    await daemon.start();
  }
  await waitFor(
    'the VM to run',
    async () => {
      if (['stopped', 'paused', 'failed'].includes(await stateOf(daemon)))
        await daemon.request('POST', '/v1/sandboxes/vm/resume');
      return (await output(daemon, 'echo fine')) === 'fine\n';
    },
    readyMsMax,
  );
}

async function removeForks(daemon: TestDaemon): Promise<void> {
  const { items } = (await daemon.call('GET', '/v1/sandboxes')) as { items: { id: string }[] };
  for (const { id } of items) if (id !== 'vm') await daemon.call('DELETE', `/v1/sandboxes/${id}`);
}

async function answers(daemon: TestDaemon): Promise<boolean> {
  try {
    return (await daemon.request('GET', '/cgi-bin/health')).status === 200;
  } catch {
    // Nobody starts one that was killed but who started it.
    return false;
  }
}

function namesIn(daemon: TestDaemon, folder: string): readonly string[] {
  try {
    return readdirSync(join(daemon.dataDir, folder));
  } catch {
    // Made when it is needed.
    return [];
  }
}

function nothingOfBefore(daemon: TestDaemon): string | undefined {
  const all = processesOf(daemon.dataDir);
  for (const victim of ['qemu', 'vsock device', 'squash-vmm'] as const) {
    const count = all.filter(victims[victim]).length;
    if (count !== 1) return `${count} of ${victim}`;
  }
  // Who ends them all before there is another one leaves the groups that only root removes.
  if (process.getuid?.() === 0 && !all.some(victims.helper)) return 'no helper';
  const left = [
    ...namesIn(daemon, 'tmp').filter((name) => !name.startsWith('vm-')),
    ...namesIn(daemon, 'vm/forks'),
  ];
  if (left.length > 0) return `in tmp and forks: ${left.join(', ')}`;
  const groups = new Set(
    sandboxCgroupsOf(daemon.dataDir).map((path) => path.slice(path.lastIndexOf('/') + 1)),
  );
  return groups.size === 1 ? undefined : `groups: ${[...groups].join(', ')}`;
}

test(`a microVM survives ${kills} kills of its parts (seed ${seed})`, async (context) => {
  const random = seeded(seed);
  const counts = new Map<string, number>();
  await using daemon = await TestDaemon.start({
    modules: { '900-vmm': await vmModule() },
    env: { SQUASH_BACKEND: 'vm' },
  });
  await daemon.call('POST', sandboxesPath, { id: 'vm', memory_mb: 128 });
  for (const [at, { phase, victim, afterMs }] of plan(random, kills).entries()) {
    const name = `${at}: ${victim} in ${phase}, after ${afterMs} ms (seed ${seed})`;
    const began = performance.now();
    assert.equal(await output(daemon, `echo ${at} >/root/kept; sync`), '', name);
    if (phase === 'boot' || phase === 'read')
      await daemon.call('POST', '/v1/sandboxes/vm/pause', { keep: 'files' });
    const work = begin(daemon, phase, at).catch(() => undefined);
    await delay(afterMs);
    const killed = kill(daemon, victim);
    await work;
    await recover(daemon);
    await removeForks(daemon);
    assert.equal(await output(daemon, 'cat /root/kept'), `${at}\n`, name);
    await waitFor(
      `nothing of an earlier life: ${name}`,
      () => nothingOfBefore(daemon) === undefined,
      20_000,
    ).catch(() => {
      throw new Error(`${name}: ${nothingOfBefore(daemon)}`);
    });
    const key = `${victim}, ${phase}${killed === 0 ? ', none was there' : ''}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
    if (process.env['KILLS_TELL'] === '1')
      console.error(`${name}: ${killed} killed, ${Math.round(performance.now() - began)} ms`);
    await daemon.request('DELETE', boxPath('vm', `/snapshots/s${at}`));
  }
  for (const [what, count] of counts) context.diagnostic(`${what}: ${count}`);
});
