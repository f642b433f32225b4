/**
 * From what a row says is attached to where it lies: volumes by their rows, directories of the host by the judge, who is asked anew at
 * every start. What the operator has taken from the list, or somebody has moved, is not attached again, and the sandbox says so rather than
 * run without it.
 */
import { AppError } from '@squash/contract/errors';
import type { HostDirectories } from '@squash/contract/host-directory';
import type { HostWish, MountStep } from '@squash/contract/mount-check';
import { hasLevels, levelsOf, type StoredMount, type VolumeId } from '@squash/contract/volume';
import type { VolumeRow } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import type { HostDirectory, HostPlace, MountSpec } from '../drivers/driver.ts';
import { hostFacts } from './host-facts.ts';
import { type Judgement, judgeHostDirectory, type Surroundings, type Verdict } from './judge.ts';
import { lookAt, namesIn } from './look.ts';
import { compileMount, mountRules } from './mount-levels.ts';

/** Of one mount, as HIDDEN_MAX of native/launch/request.h; sixteen mounts are one request of 256 KiB. */
const hiddenMax = 64;
const hiddenBytesMax = 8_192;

/**
 * Of a volume that the daemon itself gives to several for writing: what one writes the others see at once. No client can set it, nor any
 * label that begins like this.
 */
export const sharedLabel = 'squash.shared';

export interface MountSourcesOptions {
  readonly store: Store;
  /** `host-directories.json` */
  readonly hostDirectories: HostDirectories;
  readonly surroundings: Surroundings;
  readonly hasOverlay: boolean;
}

export class StoredMountSources {
  readonly #options: MountSourcesOptions;
  readonly #last = new WeakMap<StoredMount, MountSpec>();
  /** How many copies are being made of each. */
  readonly #held = new Map<VolumeId, number>();

  constructor(options: MountSourcesOptions) {
    this.#options = options;
  }

  specs({
    owner,
    mounts,
  }: {
    readonly owner: string;
    readonly mounts: readonly StoredMount[];
  }): readonly MountSpec[] {
    const specs = [...mounts]
      .sort((a, b) => (a.path < b.path ? -1 : 1))
      .map((mount) => {
        const spec = this.#spec(owner, mount);
        this.#last.set(mount, spec);
        return spec;
      });
    checkPlaces(specs);
    return specs;
  }

  lastSpec(mount: StoredMount): MountSpec | undefined {
    return this.#last.get(mount);
  }

  /** @throws volume_not_found, volume_in_use */
  checkFree(mounts: readonly StoredMount[]): void {
    const { store } = this.#options;
    for (const { volume, mode } of mounts) {
      if (volume === null) continue;
      const { id, name, labels } = this.#volume({ volume });
      if (this.isHeld(id))
        throw new AppError('volume_in_use', `Cannot attach volume "${name}": it is being copied`);
      if (labels[sharedLabel] !== undefined) continue;
      const others = [
        ...store.read(() => store.volumes.attachments(id)),
        ...mounts.filter((each) => each.volume === volume).slice(1),
      ];
      if (others.length === 0 || (mode === 'ro' && others.every((other) => other.mode === 'ro'))) continue;
      const [first] = others;
      const where =
        first !== undefined && 'sandbox' in first ? `sandbox "${first.sandbox}" has it` : 'it is named twice';
      throw new AppError('volume_in_use', `Cannot attach volume "${name}" ${mode}: ${where} ${first?.mode}`);
    }
  }

