/**
 * The operations that the crash suite interrupts: what each asks for, what an answer promises, and what may be
 * found when the daemon died before it answered: all of it or nothing.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { ExecRecord, JobInfo } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import type { FaultPoint } from '../../host/src/sandbox/fault.ts';
import type { Answer, TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';
import { type BoxModel, boxPath, lines, type Model, newBox, sandboxesPath } from './model.ts';
import type { Random } from './random.ts';

export interface Attempt {
  readonly what: string;
  /** Sends the request. Undefined: the daemon died before it answered. */
  send(daemon: TestDaemon): Promise<Answer | undefined>;
  /** The daemon answered: what it promised is true from now on. */
  acknowledged(answer: Answer): void;
  /** It did not: looks which of the two it is, and believes it. */
  unanswered(daemon: TestDaemon): Promise<void>;
}

export interface Operation {
  readonly name: string;
  readonly points: readonly FaultPoint[];
  /** Undefined where the model has nothing to do it to. */
  prepare(model: Model, random: Random, serial: number): Attempt | undefined;
}

/** Modules that can be activated; each holds `/extra/<its name>`. */
export const extraModules = ['100-extra-a', '200-extra-b', '300-extra-c'] as const;
const boxesMax = 4;
const jobLines = 60;

const request =
  (method: string, path: string, body?: unknown) =>
  async (daemon: TestDaemon): Promise<Answer | undefined> => {
    try {
      return await daemon.request(method, path, body);
    } catch {
      // The connection broke: that is what the suite is about.
      return undefined;
    }
  };

function pickBox(model: Model, random: Random): BoxModel | undefined {
  return model.size === 0 ? undefined : random.pick([...model.values()]);
}

function expectStatus(answer: Answer, status: number): void {
  assert.equal(answer.status, status, answer.text);
}

async function infoOf(daemon: TestDaemon, id: string): Promise<SandboxInfo | undefined> {
  const answer = await daemon.request('GET', boxPath(id));
  if (answer.status === 404) return undefined;
  expectStatus(answer, 200);
  return answer.json as SandboxInfo;
}

const create: Operation = {
  name: 'create',
  points: ['create.layers', 'create.inserted', 'create.directory', 'create.started', 'create.committed'],
  prepare: (model, _random, serial) => {
    if (model.size >= boxesMax) return undefined;
    const id = `box-${serial}`;
    return {
      what: id,
      send: request('POST', sandboxesPath, { id, layers: '000-base-test', memory_mb: 64 }),
      acknowledged: (answer) => {
        expectStatus(answer, 201);
        model.set(id, newBox(id));
      },
      unanswered: async (daemon) => {
        if ((await infoOf(daemon, id)) === undefined) {
          assert.ok(
            !existsSync(join(daemon.dataDir, 'sandboxes', id)),
            `the directory of ${id}, which does not exist`,
          );
        } else model.set(id, newBox(id));
      },
    };
  },
};

const exec: Operation = {
  name: 'exec',
  points: ['exec.inserted', 'exec.started', 'exec.output', 'exec.exited', 'exec.finished', 'exec.released'],
  prepare: (model, random, serial) => {
    const box = pickBox(model, random);
    if (box === undefined) return undefined;
    const token = `exec-${serial}`;
    const pause = random.pick(['', 'usleep 30000; ']);
    const cmd = `mkdir -p /ran; echo out-${token}; echo ran >> /ran/${token}; ${pause}echo err-${token} >&2; exit 3`;
    const isEnded = (record: ExecRecord): void => {
      assert.deepEqual(
        [record.exit_code, record.stdout, record.stderr, record.reason],
        [3, `out-${token}\n`, `err-${token}\n`, 'exited'],
      );
    };
    return {
      what: `${token} in ${box.id}`,
      send: request('POST', boxPath(box.id, '/exec'), { cmd, timeout: 30 }),
      acknowledged: (answer) => {
        expectStatus(answer, 200);
        const record = answer.json as ExecRecord;
        isEnded(record);
        box.execs.set(record.seq, record);
        box.tokens.add(token);
      },
      unanswered: async (daemon) => {
        const record = await waitFor('the command to end', async () => {
          const records = (await daemon.call('GET', boxPath(box.id, '/logs'))) as ExecRecord[];
          const found = records.filter((each) => each.cmd === cmd);
          assert.ok(found.length <= 1, `${token} is in the log ${found.length} times`);
          const info = await infoOf(daemon, box.id);
          const running = ((await daemon.call('GET', boxPath(box.id, '/jobs'))) as JobInfo[]).filter(
            (job) => job.status === 'running',
          );
          // Every number taken is a record or a running job: then this one is there or was never taken.
          const isSettled = info?.exec_count === (records.at(-1)?.seq ?? 0) || running.length > 0;
          return found[0] ?? (isSettled ? 'never begun' : undefined);
        });
        if (record === 'never begun' || record.reason === 'lost') {
          const marks = await lines(daemon, box.id, `ls /ran/${token} 2>/dev/null; true`);
          assert.deepEqual(marks, [], `${token} is said never to have run`);
          return;
        }
        isEnded(record);
        box.execs.set(record.seq, record);
        box.tokens.add(token);
      },
    };
  },
};

