/**
 * The guest's power is cut again and again while clients are at work: the next daemon starts without help, and what was
 * synced or acknowledged as durable is there. `CUTS=40 SEED=7 node --test tests/vm/power.test.ts` for any number of cuts.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { seeded } from '../faults/random.ts';
import type { GuestMachine } from './guest.ts';
import { afterCut, type BoxAfterCut, type PowerEvent, unset } from './power-model.ts';
import { bootWithLayer, Service } from './service.ts';

const cuts = Number(process.env['CUTS'] ?? (process.env['TEST_LONG'] === '1' ? 40 : 2));
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
const kinds = ['image', 'directory', 'project'] as const;
/** By the seed as well: few cuts of several runs have all kinds. */
const kindOf = (round: number): (typeof kinds)[number] => kinds[(seed + round) % kinds.length] ?? 'image';
/** From the first answer on: enough for some of what is promised later to be due. */
const loadMs = { min: 12_000, spread: 12_000 };

const load = 'tests/vm/power-load.ts';
const random = seeded(seed);
const stack = new AsyncDisposableStack();
let vm: GuestMachine;
let squash: Service;
let former: readonly string[] = [];

before(async () => {
  vm = stack.use(await bootWithLayer([load]));
  squash = new Service(vm, 'root');
  await squash.setting(`SQUASH_UPPER=${kindOf(0)}`);
  await squash.install();
});

after(() => stack.disposeAsync());

for (let round = 0; round < cuts; round += 1) {
  const kind = kindOf(round);
  test(`everything promised is there after power cut ${round} of seed ${seed} with uppers of kind ${kind}`, async (context) => {
    if (round > 0) {
      await squash.setting(`SQUASH_UPPER=${kind}`);
      await squash.control('restart squash');
      await squash.healthy();
    }
    const events = await workUntilCut(round);
    await squash.healthy();
    const boxes = afterCut(events);
    const there = await settled();
    const told = events.filter((event) => event.is === 'answered').length;
    context.diagnostic(`${told} answers about ${boxes.length} sandboxes, ${there.length} there`);
    for (const box of boxes)
      await check(
        box,
        there.find(({ id }) => id === box.id),
      );
    await nothingHalfMade(there);
    former = there.map(({ id }) => id);
  });
}

/** What the clients said until the power went. */
async function workUntilCut(round: number): Promise<readonly PowerEvent[]> {
  const first = vm.witnessed.length;
  const words = [`${squash.dataDir}/run/api.sock`, round, seed + round, ...former].join(' ');
  const working = vm.run(`node /opt/squash/${load} ${words} >/dev/virtio-ports/squash.witness`);
  const told = (): readonly PowerEvent[] => vm.witnessed.slice(first).flatMap(parsed);
  while (!told().some((event) => event.is === 'answered'))
    await Promise.race([wait(100), working.then(ended)]);
  await Promise.race([wait(loadMs.min + random.below(loadMs.spread)), working.then(ended)]);
  await vm.cutPower();
  return told();
}

function ended({ stderr }: { readonly stderr: string }): never {
  throw new Error(`the clients ended by themselves: ${stderr}\n${vm.witnessed.slice(-3).join('\n')}`);
}

/** A line that was cut short is none. */
function parsed(line: string): readonly PowerEvent[] {
  try {
    return [JSON.parse(line) as PowerEvent];
  } catch {
    return [];
  }
}

/** Every sandbox, when none is on its way any more. */
async function settled(): Promise<readonly SandboxInfo[]> {
  for (;;) {
    const list = (await squash.call('GET', '/sandboxes')) as readonly SandboxInfo[];
    if (!list.some(({ state }) => state !== 'ready' && state !== 'failed')) return list;
    await wait(500);
  }
}

