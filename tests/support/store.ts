/** A database of its own for a test, with one sandbox in it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SandboxId } from '@squash/contract/ids';
import { type SandboxRow, sandboxRowSchema } from '../../host/src/store/rows.ts';
import { Store } from '../../host/src/store/store.ts';

export function sandboxRow(id: string): SandboxRow {
  return sandboxRowSchema.parse({
    id,
    owner: 'anon',
    task: '',
    layers: [{ module: '000-base', digest: 'a'.repeat(64) }],
    createdMs: 1,
    lastActiveMs: 1,
    cpu: 2,
    memoryMb: 1024,
    maxLifetimeS: 0,
    allowNet: null,
    policy: null,
    secrets: 'all',
    trust: null,
    warnings: [],
    limits: {
      cpuMilli: 2000,
      memoryBytesMax: 1,
      pidsMax: 1,
      shmBytesMax: 1,
      openFilesMax: 1,
      upperBytesMax: 1,
      upperInodesMax: 1,
    },
    upperKind: 'directory',
    upperGeneration: 1,
    activeSnapshot: null,
    phase: 'ready',
    failure: null,
    instance: 1,
    nextSeq: 1,
    pending: null,
    revision: 1,
  });
}

export interface TestStore extends Disposable {
  readonly store: Store;
  readonly path: string;
  readonly id: SandboxId;
  /** Closes and opens the file again, as the next daemon does. */
  reopen(): Store;
}

export function testStore(id = 'dev', parent = tmpdir()): TestStore {
  const directory = mkdtempSync(join(parent, 'squash-store-'));
  const path = join(directory, 'squash.db');
  let store = new Store(path);
  const row = sandboxRow(id);
  store.transaction(() => store.sandboxes.insert(row));
  return {
    get store() {
      return store;
    },
    path,
    id: row.id,
    reopen: () => {
      store[Symbol.dispose]();
      store = new Store(path);
      return store;
    },
    [Symbol.dispose]: () => {
      store[Symbol.dispose]();
      rmSync(directory, { recursive: true });
    },
  };
}
