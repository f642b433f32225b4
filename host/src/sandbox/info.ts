/** A sandbox as it is told to clients, in the two spellings. From memory: nobody waits for it. */
import { known } from '@squash/base/bug';
import type { SnapshotLabel } from '@squash/contract/ids';
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { rfc3339 } from '@squash/base/clock';
import { isRemoved } from '#store/rows.ts';
import { shownAllowNet } from './rules.ts';
import type { Sandbox } from './sandbox.ts';

export function infoOf(sandbox: Sandbox): SandboxInfo {
  const { row, state, snapshots } = sandbox;
  return {
    id: row.id,
    owner: row.owner,
    task: row.task,
    layers: row.layers.map((layer) => layer.module),
    created: rfc3339(row.createdMs),
    last_active: rfc3339(row.lastActiveMs),
    mounted: state.phase === 'ready',
    exec_count: row.nextSeq - 1,
    upper_bytes: sandbox.usage.bytes,
    snapshots: snapshots
      .filter((each) => !isRemoved(each))
      .map(({ label, createdMs, size }) => ({ label, created: rfc3339(createdMs), size })),
    active_snapshot: shownLabel(row.activeSnapshot),
    cpu: row.cpu,
    memory_mb: row.memoryMb,
    max_lifetime_s: row.maxLifetimeS,
    allow_net: shownAllowNet(row),
    state: state.phase,
    backend: row.backend,
    warnings: [...sandbox.warnings],
  };
}

export function nativeInfoOf(sandbox: Sandbox): SandboxRecord {
  const { row, state, activity } = sandbox;
  const leftMs = activity.lifetimeLeftMs(row);
  return {
    id: row.id,
    name: row.name,
    host_label: known(row.hostLabel, `the host label of "${row.id}"`),
    owner: row.owner,
    labels: { ...row.labels },
    state: state.phase,
    failure: state.phase === 'failed' ? state.message : null,
    backend: row.backend,
    layers: row.layers.map((layer) => layer.module),
    image: row.image,
    host_paths: row.hostRoot === null ? null : { ...row.hostRoot.root.paths },
    snapshot: shownLabel(row.activeSnapshot),
    env: { ...row.env },
    cpu: row.cpu,
    memory_mb: row.memoryMb,
    disk_mb: Math.floor(row.limits.upperBytesMax / 1_048_576),
    disk_bytes: sandbox.usage.bytes,
    commands: row.nextSeq - 1,
    created_at: rfc3339(row.createdMs),
    last_active_at: rfc3339(row.lastActiveMs),
    expires_at: leftMs === undefined ? null : rfc3339(sandbox.nowMs() + leftMs),
    lifetime_s: row.maxLifetimeS === 0 ? null : row.maxLifetimeS,
    idle_timeout_s: row.idleTimeoutS === 0 ? null : row.idleTimeoutS,
    on_timeout: row.onTimeout,
    warnings: [...sandbox.warnings],
  };
}

/** Nobody could name one that was removed. */
function shownLabel(label: SnapshotLabel | null): string | null {
  return label === null || isRemoved({ label }) ? null : label;
}
