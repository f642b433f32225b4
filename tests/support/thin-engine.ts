/**
 * An engine that answers from memory, for tests of the transport alone: who is let in, what is refused, how slow
 * readers are treated. What operations do is tested against the real daemon (`tests/e2e/api*.test.ts`).
 */
import { AppError } from '@squash/contract/errors';
import type { ExecRecord, JobInfo } from '@squash/contract/exec';
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import type { SandboxInfo } from '@squash/contract/sandbox';
import type { EgressParts } from '../../host/src/api/handlers.ts';
import type { Groups } from '../../host/src/api/groups.ts';
import type { WebhookParts } from '../../host/src/api/webhooks.ts';
import type { Engine } from '../../host/src/engine/engine.ts';

const epoch = '2026-01-01T00:00:00.000Z';

export function sandboxInfo(id: string): SandboxInfo {
  return {
    id,
    owner: 'anon',
    task: '',
    layers: ['000-base-test'],
    created: epoch,
    last_active: epoch,
    mounted: true,
    exec_count: 0,
    upper_bytes: 0,
    snapshots: [],
    active_snapshot: null,
    cpu: 2,
    memory_mb: 1024,
    max_lifetime_s: 0,
    allow_net: null,
    state: 'ready',
    backend: 'chroot',
    warnings: [],
  };
}

function sandboxRecord(id: string): SandboxRecord {
  return {
    id,
    name: null,
    host_label: id,
    owner: 'anon',
    labels: {},
    state: 'ready',
    failure: null,
    backend: 'chroot',
    layers: ['000-base-test'],
    image: null,
    host_paths: null,
    snapshot: null,
    env: {},
    cpu: 2,
    memory_mb: 1024,
    disk_mb: 512,
    disk_bytes: 0,
    commands: 0,
    created_at: epoch,
    last_active_at: epoch,
    expires_at: null,
    lifetime_s: null,
    idle_timeout_s: null,
    on_timeout: 'destroy',
    warnings: [],
  };
}

export function execRecord(seq: number, cmd: string): ExecRecord {
  return {
    seq,
    cmd,
    workdir: '/',
    exit_code: 0,
    started: epoch,
    finished: epoch,
    stdout: '',
    stderr: '',
    duration_ms: 0,
    timed_out: false,
    truncated: false,
    stdout_bytes: 0,
    stderr_bytes: 0,
    reason: 'exited',
  };
}

export function jobInfo(jobId: number): JobInfo {
  return {
    job_id: jobId,
    cmd: 'exit 5',
    workdir: '/',
    status: 'done',
    exit_code: 5,
    started: epoch,
    finished: epoch,
    reason: 'exited',
  };
}

const noEgress = (): Promise<never> =>
  Promise.reject(new AppError('egress_unavailable', 'there is none here'));

/** No egress process and no secrets. */
export const thinEgress: EgressParts = {
  rules: { ceiling: undefined, allowRanges: [], hostPorts: 'off', upstreams: {} },
  log: {
    decisions: noEgress,
    stats: noEgress,
    judge: noEgress,
    // oxlint-disable-next-line require-yield
    async *follow() {
      await noEgress();
    },
  },
  secrets: { list: () => [], set: noEgress, remove: noEgress },
};

const unusedPart = (): never => {
  throw new Error('this test does not use this part');
};

/** There are none. */
export const thinWebhooks: WebhookParts = {
  list: () => [],
  get: unusedPart,
  create: unusedPart,
  update: unusedPart,
  remove: unusedPart,
  test: unusedPart,
};

/** There are none. */
export const thinGroups: Groups = {
  schedules: {
    list: () => [],
    get: unusedPart,
    create: unusedPart,
    update: unusedPart,
    remove: unusedPart,
    runs: unusedPart,
  },
  tiers: () => [],
  setTier: unusedPart,
  removeTier: unusedPart,
  groups: () => [],
  group: unusedPart,
  createGroup: unusedPart,
  updateGroup: unusedPart,
  removeGroup: unusedPart,
  runs: unusedPart,
  actions: () => [],
  decide: unusedPart,
  chats: () => [],
  createChat: unusedPart,
  lastSaid: unusedPart,
  follow: unusedPart,
  updateChat: unusedPart,
  removeChat: unusedPart,
  resetChat: unusedPart,
  message: unusedPart,
  said: unusedPart,
};

/** Methods that a test is about, by noun; the rest answers from here. */
export type EngineParts = { readonly [Noun in keyof Engine]?: Partial<Engine[Noun]> };

