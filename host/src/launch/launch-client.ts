/**
 * What the daemon asks of `squash-launch`, one method per verb. All paths are relative to the data directory.
 *
 * A request whose answer is lost (the launcher was asked, then the connection broke) may have been carried out:
 * `start` shows in `list`, everything else may be asked again.
 */
import { AppError } from '@squash/contract/errors';
import { encodeFields, type FieldFrameName, FrameDecoder } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { type SandboxId, sandboxIdSchema } from '@squash/contract/ids';
import { pause } from '@squash/base/pause';
import { SocketDirectory } from '@squash/base/socket-directory';
import {
  type AskOptions,
  answerTextBytesMax,
  askLauncher,
  connectLauncher,
  type LaunchAnswer,
} from './launch-connection.ts';
import {
  type FieldValue,
  type LaunchMount,
  type LaunchStart,
  type LaunchUpper,
  mountField,
  startFields,
  upperFields,
} from './launch-fields.ts';
import { type LayerDifference, parseDifference, pathBytesMax } from './layer-difference.ts';
import { LauncherLook, type LookTimes, waitForLauncher } from './launcher-look.ts';
import { refusedByOlder } from './older-launcher.ts';
import { type PackedImage, parsePacked } from './packed-image.ts';
import { treeFile } from './tree-file.ts';
import { type TarAnswer, treeTar } from './tree-tar.ts';

/** Verbs that only look or tell: milliseconds, and the launcher forks for some of them. */
const quickMsMax = 30_000;
/** The launcher gives up a start after 30 s by itself. */
const startMsMax = 60_000;
/** Packing, unpacking, walking and removing trees of many gigabytes. */
export const treeMsMax = 3_600_000;
/** Between two tries to watch again after the launcher went away. */
const watchAgainMs = 1_000;
/** So often nobody listened: one that ends takes connections until its last file is closed. */
const refusalsMax = 2;

type VolumePlace = Pick<LaunchUpper, 'path' | 'kind'>;

export interface LaunchedSandbox {
  readonly name: SandboxId;
  readonly instance: number;
  /** Its PID 1 is squash-vmm. */
  readonly vmm: boolean;
}

export interface LaunchWatch extends AsyncDisposable {
  /** False while the launcher is away, does not answer, or was not reached yet. */
  isWatching(): boolean;
  /** Resolves when the launcher was reached for the first time. */
  readonly begun: Promise<void>;
  /** What the launcher speaks; it said so when the watch began. */
  protocol(): number;
  /** Resolves when nobody listens any more: the launcher has ended, and no other one comes into these namespaces. */
  readonly gone: Promise<void>;
  /** Resolves when somebody listens who has answered nothing for too long: it has to be ended. */
  readonly hung: Promise<void>;
}

/** Of the sandboxes' watch: what happens to one, or to the launcher itself. */
export interface WatchListener {
  onEvent(change: string, sandbox: LaunchedSandbox): void;
  /** Says whether the privileged helper is there. */
  onHelper(isThere: boolean): void;
  /** From now on nothing is missed, and events until now may have been. */
  onGap(): void;
}

export class LaunchClient implements Disposable {
  readonly #sockets: SocketDirectory;

  /** @param runDir where `launch.sock` is */
  constructor(runDir: string) {
    this.#sockets = new SocketDirectory(runDir);
  }

