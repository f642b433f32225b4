/**
 * What the daemon has acknowledged, kept beside it, and the check that all of it is there and nothing else is.
 *
 * A command leaves a mark in the sandbox's upper, `/ran/<token>`, one line per run: so the upper's content is a set
 * of tokens, a command that ran twice shows, and a snapshot is the set of its moment.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ExecRecord, JobInfo } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import type { TestDaemon } from '../support/daemon.ts';
import { sandboxCgroupsOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

export interface JobModel {
  readonly id: number;
  readonly token: string;
  readonly lines: number;
  /** An operation ended it: only a beginning of its output is there. */
  wasCut: boolean;
}

/** What a restore brings back. */
export interface SnapshotModel {
  readonly tokens: ReadonlySet<string>;
  readonly layers: readonly string[];
}

export interface BoxModel {
  readonly id: string;
  layers: readonly string[];
  activeSnapshot: string | null;
  tokens: Set<string>;
  readonly snapshots: Map<string, SnapshotModel>;
  readonly execs: Map<number, ExecRecord>;
  readonly jobs: JobModel[];
}

export type Model = Map<string, BoxModel>;

export function newBox(id: string): BoxModel {
  return {
    id,
    layers: ['000-base-test'],
    activeSnapshot: null,
    tokens: new Set(),
    snapshots: new Map(),
    execs: new Map(),
    jobs: [],
  };
}

export const sandboxesPath = '/cgi-bin/api/sandboxes';
export const boxPath = (id: string, part = ''): string => `${sandboxesPath}/${id}${part}`;

/** Runs a command that must succeed; its standard output. */
export async function output(daemon: TestDaemon, id: string, cmd: string): Promise<string> {
  const record = (await daemon.call('POST', boxPath(id, '/exec'), { cmd, timeout: 20 })) as ExecRecord;
  assert.equal(record.exit_code, 0, `${cmd}: ${JSON.stringify(record)}`);
  return record.stdout;
}

export async function lines(daemon: TestDaemon, id: string, cmd: string): Promise<readonly string[]> {
  return (await output(daemon, id, cmd)).split('\n').filter((line) => line !== '');
}

/** @throws where anything acknowledged is missing, or anything else is there */
export async function checkAll(daemon: TestDaemon, model: Model): Promise<void> {
  const infos = await waitFor('every sandbox to be ready', async () => {
    const list = (await daemon.call('GET', sandboxesPath)) as SandboxInfo[];
    return list.every((info) => info.state === 'ready') ? list : undefined;
  });
  assert.deepEqual(
    infos.map((info) => info.id),
    [...model.keys()].sort(),
    'the sandboxes that were acknowledged, and no others',
  );
  for (const info of infos) {
    const box = model.get(info.id);
    assert.ok(box);
    await checkBox(daemon, box, info);
  }
  await checkDisk(daemon, model);
}

async function checkBox(daemon: TestDaemon, box: BoxModel, info: SandboxInfo): Promise<void> {
  assert.deepEqual(info.layers, box.layers, `layers of ${box.id}`);
  assert.equal(info.active_snapshot, box.activeSnapshot, `active snapshot of ${box.id}`);
  assert.deepEqual(
    info.snapshots.map((snapshot) => snapshot.label),
    [...box.snapshots.keys()],
    `snapshots of ${box.id}`,
  );
  const marks = await lines(
    daemon,
    box.id,
    'mkdir -p /ran; cd /ran; for t in *; do [ -e "$t" ] && echo $t $(wc -l < $t); done; true',
  );
  assert.deepEqual(
    marks.toSorted(),
    [...box.tokens].map((token) => `${token} 1`).toSorted(),
    `marks of the commands that ran in ${box.id}, each once`,
  );
  const extras = await lines(daemon, box.id, 'ls /extra 2>/dev/null; true');
  assert.deepEqual(extras.toSorted(), box.layers.slice(1).toSorted(), `files of the layers of ${box.id}`);
  await checkLog(daemon, box);
  for (const job of box.jobs) await checkJob(daemon, box, job);
}