  hold(volume: VolumeId): Disposable {
    this.#held.set(volume, (this.#held.get(volume) ?? 0) + 1);
    return {
      [Symbol.dispose]: () => {
        const left = (this.#held.get(volume) ?? 1) - 1;
        if (left === 0) this.#held.delete(volume);
        else this.#held.set(volume, left);
      },
    };
  }

  isHeld(volume: VolumeId): boolean {
    return this.#held.has(volume);
  }

  judge(wish: HostWish): readonly MountStep[] {
    return this.#judged(wish).steps;
  }

  /** Where it lies, which one that is, and what of it is hidden. @throws host_directory_refused */
  hostDirectory(wish: HostWish): HostDirectory {
    const { verdict, identity } = this.#judged(wish);
    if (verdict.verdict !== 'allow') throw refusal(wish.path, verdict);
    if (hasLevels(wish))
      return { path: wish.path, identity, hidden: [], places: this.#places(wish, verdict.hides) };
    const there = namesIn(wish.path, verdict.hides);
    // Below one that is hidden nothing is seen, and nothing is there to be covered.
    const hidden = there.filter((name) => !there.some((other) => name.startsWith(`${other}/`)));
    if (hidden.length > hiddenMax || Buffer.byteLength(hidden.join('')) > hiddenBytesMax) {
      const sentence = `more than ${hiddenMax} names, or ${hiddenBytesMax} bytes of them, are hidden in it: attach a directory below it`;
      throw refusal(wish.path, { verdict: 'refuse', reason: 'blocked_name', sentence });
    }
    return { path: wish.path, identity, hidden };
  }

  /** What its levels open is asked for as the directory itself is; a file has the rights that it has. */
  #places(wish: HostWish, hides: readonly string[]): readonly HostPlace[] {
    for (const [path, mode] of Object.entries(mountRules(wish))) {
      if (path === wish.path || (mode !== 'ro' && mode !== 'cow' && mode !== 'rw')) continue;
      const below = Object.entries(wish.paths ?? {}).flatMap(([name, level]) => {
        const at = `${wish.path}/${name}`;
        return at.startsWith(`${path}/`) ? [[at.slice(path.length + 1), level] as const] : [];
      });
      const { verdict } = this.#judged({ path, mode, owner: wish.owner, paths: Object.fromEntries(below) });
      if (verdict.verdict === 'refuse' && verdict.reason !== 'not_a_directory') throw refusal(path, verdict);
    }
    const compiled = compileMount(wish, hides, hostFacts());
    const unheld = (path: string, why: string): AppError =>
      refusal(path, {
        verdict: 'refuse',
        reason: 'level_unheld',
        sentence: `its level does not hold: ${why}`,
      });
    if ('unheld' in compiled) throw unheld(compiled.unheld, compiled.why);
    const overlay = compiled.places.find(({ kind }) => kind === 'overlay');
    if (overlay !== undefined && !this.#options.hasOverlay)
      throw unheld(overlay.target, 'it needs the kernel’s overlayfs, which this host does not give');
    return compiled.places;
  }

  #judged(wish: HostWish): Judgement & { readonly identity: string } {
    const { hostDirectories, surroundings } = this.#options;
    const first = judgeHostDirectory(hostDirectories, surroundings, { wish });
    if (first.verdict.verdict !== 'look') return { ...first, identity: '' };
    const { found, identity } = lookAt(wish.path);
    return { ...judgeHostDirectory(hostDirectories, surroundings, { wish, found }), identity };
  }

  #spec(owner: string, { id, path, mode, paths, volume, host }: StoredMount): MountSpec {
    const isWritten = levelsOf({ mode, paths }).some((level) => level === 'rw' || level === 'cow');
    const seen = { path, mode: isWritten ? 'rw' : 'ro' } as const;
    if (host !== null)
      return { ...seen, host: { ...this.hostDirectory({ path: host, mode, paths, owner }), part: id } };
    const row = this.#volume({ volume });
    return { ...seen, volume: { id: row.id, kind: row.kind } };
  }

  #volume({ volume }: Pick<StoredMount, 'volume'>): VolumeRow {
    const { store } = this.#options;
    const row = volume === null ? undefined : store.read(() => store.volumes.get(volume));
    if (row?.phase !== 'ready')
      throw new AppError('volume_not_found', `Cannot attach volume "${volume}": it is gone`);
    return row;
  }
}

/** As the launcher takes them in one request, beside what else a start has. */
const placesMax = 160;
const placesBytesMax = 65_536;

/** Of a path in the sandbox, and of that of its own part, which begins with the mount’s id; each name in them has 255 at most. */
const placeBytesMax = 500;

/** @throws mount_limit */
function checkPlaces(specs: readonly MountSpec[]): void {
  const places = specs.flatMap((spec) => {
    const { host } = 'host' in spec ? spec : {};
    return (host?.places ?? []).map(({ source, target }) => {
      const rest = target.slice(host?.path.length);
      return { at: spec.path, rest, bytes: Buffer.byteLength(source + target) + 64 };
    });
  });
  for (const { at, rest } of places) {
    const length = Buffer.byteLength(rest) + Math.max(Buffer.byteLength(at), 'mnt_0123456789abcdef'.length);
    if (length > placeBytesMax || rest.split('/').some((name) => Buffer.byteLength(name) > 255))
      throw new AppError(
        'mount_limit',
        `Levels of what is attached at "${at}" name a path that is too long there: ${placeBytesMax} bytes at most, and 255 of each name`,
      );
  }
  const bytes = places.reduce((sum, place) => sum + place.bytes, 0);
  if (places.length > placesMax || bytes > placesBytesMax)
    throw new AppError(
      'mount_limit',
      `Levels of what is attached make ${places.length} mounts, ${bytes} bytes of paths: ${placesMax} and ${placesBytesMax} at most`,
    );
}

function refusal(path: string, verdict: Verdict): AppError {
  const why = verdict.verdict === 'refuse' ? `${verdict.sentence} (${verdict.reason})` : verdict.verdict;
  return new AppError('host_directory_refused', `Cannot attach "${path}" of the host: ${why}`);
}
