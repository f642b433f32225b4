/**
 * Rows of sandboxes and their snapshots. Callers hold the transaction; every method is one or two statements.
 */
import type { HostLabel, SandboxId, SnapshotLabel } from '@squash/contract/ids';
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { known } from '@squash/base/bug';
import { freshLabel, labelOf } from './labels.ts';
import { type SandboxRow, type SnapshotRow, sandboxRowSchema, snapshotRowSchema } from './rows.ts';

/** What may change after create, in one statement; the rest of the row is fixed or has its own statement. */
export type SandboxChange = Partial<
  Pick<
    SandboxRow,
    | 'layers'
    | 'upperGeneration'
    | 'upperMadeMs'
    | 'activeSnapshot'
    | 'phase'
    | 'failure'
    | 'pending'
    | 'lastActiveMs'
    | 'instance'
    | 'policy'
    | 'trust'
    | 'warnings'
    | 'name'
    | 'labels'
    | 'env'
    | 'cpu'
    | 'memoryMb'
    | 'limits'
    | 'maxLifetimeS'
    | 'lifetimeFromMs'
    | 'idleTimeoutS'
    | 'onTimeout'
    | 'rest'
    | 'mounts'
  >
>;

type Row = Record<string, SQLOutputValue>;

export class SandboxTable {
  readonly #database: DatabaseSync;
  readonly #insert;
  readonly #update;
  readonly #instance;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#insert = database.prepare(`
      INSERT INTO sandboxes (id, host_label, owner, task, layers, created_ms, last_active_ms, cpu, memory_mb, max_lifetime_s,
        allow_net, policy, secrets, own_secrets, upstream, trust, warnings, limits, upper_kind, upper_generation, upper_made_ms, active_snapshot, phase, failure, instance,
        next_seq, pending, revision, name, labels, env, lifetime_from_ms, idle_timeout_s, on_timeout, rest, mounts, image, host_root, backend)
      VALUES (:id, :hostLabel, :owner, :task, :layers, :createdMs, :lastActiveMs, :cpu, :memoryMb, :maxLifetimeS,
        :allowNet, :policy, :secrets, :ownSecrets, :upstream, :trust, :warnings, :limits, :upperKind, :upperGeneration, :upperMadeMs, :activeSnapshot, :phase, :failure, :instance,
        :nextSeq, :pending, :revision, :name, :labels, :env, :lifetimeFromMs, :idleTimeoutS, :onTimeout, :rest, :mounts, :image, :hostRoot, :backend)`);
    this.#update = database.prepare(`
      UPDATE sandboxes SET layers = :layers, upper_generation = :upperGeneration,
        upper_made_ms = :upperMadeMs, warnings = :warnings, active_snapshot = :activeSnapshot, phase = :phase, failure = :failure, pending = :pending,
        last_active_ms = :lastActiveMs, instance = :instance,
        policy = :policy, trust = :trust, revision = :revision, name = :name, labels = :labels, env = :env,
        cpu = :cpu, memory_mb = :memoryMb, limits = :limits, max_lifetime_s = :maxLifetimeS,
        lifetime_from_ms = :lifetimeFromMs, idle_timeout_s = :idleTimeoutS, on_timeout = :onTimeout, rest = :rest, mounts = :mounts
      WHERE id = :id`);
    this.#instance = database.prepare(
      `UPDATE counters SET value = value + 1 WHERE name = 'instance' RETURNING value`,
    );
  }

  all(): readonly SandboxRow[] {
    return this.#database.prepare('SELECT * FROM sandboxes ORDER BY id').all().map(sandboxOf);
  }

  /** A host label that no other sandbox has: the wished one, else the id where it can be one, else one made of it. */
  freeHostLabel(id: SandboxId, wished: HostLabel | null = null): HostLabel {
    const taken = this.#database.prepare('SELECT 1 FROM sandboxes WHERE host_label = ?');
    let label = wished ?? labelOf(id);
    while (taken.get(label) !== undefined) label = freshLabel(id);
    return label;
  }

  insert(row: SandboxRow): void {
    this.#insert.run({
      ...row,
      layers: JSON.stringify(row.layers),
      allowNet: row.allowNet === null ? null : JSON.stringify(row.allowNet),
      policy: row.policy === null ? null : JSON.stringify(row.policy),
      secrets: JSON.stringify(row.secrets),
      ownSecrets: JSON.stringify(row.ownSecrets),
      warnings: JSON.stringify(row.warnings),
      limits: JSON.stringify(row.limits),
      mounts: JSON.stringify(row.mounts),
      pending: row.pending === null ? null : JSON.stringify(row.pending),
      labels: JSON.stringify(row.labels),
      env: JSON.stringify(row.env),
      rest: row.rest === null ? null : JSON.stringify(row.rest),
      image: row.image === null ? null : JSON.stringify(row.image),
      hostRoot: row.hostRoot === null ? null : JSON.stringify(row.hostRoot),
    });
  }

  /** The changed row. Its revision rises, so that a stale `sandbox.json` is seen. */
  change(row: SandboxRow, change: SandboxChange): SandboxRow {
    const next: SandboxRow = { ...row, ...change, revision: row.revision + 1 };
    this.#update.run({
      id: next.id,
      layers: JSON.stringify(next.layers),
      upperGeneration: next.upperGeneration,
      upperMadeMs: next.upperMadeMs,
      warnings: JSON.stringify(next.warnings),
      activeSnapshot: next.activeSnapshot,
      phase: next.phase,
      failure: next.failure,
      pending: next.pending === null ? null : JSON.stringify(next.pending),
      lastActiveMs: next.lastActiveMs,
      instance: next.instance,
      policy: next.policy === null ? null : JSON.stringify(next.policy),
      trust: next.trust,
      mounts: JSON.stringify(next.mounts),
      revision: next.revision,
      name: next.name,
      labels: JSON.stringify(next.labels),
      env: JSON.stringify(next.env),
      cpu: next.cpu,
      memoryMb: next.memoryMb,
      limits: JSON.stringify(next.limits),
      maxLifetimeS: next.maxLifetimeS,
      lifetimeFromMs: next.lifetimeFromMs,
      idleTimeoutS: next.idleTimeoutS,
      onTimeout: next.onTimeout,
      rest: next.rest === null ? null : JSON.stringify(next.rest),
    });
    return next;
  }

  delete(id: SandboxId): void {
    this.#database.prepare('DELETE FROM sandboxes WHERE id = ?').run(id);
  }

  /** A number for a start: unique over all sandboxes and never used again, also after a crash. */
  nextInstance(): number {
    return Number(known(this.#instance.get(), 'the instance counter')['value']);
  }

  /** Has this database ever given out a number, or been repaired? One that has not is nobody's. */
  wasUsed(): boolean {
    return (
      Number(this.#database.prepare(`SELECT value FROM counters WHERE name = 'instance'`).get()?.['value']) >
      0
    );
  }

  /** For repair: numbers up to this one count as used. */
  raiseInstance(atLeast: number): void {
    this.#database.prepare(`UPDATE counters SET value = max(value, ?) WHERE name = 'instance'`).run(atLeast);
  }

  snapshots(id: SandboxId): readonly SnapshotRow[] {
    return this.#database
      .prepare('SELECT * FROM snapshots WHERE sandbox = ? ORDER BY key')
      .all(id)
      .map(snapshotOf);
  }

  insertSnapshot(id: SandboxId, row: SnapshotRow): void {
    this.#database
      .prepare(`INSERT INTO snapshots (sandbox, label, created_ms, size, digest, base, layers, labels, memory)
        VALUES (:id, :label, :createdMs, :size, :digest, :base, :layers, :labels, :memory)`)
      .run({
        id,
        ...row,
        layers: JSON.stringify(row.layers),
        labels: JSON.stringify(row.labels),
        memory: row.memory === null ? null : JSON.stringify(row.memory),
      });
  }

  deleteSnapshot(id: SandboxId, label: SnapshotLabel): void {
    this.#database.prepare('DELETE FROM snapshots WHERE sandbox = ? AND label = ?').run(id, label);
  }

  /** Wherever it is named; the sandbox's own row is the caller's. */
  renameSnapshot(id: SandboxId, from: SnapshotLabel, to: SnapshotLabel): void {
    this.#database
      .prepare('UPDATE snapshots SET label = ? WHERE sandbox = ? AND label = ?')
      .run(to, id, from);
    this.#database.prepare('UPDATE snapshots SET base = ? WHERE sandbox = ? AND base = ?').run(to, id, from);
  }

  setSnapshotLabels(id: SandboxId, label: SnapshotLabel, labels: SnapshotRow['labels']): void {
    this.#database
      .prepare('UPDATE snapshots SET labels = ? WHERE sandbox = ? AND label = ?')
      .run(JSON.stringify(labels), id, label);
  }

  dropSnapshotMemory(id: SandboxId, label: SnapshotLabel): void {
    this.#database
      .prepare('UPDATE snapshots SET memory = NULL WHERE sandbox = ? AND label = ?')
      .run(id, label);
  }

  setSnapshotDigest(id: SandboxId, label: SnapshotLabel, digest: string): void {
    this.#database
      .prepare('UPDATE snapshots SET digest = ? WHERE sandbox = ? AND label = ?')
      .run(digest, id, label);
  }
}

function json(value: SQLOutputValue | undefined): unknown {
  return typeof value === 'string' ? JSON.parse(value) : null;
}

function sandboxOf(row: Row): SandboxRow {
  return sandboxRowSchema.parse({
    id: row['id'],
    hostLabel: row['host_label'],
    owner: row['owner'],
    task: row['task'],
    layers: json(row['layers']),
    createdMs: row['created_ms'],
    lastActiveMs: row['last_active_ms'],
    cpu: row['cpu'],
    memoryMb: row['memory_mb'],
    maxLifetimeS: row['max_lifetime_s'],
    allowNet: json(row['allow_net']),
    policy: json(row['policy']),
    secrets: json(row['secrets']),
    ownSecrets: json(row['own_secrets']),
    upstream: row['upstream'],
    trust: row['trust'],
    warnings: json(row['warnings']),
    limits: json(row['limits']),
    upperKind: row['upper_kind'],
    upperGeneration: row['upper_generation'],
    upperMadeMs: row['upper_made_ms'],
    activeSnapshot: row['active_snapshot'],
    phase: row['phase'],
    failure: row['failure'],
    instance: row['instance'],
    nextSeq: row['next_seq'],
    mounts: json(row['mounts']),
    pending: json(row['pending']),
    revision: row['revision'],
    name: row['name'],
    labels: json(row['labels']),
    env: json(row['env']),
    lifetimeFromMs: row['lifetime_from_ms'],
    idleTimeoutS: row['idle_timeout_s'],
    onTimeout: row['on_timeout'],
    rest: json(row['rest']),
    image: json(row['image']),
    hostRoot: json(row['host_root']),
    backend: row['backend'],
  });
}

function snapshotOf(row: Row): SnapshotRow {
  return snapshotRowSchema.parse({
    label: row['label'],
    createdMs: row['created_ms'],
    size: row['size'],
    digest: row['digest'],
    base: row['base'],
    layers: json(row['layers']),
    labels: json(row['labels']),
    memory: json(row['memory']),
  });
}