async function checkLog(daemon: TestDaemon, box: BoxModel): Promise<void> {
  // Jobs first: one that ends between the two requests would else be in neither answer.
  const jobs = (await daemon.call('GET', boxPath(box.id, '/jobs'))) as JobInfo[];
  const records = (await daemon.call('GET', boxPath(box.id, '/logs'))) as ExecRecord[];
  const ended = records.map((record) => record.seq);
  const running = jobs.filter((job) => job.status === 'running').map((job) => job.job_id);
  const numbers = [...ended, ...running.filter((number) => !ended.includes(number))].toSorted(
    (a, b) => a - b,
  );
  const first = numbers[0] ?? 1;
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => first + index),
    `numbers of ${box.id} without gap or repeat`,
  );
  const bySeq = new Map(records.map((record) => [record.seq, record]));
  for (const [seq, record] of box.execs) {
    // The history is bounded; what left it was the oldest.
    if (seq >= first)
      assert.deepEqual(bySeq.get(seq), record, `record ${seq} of ${box.id} as it was answered`);
  }
}

/** A job's log and its marks in the sandbox both count 1, 2, 3 … and each number is there once. */
async function checkJob(daemon: TestDaemon, box: BoxModel, job: JobModel): Promise<void> {
  const info = (await daemon.call('GET', boxPath(box.id, `/jobs/${job.id}`))) as JobInfo;
  const isWhole = info.status === 'done';
  if (!job.wasCut)
    assert.notEqual(info.status, 'killed', `job ${job.id} of ${box.id}: ${JSON.stringify(info)}`);
  if (info.status === 'running') return;
  const stored = (await jobLog(daemon, box.id, job.id)).map((line) => line.replace(`${job.token} `, ''));
  const counted = (length: number): readonly string[] =>
    Array.from({ length }, (_, index) => String(index + 1));
  assert.deepEqual(stored, counted(stored.length), `lines of job ${job.id} of ${box.id}`);
  if (isWhole) assert.equal(stored.length, job.lines);
  if (isWhole && !job.wasCut) {
    const marks = await lines(daemon, box.id, `cat /jobs/${job.token}`);
    assert.deepEqual(marks, counted(job.lines), `job ${job.id} of ${box.id} ran exactly once`);
  }
}

/** The text of every line of a job that has ended, in order, checked for its numbers. */
async function jobLog(daemon: TestDaemon, id: string, job: number): Promise<readonly string[]> {
  const { text } = await daemon.request('GET', boxPath(id, `/jobs/${job}/logs`));
  const found: string[] = [];
  for (const event of text.split('\n\n')) {
    if (event.includes('event: done')) break;
    const number = /^id: (\d+)/m.exec(event)?.[1];
    const data = /^data: ?(.*)$/m.exec(event)?.[1];
    if (data === undefined) continue;
    found.push(data);
    if (number !== undefined) assert.equal(Number(number), found.length, `number of line ${found.length}`);
  }
  return found;
}

/** Nothing on the disk or in the kernel that belongs to no sandbox. */
async function checkDisk(daemon: TestDaemon, model: Model): Promise<void> {
  const list = (path: string): readonly string[] => {
    const full = join(daemon.dataDir, path);
    return existsSync(full) ? readdirSync(full).toSorted() : [];
  };
  const ids = [...model.keys()].toSorted();
  let state: Readonly<Record<string, unknown>> = {};
  const wanted = {
    directories: ids,
    leftovers: [],
    sockets: ids.length,
    groups: ids.length,
    uppers: ids.map(() => 1),
    snapshots: ids.map((id) =>
      [...(model.get(id)?.snapshots.keys() ?? [])].map((label) => `${label}.squashfs`).toSorted(),
    ),
  };
  try {
    await waitFor('nothing left over', () => {
      state = {
        directories: list('sandboxes'),
        leftovers: [...list('tmp'), ...list('trash')],
        sockets: list('run/g').filter((name) => name.endsWith('.sock')).length,
        groups: sandboxGroups(daemon.dataDir) || ids.length,
        uppers: ids.map(
          (id) => new Set(list(`sandboxes/${id}/uppers`).map((name) => Number.parseInt(name, 10))).size,
        ),
        // A removed one that something lies on is kept under another name, which `~` is part of.
        snapshots: ids.map((id) => list(`sandboxes/${id}/snapshots`).filter((name) => !name.includes('~'))),
      };
      return JSON.stringify(state) === JSON.stringify(wanted);
    });
  } catch {
    // Shows what differs.
    assert.deepEqual(state, wanted);
  }
}

/** Sandboxes with a control group. */
function sandboxGroups(dataDir: string): number {
  return new Set(sandboxCgroupsOf(dataDir).map((path) => path.slice(path.lastIndexOf('/') + 1))).size;
}