async function check(box: BoxAfterCut, info: SandboxInfo | undefined): Promise<void> {
  const { id } = box;
  if (info === undefined) {
    assert.notEqual(box.isGone, 'no', `sandbox ${id} is not there`);
    return;
  }
  assert.notEqual(box.isGone, 'yes', `sandbox ${id} was removed and is there again`);
  assert.equal(info.state, 'ready', `sandbox ${id}: ${JSON.stringify(info)}`);
  await checkFiles(box);
  await checkRecords(box);
  await checkSnapshots(box, info);
  const policy = await squash.callPath('GET', `/v1/sandboxes/${id}/policy`);
  expectOneOf(box.policy, policy, `policy of ${id}`);
  const secrets = (await squash.callPath('GET', '/v1/secrets')) as readonly { readonly name: string }[];
  const name = `KEY_${id.replaceAll('-', '_')}`;
  expectOneOf(
    box.secret,
    secrets.find((secret) => secret.name === name),
    `secret of ${id}`,
  );
}

/** Each is told by the host it names. */
function expectOneOf(may: readonly string[], found: unknown, what: string): void {
  const text = JSON.stringify(found ?? {});
  const isOne = may.some((each) => each === unset || text.includes(`${each}.example.com"`));
  assert.ok(isOne, `${what} is ${text} and was ${may.join(' or ')}`);
}

/** Whole, or as before a restore that may not have happened. */
async function checkFiles({ id, synced }: BoxAfterCut): Promise<void> {
  const all = [...new Set(synced.flatMap((set) => [...set]))];
  const look = `cd /; for i in ${all.join(' ')}; do yes "$i" | head -c 30000 | cmp -s - part.$i && echo $i; done; true`;
  const { stdout } = (await squash.exec(id, look)) as { readonly stdout: string };
  const sound = new Set(stdout.split('\n'));
  const missing = synced.map((set) => [...set].filter((what) => !sound.has(what)));
  assert.ok(
    missing.some((list) => list.length === 0),
    `synced files of ${id} are gone or other than they were: ${missing.join(' or ')}`,
  );
}

async function checkRecords({ id, records, jobs }: BoxAfterCut): Promise<void> {
  const log = (await squash.call('GET', `/sandboxes/${id}/logs`)) as readonly { readonly seq: number }[];
  for (const [seq, said] of records)
    assert.deepEqual(
      log.find((record) => record.seq === seq),
      JSON.parse(said),
      `record ${seq} of ${id}`,
    );
  for (const job of jobs) {
    const { status } = await squash.call('GET', `/sandboxes/${id}/jobs/${job}`);
    assert.notEqual(status, 'running', `job ${job} of ${id} can't have survived`);
  }
}

async function checkSnapshots({ id, snapshots }: BoxAfterCut, info: SandboxInfo): Promise<void> {
  for (const [label, digest] of snapshots) {
    assert.ok(
      info.snapshots.some((each) => each.label === label),
      `snapshot ${label} of ${id} is not there`,
    );
    const sum = await vm.output(`sha256sum <${squash.dataDir}/sandboxes/${id}/snapshots/${label}.squashfs`);
    assert.equal(sum.split(' ')[0], digest, `content of snapshot ${label} of ${id}`);
  }
}

async function nothingHalfMade(there: readonly SandboxInfo[]): Promise<void> {
  const list = await vm.output(
    `cd ${squash.dataDir}; ls sandboxes; echo --; until [ -z "$(ls tmp trash -A | grep -v :)" ]; do sleep 0.2; done; find . -xdev \\( -name '*.new' -o -name '*.tmp' \\) -print; find sandboxes -name '*.squashfs' | wc -l`,
  );
  const [directories = '', rest = ''] = list.split('--\n');
  assert.equal(
    directories,
    there
      .map(({ id }) => `${id}\n`)
      .toSorted()
      .join(''),
  );
  const snapshots = there.reduce((sum, info) => sum + info.snapshots.length, 0);
  assert.equal(rest, String(snapshots), 'what is in the data directory and belongs to nothing');
  const doctor = await vm.run('SQUASH_DATA=/var/lib/squash /opt/squash/squash doctor');
  assert.equal(doctor.exitCode, 0, doctor.stdout + doctor.stderr);
}