  /**
   * Resolves when PID 1 accepts connections; with a sentence where the sandbox got less than it should have, which is
   * a network at present. @throws launch_failed, disk_full, launcher_unavailable
   */
  async start(start: LaunchStart, signal?: AbortSignal): Promise<{ readonly warning: string | undefined }> {
    const { ok } = await this.#ask('sandboxStart', startFields(start), {
      answerMsMax: startMsMax,
      ...(signal === undefined ? {} : { signal }),
    });
    return { warning: ok.optionalText('warning', answerTextBytesMax) };
  }

  /**
   * Resolves when nothing of the sandbox is left. `forGood`: nothing will be started on its upper again, so its mounts
   * may be taken down a moment later. Idempotent.
   */
  async stop(name: SandboxId, forGood = false): Promise<void> {
    try {
      await this.#ask('sandboxStop', [['name', name], ...(forGood ? [['forGood', 1] as const] : [])]);
    } catch (error) {
      // A launcher from before this field refuses it.
      if (!forGood || !(error instanceof AppError) || error.code !== 'invalid_request') throw error;
      await this.stop(name);
    }
  }

  async list(): Promise<readonly LaunchedSandbox[]> {
    const { entries } = await this.#ask('sandboxList', []);
    return entries.map(parseSandbox);
  }

  async freeze(name: SandboxId): Promise<void> {
    await this.#ask('sandboxFreeze', [['name', name]]);
  }

  async thaw(name: SandboxId): Promise<void> {
    await this.#ask('sandboxThaw', [['name', name]]);
  }

  /** Other limits for a sandbox that runs. @throws sandbox_not_ready, launch_failed, and invalid_request from an older launcher */
  async limit(
    name: SandboxId,
    limits: { readonly memoryBytesMax: number; readonly cpuMilli: number; readonly pidsMax: number },
  ): Promise<void> {
    await this.#ask('sandboxLimit', [
      ['name', name],
      ['memoryBytesMax', limits.memoryBytesMax],
      ['cpuMilli', limits.cpuMilli],
      ['pidsMax', limits.pidsMax],
    ]);
  }

  /** `memoryBytes`, `cpuUs` and `pids` now; the kills since the sandbox started. @throws sandbox_not_ready */
  async stats(
    name: SandboxId,
  ): Promise<{ memoryBytes: number; cpuUs: number; pids: number; oomKills: number; upperKills: number }> {
    const { ok } = await this.#ask('sandboxStats', [['name', name]]);
    return {
      memoryBytes: ok.integer('bytes'),
      cpuUs: ok.integer('cpuUs'),
      pids: ok.integer('running'),
      oomKills: ok.integer('oomKills'),
      // A launcher that is older than this daemon does not say.
      upperKills: ok.optionalInteger('upperKills') ?? 0,
    };
  }

  /** Idempotent: an upper that exists is kept. @throws disk_full */
  async createUpper(upper: LaunchUpper): Promise<void> {
    await this.#ask('upperCreate', upperFields(upper), { answerMsMax: treeMsMax });
  }

  /** A volume: as an upper, but on the disk when it resolves, with its room where its kind has a size. @throws disk_full */
  async createVolume(upper: LaunchUpper): Promise<void> {
    await this.#ask('upperCreate', [...upperFields(upper), ['reserved', 1]], { answerMsMax: treeMsMax });
  }

  /** Into a sandbox that runs; nothing where it is there. @throws mount_refused, host_directory_refused, sandbox_not_ready */
  async attachMount(name: SandboxId, mount: LaunchMount): Promise<void> {
    await this.#ask('mountAttach', [['name', name], mountField(mount)], { answerMsMax: startMsMax });
  }

  /** @throws mount_busy where a program in the sandbox uses it */
  async detachMount(name: SandboxId, mount: LaunchMount): Promise<void> {
    await this.#ask('mountDetach', [['name', name], mountField(mount)], { answerMsMax: startMsMax });
  }

  /** Copies a volume into another, empty one. @throws disk_full, launch_failed */
  async copyVolume({
    from,
    to,
    bytesMax,
  }: {
    readonly from: VolumePlace;
    readonly to: VolumePlace;
    readonly bytesMax: number;
  }): Promise<void> {
    const side = (mode: 'ro' | 'rw', { path, kind }: VolumePlace): FieldValue =>
      mountField({ mode, kind, identity: '-', source: path, target: '/volume' });
    await this.#ask('volumeCopy', [side('ro', from), side('rw', to), ['bytesMax', bytesMax]], {
      answerMsMax: treeMsMax,
    });
  }

  async upperUsage(upper: Pick<LaunchUpper, 'path' | 'kind'>): Promise<{ bytes: number; inodes: number }> {
    const { ok } = await this.#ask(
      'upperUsage',
      [
        ['upper', upper.path],
        ['upperKind', upper.kind],
      ],
      { answerMsMax: treeMsMax },
    );
    return { bytes: ok.integer('bytes'), inodes: ok.integer('inodes') };
  }

  /** Removes a file or a tree of any depth; one that is not there is removed already. */
  async removeTree(path: string): Promise<void> {
    await this.#ask('treeRemove', [['path', path]], { answerMsMax: treeMsMax });
  }

  /**
   * Writes the upper as squashfs to `path`, the sandbox standing still meanwhile where it runs. Where `giveUp` is
   * aborted it rejects once nothing of it goes on. With `known`, an index that was written to `index` before, what changed
   * since may be all that is packed. @throws disk_full, snapshot_path_too_long, launch_failed
   */
  async pack(
    source: {
      readonly name: SandboxId;
      readonly upper: Pick<LaunchUpper, 'path' | 'kind'>;
      readonly path: string;
      readonly bytesMax: number;
      readonly index?: string | undefined;
      readonly known?: string | undefined;
    },
    giveUp?: AbortSignal,
  ): Promise<PackedImage> {
    const { index, known } = source;
    const asked = this.#ask(
      'imagePack',
      [
        ['name', source.name],
        ['upper', source.upper.path],
        ['upperKind', source.upper.kind],
        ['path', source.path],
        ['bytesMax', source.bytesMax],
        ...(index === undefined ? [] : ([['index', index]] as const)),
        ...(known === undefined ? [] : ([['known', known]] as const)),
      ],
      { answerMsMax: treeMsMax, ...(giveUp === undefined ? {} : { giveUp }) },
    );
    const { name, upper, path, bytesMax } = source;
    try {
      return parsePacked((await asked).ok);
    } catch (error) {
      // A launcher of an earlier release knows no indexes: with it all snapshots are whole.
      const isOlder = error instanceof AppError && error.code === 'invalid_request';
      if (!isOlder || index === undefined) throw error;
      return this.pack({ name, upper, path, bytesMax }, giveUp);
    }
  }

  /** Writes layers, topmost first, as one squashfs to `path`; their whiteouts stay. @throws as `pack` does */
  async merge(
    layers: {
      readonly lowers: readonly string[];
      readonly path: string;
      readonly bytesMax: number;
    },
    giveUp?: AbortSignal,
  ): Promise<{ bytes: number }> {
    const { ok } = await this.#ask(
      'imageMerge',
      [
        ...layers.lowers.map((lower): FieldValue => ['lower', lower]),
        ['path', layers.path],
        ['bytesMax', layers.bytesMax],
      ],
      { answerMsMax: treeMsMax, ...(giveUp === undefined ? {} : { giveUp }) },
    );
    return { bytes: ok.integer('bytes') };
  }

  /** Writes the tar file at `path`, which the daemon has made, as squashfs to `target`: the same bytes for the same tar. @throws as `pack` does */
  async packTar(
    tar: { readonly path: string; readonly target: string; readonly bytesMax: number },
    giveUp?: AbortSignal,
  ): Promise<{ bytes: number }> {
    const { ok } = await this.#ask(
      'imagePackTar',
      [
        ['path', tar.path],
        ['target', tar.target],
        ['bytesMax', tar.bytesMax],
      ],
      { answerMsMax: treeMsMax, ...(giveUp === undefined ? {} : { giveUp }) },
    ).catch((error: unknown) => refusedByOlder(error, 'take images in'));
    return { bytes: ok.integer('bytes') };
  }

  /**
   * What `lowers` show other than `against`, topmost first, by path and behind `after`; with `upper` on top of `lowers`.
   * @throws layer_corrupt, snapshot_path_too_long, launch_failed, and invalid_request from an older launcher
   */
  async diff(
    sides: {
      readonly upper: Pick<LaunchUpper, 'path' | 'kind'> | undefined;
      readonly lowers: readonly string[];
      readonly against: readonly string[];
      readonly after: Uint8Array | undefined;
      readonly entriesMax: number;
    },
    giveUp?: AbortSignal,
  ): Promise<{ readonly entries: readonly LayerDifference[]; readonly next: Uint8Array | undefined }> {
    const { upper, after } = sides;
    const { ok, entries } = await this.#ask(
      'treeDiff',
      [
        ...sides.lowers.map((lower): FieldValue => ['lower', lower]),
        ...sides.against.map((lower): FieldValue => ['against', lower]),
        ...(upper === undefined
          ? []
          : ([
              ['upper', upper.path],
              ['upperKind', upper.kind],
            ] as const)),
        ...(after === undefined ? [] : ([['after', after]] as const)),
        ['inodesMax', sides.entriesMax],
      ],
      { answerMsMax: treeMsMax, ...(giveUp === undefined ? {} : { giveUp }) },
    );
    return { entries: entries.map(parseDifference), next: ok.optionalBytes('after', pathBytesMax) };
  }

  /** The tree at `path` as a tar, owners as the sandbox has them: see tree-tar.ts. */
  treeTar(path: string, signal?: AbortSignal): TarAnswer {
    return treeTar(this.#sockets, path, signal);
  }

  /** See tree-file.ts. */
  treeFile(fields: readonly FieldValue[]): Promise<Uint8Array> {
    return treeFile(this.#sockets, fields);
  }

  /** Makes the directory `target` from the squashfs file `path`. `giveUp` as of `pack`. @throws layer_corrupt, disk_full */
  async unpack(
    image: {
      readonly path: string;
      readonly target: string;
      readonly bytesMax: number;
      readonly inodesMax: number;
    },
    giveUp?: AbortSignal,
  ): Promise<void> {
    await this.#ask(
      'imageUnpack',
      [
        ['path', image.path],
        ['target', image.target],
        ['bytesMax', image.bytesMax],
        ['inodesMax', image.inodesMax],
      ],
      { answerMsMax: treeMsMax, ...(giveUp === undefined ? {} : { giveUp }) },
    );
  }

  /**
   * Puts a process of the daemon's id into a control group of its own, beside the sandboxes'. `memoryBytesMax` 0: no
   * limit. Resolves with a sentence where this host has no groups. @throws launch_failed
   */
  async joinGroup(member: {
    readonly group: 'egress';
    readonly pid: number;
    readonly memoryBytesMax: number;
  }): Promise<{ readonly warning: string | undefined }> {
    const { ok } = await this.#ask('groupJoin', [
      ['name', member.group],
      ['pid', member.pid],
      ['memoryBytesMax', member.memoryBytesMax],
    ]);
    return { warning: ok.optionalText('warning', answerTextBytesMax) };
  }

  /** Ends all sandboxes, then the launcher itself. */
  async shutdown(): Promise<void> {
    await this.#ask('shutdown', []);
  }

  /** The request for verbs whose answer has a parser of its own, such as the probe's. */
  ask(type: FieldFrameName, fields: Iterable<FieldValue> = [], options?: AskOptions): Promise<LaunchAnswer> {
    return this.#ask(type, fields, options);
  }

  /** False where it is there and answers nothing for `hungMs`. */
  answers(hungMs: number, signal: AbortSignal): Promise<boolean> {
    return waitForLauncher(this.#sockets, { hungMs }, signal);
  }

  /** Tells what happens to sandboxes (`ended`) until disposed. Goes on by itself when the launcher was away. */
  watch(listener: WatchListener, times?: Partial<LookTimes>): LaunchWatch {
    const look = new LauncherLook(this.#sockets, times);
    const stop = new AbortController();
    let isWatching = false;
    let protocol = 1;
    const { promise: begun, resolve: tellBegun } = Promise.withResolvers<void>();
    const { promise: gone, resolve: tellGone } = Promise.withResolvers<void>();
    const onTurn = (spoken: number | undefined): void => {
      isWatching = spoken !== undefined;
      if (spoken === undefined) return;
      protocol = spoken;
      tellBegun();
      listener.onGap();
    };
    const done = this.#watchUntil(stop.signal, listener, { onTurn, onGone: tellGone });
    return {
      isWatching: () => isWatching && !look.isSilent,
      protocol: () => protocol,
      begun,
      gone,
      hung: look.hung,
      async [Symbol.asyncDispose](): Promise<void> {
        stop.abort();
        await Promise.all([done, look[Symbol.asyncDispose]()]);
      },
    };
  }

  [Symbol.dispose](): void {
    this.#sockets[Symbol.dispose]();
  }

  async #watchUntil(
    signal: AbortSignal,
    listener: WatchListener,
    { onTurn, onGone }: { onTurn: (spoken: number | undefined) => void; onGone: () => void },
  ): Promise<void> {
    let refusals = 0;
    while (!signal.aborted) {
      try {
        await this.#watchOnce(signal, listener, onTurn);
        refusals = 0;
      } catch (error) {
        // What the launcher is needed for fails with its own error; here only the next try matters.
        refusals = wasRefused(error) ? refusals + 1 : 0;
        if (refusals === refusalsMax) onGone();
      }
      onTurn(undefined);
      if (!signal.aborted) await pause(watchAgainMs, signal);
    }
  }

  async #watchOnce(
    signal: AbortSignal,
    listener: WatchListener,
    onStarted: (protocol: number) => void,
  ): Promise<void> {
    const socket = await connectLauncher(this.#sockets, signal);
    const abort = (): void => void socket.destroy();
    signal.addEventListener('abort', abort, { once: true });
    try {
      socket.write(encodeFields('sandboxWatch', []));
      const decoder = new FrameDecoder();
      for await (const chunk of socket as AsyncIterable<Buffer>) {
        for (const frame of decoder.decode(chunk)) {
          if (frame.kind !== 'fields') continue;
          const reader = new FieldReader(frame.fields);
          if (frame.type === 'started') onStarted(reader.optionalInteger('protocol') ?? 1);
          if (frame.type === 'event') tell(listener, reader);
        }
      }
    } finally {
      signal.removeEventListener('abort', abort);
      socket.destroy();
    }
  }

  #ask(
    type: FieldFrameName,
    fields: Iterable<FieldValue>,
    options: AskOptions = { answerMsMax: quickMsMax },
  ): Promise<LaunchAnswer> {
    return askLauncher(this.#sockets, encodeFields(type, fields), options);
  }
}

/** Nobody listens, as opposed to somebody who does not answer. */
function wasRefused(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return (
    cause instanceof Error && 'code' in cause && (cause.code === 'ECONNREFUSED' || cause.code === 'ENOENT')
  );
}

function tell(listener: WatchListener, event: FieldReader): void {
  const change = event.text('change', 64);
  if (change === 'helper_gone' || change === 'helper_back') listener.onHelper(change === 'helper_back');
  else listener.onEvent(change, parseSandbox(event));
}

function parseSandbox(reader: FieldReader): LaunchedSandbox {
  const name = sandboxIdSchema.safeParse(reader.text('name', 64));
  if (!name.success) throw new AppError('launch_failed', 'squash-launch names a sandbox by no valid id');
  return { name: name.data, instance: reader.integer('instance', { min: 1 }), vmm: reader.flag('vmm') };
}