const job: Operation = {
  name: 'job',
  points: ['exec.inserted', 'exec.started', 'exec.output', 'exec.finished'],
  prepare: (model, random, serial) => {
    const box = pickBox(model, random);
    if (box === undefined || box.jobs.length >= 8) return undefined;
    const token = `job-${serial}`;
    const cmd = `mkdir -p /jobs; i=0; while [ $i -lt ${jobLines} ]; do i=$((i+1)); echo "${token} $i"; echo $i >> /jobs/${token}; usleep 20000; done`;
    return {
      what: `${token} in ${box.id}`,
      send: request('POST', boxPath(box.id, '/exec-bg'), { cmd, timeout: 600 }),
      acknowledged: (answer) => {
        expectStatus(answer, 200);
        box.jobs.push({ id: (answer.json as JobInfo).job_id, token, lines: jobLines, wasCut: false });
      },
      unanswered: async (daemon) => {
        const started = await lines(daemon, box.id, `ls /jobs/${token} 2>/dev/null; true`);
        const jobs = (await daemon.call('GET', boxPath(box.id, '/jobs'))) as JobInfo[];
        const known = new Set(box.jobs.map((each) => each.id));
        const added = jobs.filter((each) => !known.has(each.job_id) && each.reason !== 'lost');
        assert.ok(added.length <= 1);
        if (added[0] === undefined) assert.deepEqual(started, [], `${token} runs and nobody knows`);
        else box.jobs.push({ id: added[0].job_id, token, lines: jobLines, wasCut: false });
        // A number that was taken for a job that never ran is remembered, so that it is not met again as new.
        for (const lost of jobs.filter((each) => !known.has(each.job_id) && each.reason === 'lost')) {
          box.jobs.push({ id: lost.job_id, token, lines: 0, wasCut: true });
        }
      },
    };
  },
};

/** Operations that replace PID 1 end the jobs that run. */
function cutJobs(box: BoxModel): void {
  for (const each of box.jobs) each.wasCut = true;
}

const activate: Operation = {
  name: 'activate',
  points: ['activate.pending', 'activate.stopped', 'start.committed', 'activate.started'],
  prepare: (model, random) => {
    const box = pickBox(model, random);
    const module = extraModules.find((each) => !box?.layers.includes(each));
    if (box === undefined || module === undefined) return undefined;
    const layers = [...box.layers, module];
    return {
      what: `${module} in ${box.id}`,
      send: (daemon) => {
        cutJobs(box);
        return request('POST', boxPath(box.id, '/activate'), { module })(daemon);
      },
      acknowledged: (answer) => {
        expectStatus(answer, 200);
        box.layers = layers;
      },
      unanswered: async (daemon) => {
        const info = await infoOf(daemon, box.id);
        if (info?.layers.length === layers.length) box.layers = layers;
      },
    };
  },
};

const snapshot: Operation = {
  name: 'snapshot',
  points: ['snapshot.pending', 'snapshot.packed', 'snapshot.committed'],
  prepare: (model, random, serial) => {
    const box = pickBox(model, random);
    if (box === undefined || box.snapshots.size >= 4) return undefined;
    const label = `snap-${serial}`;
    const taken = { tokens: new Set(box.tokens), layers: box.layers };
    return {
      what: `${label} of ${box.id}`,
      send: request('POST', boxPath(box.id, '/snapshot'), { label }),
      acknowledged: (answer) => {
        expectStatus(answer, 200);
        box.snapshots.set(label, taken);
      },
      unanswered: async (daemon) => {
        const info = await infoOf(daemon, box.id);
        if (info?.snapshots.some((each) => each.label === label) === true) box.snapshots.set(label, taken);
      },
    };
  },
};

