/**
 * What the benchmark asks of another isolation tool. Each does the same job with the same root file system
 * (busybox), without network: what differs is the tool.
 *
 * A tool without long-lived sandboxes (bubblewrap alone, `srt`) has no `open`: it pays for a new sandbox with
 * every command, and its row in the exec table says so.
 */

export interface Peer {
  readonly name: string;
  /** Version and the settings that matter; stands below the tables. */
  readonly note: string;
  /** argv that runs a command in a new sandbox and ends with it. */
  once(command: readonly string[]): readonly string[];
  /** Environment for `once`. */
  readonly env: NodeJS.ProcessEnv;
  /** Rounds between two samples of a step that costs hundreds of milliseconds. */
  readonly every: number;
  /** A sandbox that stays. Resolves when it takes commands. */
  readonly open?: () => Promise<PeerSandbox>;
}

export interface PeerSandbox {
  /** argv that runs a command in it; none where the tool can't. */
  readonly exec?: (command: readonly string[]) => readonly string[];
  /** Every host process that exists because of this sandbox. */
  pids(): Promise<readonly number[]>;
  /** Returns when it is gone. */
  destroy(): Promise<void>;
}

/** Prepares a peer and proves that it runs `true`. @throws with the tool's own error where it does not */
export type PeerFactory = (lab: PeerLab, stack: AsyncDisposableStack) => Promise<Peer>;

export interface PeerLab {
  /** A directory of the peer's own; removed after the run. */
  readonly workDir: string;
  /** Kept between runs, for what comes from a registry. */
  readonly cacheDir: string;
  /** The busybox root file system, unpacked. */
  readonly rootfs: string;
}
