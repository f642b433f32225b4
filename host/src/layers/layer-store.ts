/**
 * The port of the layer store: modules by name, layers by digest, unpacked once and shared.
 * The implementation is `LocalLayerStore` in `local-layer-store.ts`.
 */
import type { FileHandle } from 'node:fs/promises';
import type { Problem } from '@squash/contract/daemon';
import type { LayerDigest, ModuleName } from '@squash/contract/ids';
import type { ModuleManifest } from '@squash/contract/module-manifest';
import type { Metric } from '@squash/base/metric';
import type { Programs } from './programs.ts';

export interface ModuleInfo {
  readonly name: ModuleName;
  /** Bytes of the squashfs file. */
  readonly size: number;
  readonly location: 'local' | 'remote';
}

/** With what is known of it beyond the file. */
export interface ModuleDetails extends ModuleInfo {
  readonly digest: LayerDigest;
  readonly manifest: ModuleManifest | undefined;
  /** Undefined: it has not been unpacked yet. */
  readonly programs: Programs | undefined;
}

/** What sandboxes and their snapshots need. */
export interface LayerUse {
  /** By name as well as content: where its tree is gone, it is unpacked again from the module of that name. */
  readonly modules: readonly { readonly module: ModuleName; readonly digest: LayerDigest }[];
  /** Of modules, also of replaced ones, and of snapshots. */
  readonly trees: ReadonlySet<LayerDigest>;
}

/** What could be removed of the unpacked trees, or was. */
export interface Sweep {
  readonly isDry: boolean;
  /** Of all, before. */
  readonly trees: number;
  readonly swept: number;
  /** Of those, on the disk. */
  readonly bytes: number;
}

export interface LayerStore {
  /** Sorted by name. Reads the directory each time: a file dropped in `modules/` is a module. */
  modules(): Promise<readonly ModuleInfo[]>;
  /** Whether a module of this name is here, sound or not. */
  has(name: ModuleName): Promise<boolean>;
  /**
   * The module's current digest, its tree unpacked under `layers/<digest>` and verified.
   * @throws module_not_found, layer_corrupt, disk_full
   */
  ensureModule(name: ModuleName): Promise<LayerDigest>;
  /** @throws module_not_found, layer_corrupt when the manifest names another digest */
  describe(name: ModuleName): Promise<ModuleDetails>;
  /** The same, with every byte of the file read again. */
  verify(name: ModuleName): Promise<ModuleDetails>;
  /** @throws module_not_found, invalid_request where it is of another file, disk_full */
  putManifest(name: ModuleName, manifest: ModuleManifest): Promise<ModuleDetails>;
  /** The file, to be read and closed by the caller. @throws module_not_found, layer_corrupt */
  open(name: ModuleName): Promise<FileHandle>;
  /** Of a tree that is there. */
  programs(digest: LayerDigest): Programs;
  /** Of any file below the data directory; it is read where it is another than at the last look. @throws layer_corrupt, ENOENT */
  digestOf(hostPath: string): Promise<LayerDigest>;
  /**
   * The same for a squashfs file that is no module (a snapshot). `digest`, where known, is verified. Where `giveUp` is
   * aborted it rejects once nobody else wants what is unpacked, and nothing of that goes on.
   */
  ensureFile(
    hostPath: string,
    options: { readonly digest?: LayerDigest; readonly giveUp: AbortSignal },
  ): Promise<LayerDigest>;
  /** Takes over a squashfs file under this name (copied, synced, renamed). @throws module_exists, module_invalid, disk_full */
  importModule(
    hostPath: string,
    name: ModuleName,
    options?: { readonly replace?: boolean },
  ): Promise<ModuleInfo & { readonly digest: LayerDigest }>;
  /**
   * Refused while something is stacked from the module of this name. A copy under another name may go: only `trees`
   * stay for what has the same content. @throws module_not_found, module_in_use
   */
  removeModule(name: ModuleName, use: LayerUse): Promise<void>;
  /** What `sweep` would remove. */
  measureSweep(keep: ReadonlySet<LayerDigest>): Promise<Sweep>;
  /**
   * Removes unpacked trees that are not in `keep`, modules' too: nobody finds them any more when this resolves, and their
   * room is free when the function that it resolves to does. @throws launcher_unavailable
   */
  sweep(keep: ReadonlySet<LayerDigest>): Promise<() => Promise<Sweep>>;
  /** Removes unpacked trees that are neither in `keep` nor a module's. Returns how many. */
  collect(keep: ReadonlySet<LayerDigest>): Promise<number>;
}

/** Modules kept beside this machine, in a bucket. While that is out of reach, only what is nowhere else is missing. */
export interface RemoteModules {
  /** As last listed, so it waits for nobody. */
  known(): readonly ModuleInfo[];
  /** The same, but where it has never been listed it waits for that a moment. */
  list(): Promise<readonly ModuleInfo[]>;
  /**
   * Brings the file, checked against every digest that the bucket states, and hands it to `admit`. Does nothing where
   * the bucket has no such module. @throws bucket_unavailable, layer_corrupt, disk_full
   */
  fetch(name: ModuleName, admit: (found: FetchedModule) => Promise<void>): Promise<void>;
  /** What is here under this name is another: it is brought there later. `replace`: what is there may be another module. */
  changed(name: ModuleName, options?: { readonly replace?: boolean }): void;
  /** Resolves when it is there. @throws bucket_unavailable, bucket_conflict, module_not_found, layer_corrupt */
  push(name: ModuleName, options: { readonly replace: boolean }): Promise<void>;
  /** The same for those of them that wait. @throws bucket_unavailable */
  flush(names: readonly ModuleName[]): Promise<void>;
  readonly pending: number;
  problems(): readonly Problem[];
  metrics(): readonly Metric[];
}

export interface FetchedModule {
  /** Removed when `admit` has ended. */
  readonly path: string;
  readonly manifest: ModuleManifest | undefined;
}