const snapshotRemove: Operation = {
  name: 'snapshot-remove',
  points: ['snapshot-remove.linked', 'snapshot-remove.committed'],
  prepare: (model, random) => {
    const boxes = [...model.values()].filter((each) => each.snapshots.size > 1);
    if (boxes.length === 0) return undefined;
    const box = random.pick(boxes);
    const label = random.pick([...box.snapshots.keys()]);
    const done = (): void => {
      box.snapshots.delete(label);
      if (box.activeSnapshot === label) box.activeSnapshot = null;
    };
    return {
      what: `${label} of ${box.id}`,
      send: request('DELETE', `/v1/sandboxes/${box.id}/snapshots/${label}`),
      acknowledged: (answer) => {
        expectStatus(answer, 204);
        done();
      },
      unanswered: async (daemon) => {
        const info = await infoOf(daemon, box.id);
        if (info?.snapshots.some((each) => each.label === label) === false) done();
      },
    };
  },
};

const snapshotRename: Operation = {
  name: 'snapshot-rename',
  points: ['snapshot-rename.linked', 'snapshot-rename.committed'],
  prepare: (model, random, serial) => {
    const boxes = [...model.values()].filter((each) => each.snapshots.size > 0);
    if (boxes.length === 0) return undefined;
    const box = random.pick(boxes);
    const [label] = random.pick([...box.snapshots]);
    const renamed = `named-${serial}`;
    const done = (): void => {
      // In the place that it had: they are told oldest first.
      const all = [...box.snapshots].map(
        ([each, taken]) => [each === label ? renamed : each, taken] as const,
      );
      box.snapshots.clear();
      for (const [each, taken] of all) box.snapshots.set(each, taken);
      if (box.activeSnapshot === label) box.activeSnapshot = renamed;
    };
    return {
      what: `${label} of ${box.id} as ${renamed}`,
      send: request('PATCH', `/v1/sandboxes/${box.id}/snapshots/${label}`, { label: renamed }),
      acknowledged: (answer) => {
        expectStatus(answer, 200);
        done();
      },
      unanswered: async (daemon) => {
        const info = await infoOf(daemon, box.id);
        if (info?.snapshots.some((each) => each.label === label) === false) done();
      },
    };
  },
};

/** What was downloaded, whole, goes up again under another label. */
const snapshotUpload: Operation = {
  name: 'snapshot-upload',
  points: ['snapshot-upload.pending', 'snapshot-upload.placed'],
  prepare: (model, random, serial) => {
    const boxes = [...model.values()].filter((each) => each.snapshots.size > 0 && each.snapshots.size < 4);
    if (boxes.length === 0) return undefined;
    const box = random.pick(boxes);
    const [from, { tokens }] = random.pick([...box.snapshots]);
    const label = `put-${serial}`;
    const stored = { tokens: new Set(tokens), layers: box.layers };
    const fileOf = (name: string): string => `/v1/sandboxes/${box.id}/snapshots/${name}/file`;
    return {
      what: `${from} of ${box.id} as ${label}`,
      send: async (daemon) => {
        try {
          const body = await (await fetch(`${daemon.url}${fileOf(from)}`)).arrayBuffer();
          const headers = { 'content-type': 'application/octet-stream' };
          const response = await fetch(`${daemon.url}${fileOf(label)}`, { method: 'PUT', headers, body });
          const text = await response.text();
          return { status: response.status, headers: {}, text, json: undefined };
        } catch {
          // The connection broke: that is what the suite is about.
          return undefined;
        }
      },
      acknowledged: (answer) => {
        expectStatus(answer, 200);
        box.snapshots.set(label, stored);
      },
      unanswered: async (daemon) => {
        const info = await infoOf(daemon, box.id);
        if (info?.snapshots.some((each) => each.label === label) === true) box.snapshots.set(label, stored);
      },
    };
  },
};