/** One sandbox, "box"; whatever a test is about is given in `parts`. */
export function thinEngine(parts: EngineParts = {}): Engine {
  const missing = (id: string): never => {
    throw new AppError('sandbox_not_found', `Cannot find sandbox "${id}"`);
  };
  const unused = (): never => {
    throw new Error('this test does not use the operation');
  };
  return {
    health: () => Promise.resolve({ sandboxes: 1, modules: 1, baseReady: true }),
    problems: () => [],
    room: () => ({
      memory: { total: 0, available: 0, kept: 0, promised: 0, promised_max: null },
      cpu: { total: 1, promised: 0, promised_max: null },
      disk: { total: 0, available: 0, kept: 0, promised: 0, promised_max: null },
    }),
    metrics: () => Promise.resolve([]),
    paths: { refused: unused },
    changes: { list: unused, read: unused, apply: unused, ...parts.changes },
    sandboxes: {
      create: (request) => Promise.resolve({ ...sandboxInfo(request.id), warnings: [...request.warnings] }),
      list: () => [sandboxInfo('box')],
      get: (id) => (id === 'box' ? sandboxInfo(id) : missing(id)),
      ownerOf: (id) => (id === 'box' ? 'anon' : missing(id)),
      destroy: () => Promise.resolve(),
      describe: sandboxRecord,
      page: () => ({ items: [sandboxRecord('box')], next: null }),
      update: (id) => Promise.resolve(sandboxRecord(id)),
      pause: (id) => Promise.resolve(sandboxRecord(id)),
      resume: (id) => Promise.resolve(sandboxRecord(id)),
      ...parts.sandboxes,
    },
    bucket: { get: unused, list: unused, push: unused, pull: unused, remove: unused },
    processes: {
      run: unused,
      launch: unused,
      list: unused,
      get: unused,
      output: unused,
      write: unused,
      resize: unused,
      signal: unused,
      wait: unused,
      exec: (_id, request) => Promise.resolve(execRecord(1, request.cmd)),
      stream: unused,
      start: unused,
      jobs: () => [],
      job: (_id, jobId) => jobInfo(jobId),
      jobLog: unused,
      killJob: () => Promise.resolve(),
      end: unused,
      logs: () => [],
      ...parts.processes,
    },
    contexts: {
      create: unused,
      list: unused,
      get: unused,
      remove: unused,
      run: unused,
      output: unused,
      interrupt: unused,
      restart: unused,
      ...parts.contexts,
    },
    files: {
      user: unused,
      read: unused,
      write: unused,
      stat: unused,
      list: unused,
      search: unused,
      change: unused,
      remove: unused,
      makeDirectory: unused,
      link: unused,
      move: unused,
      copy: unused,
      watch: unused,
      pack: unused,
      unpack: unused,
      ...parts.files,
    },
    images: {
      list: () => [],
      get: unused,
      pull: unused,
      import: unused,
      commit: unused,
      push: unused,
      export: unused,
      flatten: unused,
      remove: unused,
      stackFor: unused,
      ...parts.images,
    },
    modules: {
      list: () => Promise.resolve([]),
      get: unused,
      describe: unused,
      verify: unused,
      open: unused,
      import: unused,
      remove: unused,
      sweep: unused,
      activate: unused,
      ...parts.modules,
    },
    snapshots: {
      take: unused,
      restore: unused,
      page: unused,
      get: unused,
      update: unused,
      remove: unused,
      diff: unused,
      open: unused,
      takeIn: unused,
      ...parts.snapshots,
    },
    volumes: {
      create: unused,
      list: () => [],
      get: unused,
      remove: unused,
      removal: unused,
      snapshot: unused,
      plan: () => [],
      judge: unused,
      attach: unused,
      mounts: unused,
      detach: unused,
      ...parts.volumes,
    },
    network: {
      rules: unused,
      ownSecretHosts: unused,
      setPolicy: () => Promise.resolve(),
      ...parts.network,
    },
    keys: {
      count: 0,
      find: () => undefined,
      holds: () => false,
      create: unused,
      list: () => [],
      get: unused,
      remove: unused,
      ...parts.keys,
    },
    sshKeys: {
      count: 0,
      find: () => undefined,
      holds: () => false,
      create: unused,
      list: () => [],
      get: unused,
      remove: unused,
      offer: unused,
      login: unused,
      ...parts.sshKeys,
    },
    owners: { list: () => [], get: unused, setQuota: unused, ...parts.owners },
    usage: { of: unused, ...parts.usage },
    events: { page: () => ({ events: [], removedBefore: 0 }), follow: unused, ...parts.events },
    ports: {
      byLabel: () => undefined,
      owner: missing,
      access: () => 'token',
      setAccess: unused,
      dial: unused,
      wait: unused,
      listening: unused,
      used: () => undefined,
      ...parts.ports,
    },
    callers: { offer: unused, check: unused, take: unused, refuse: unused, ...parts.callers },
    approvals: {
      page: () => ({ items: [], next: null }),
      get: unused,
      decide: unused,
      approved: () => [],
      standing: () => [],
      removeStanding: () => Promise.resolve(),
      ...parts.approvals,
    },
  };
}