const restore: Operation = {
  name: 'restore',
  points: [
    'restore.pending',
    'restore.upper',
    'restore.stopped',
    'start.committed',
    'restore.started',
    'restore.dropped',
  ],
  prepare: (model, random) => {
    const boxes = [...model.values()].filter((each) => each.snapshots.size > 0);
    if (boxes.length === 0) return undefined;
    const box = random.pick(boxes);
    const [label, { tokens, layers }] = random.pick([...box.snapshots]);
    const done = (): void => {
      box.activeSnapshot = label;
      box.layers = layers;
      box.tokens = new Set(tokens);
    };
    // Whether it happened shows in a mark that no snapshot has.
    let isMarked = false;
    const mark = `before-${label}-${random.below(1e9)}`;
    return {
      what: `${label} of ${box.id}`,
      send: async (daemon) => {
        const cmd = `mkdir -p /ran; echo ran >> /ran/${mark}`;
        const marked = await request('POST', boxPath(box.id, '/exec'), { cmd })(daemon);
        if (marked?.status !== 200) return undefined;
        isMarked = true;
        box.tokens.add(mark);
        cutJobs(box);
        return request('POST', boxPath(box.id, '/restore'), { label })(daemon);
      },
      acknowledged: (answer) => {
        expectStatus(answer, 200);
        done();
      },
      unanswered: async (daemon) => {
        const marks = await lines(daemon, box.id, `ls /ran/${mark} 2>/dev/null; true`);
        if (!isMarked) {
          if (marks.length > 0) box.tokens.add(mark);
          return;
        }
        const info = await infoOf(daemon, box.id);
        if (marks.length === 0 && info?.active_snapshot === label) done();
      },
    };
  },
};

const destroy: Operation = {
  name: 'destroy',
  points: ['destroy.marked', 'destroy.stopped', 'destroy.trashed', 'destroy.deleted'],
  prepare: (model, random) => {
    if (model.size < 2) return undefined;
    const box = pickBox(model, random);
    if (box === undefined) return undefined;
    return {
      what: box.id,
      send: request('DELETE', boxPath(box.id)),
      acknowledged: (answer) => {
        expectStatus(answer, 204);
        model.delete(box.id);
      },
      unanswered: async (daemon) => {
        if ((await infoOf(daemon, box.id)) === undefined) model.delete(box.id);
      },
    };
  },
};

/** A sandbox from another one's files, as they are now or as a snapshot has them. */
const fork: Operation = {
  name: 'fork',
  points: ['fork.inserted', 'fork.taken', 'start.committed', 'create.committed'],
  prepare: (model, random) => {
    const source = pickBox(model, random);
    if (source === undefined || model.size >= boxesMax) return undefined;
    const [label, taken] = random.pick([
      [undefined, { tokens: new Set(source.tokens), layers: source.layers }] as const,
      ...source.snapshots,
    ]);
    const known = new Set(model.keys());
    const made = (id: string): void => {
      const box = newBox(id);
      box.layers = taken.layers;
      box.tokens = new Set(taken.tokens);
      box.snapshots.set('origin', taken);
      box.activeSnapshot = 'origin';
      model.set(id, box);
    };
    const from = { sandbox: source.id, ...(label === undefined ? {} : { snapshot: label }) };
    return {
      what: `${label ?? 'the files'} of ${source.id}`,
      send: request('POST', '/v1/sandboxes', { from }),
      acknowledged: (answer) => {
        expectStatus(answer, 201);
        made((answer.json as { id: string }).id);
      },
      unanswered: async (daemon) => {
        const list = (await daemon.call('GET', sandboxesPath)) as SandboxInfo[];
        for (const { id } of list.filter((each) => !known.has(each.id))) made(id);
      },
    };
  },
};

/** Put to rest and woken: everything is as before, but for jobs that a stop ends. */
const rest: Operation = {
  name: 'rest',
  points: ['pause.committed', 'stop.committed', 'resume.thawed', 'start.committed'],
  prepare: (model, random) => {
    const box = pickBox(model, random);
    if (box === undefined) return undefined;
    const keep = random.pick(['memory', 'files']);
    const path = `/v1/sandboxes/${box.id}`;
    return {
      what: `${box.id} keeps its ${keep}`,
      send: async (daemon) => {
        if (keep === 'files') cutJobs(box);
        const rested = await request('POST', `${path}/pause`, { keep })(daemon);
        if (rested === undefined) return undefined;
        expectStatus(rested, 200);
        return await request('POST', `${path}/resume`)(daemon);
      },
      acknowledged: (answer) => expectStatus(answer, 200),
      unanswered: async (daemon) => expectStatus(await daemon.request('POST', `${path}/resume`), 200),
    };
  },
};

export const operations: readonly Operation[] = [
  create,
  exec,
  job,
  activate,
  snapshot,
  snapshotRemove,
  snapshotRename,
  snapshotUpload,
  restore,
  destroy,
  fork,
  rest,
];
