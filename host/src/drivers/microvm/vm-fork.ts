/**
 * Saving a microVM that runs, with its memory, for another one that goes on from there.
 *
 * In QEMU a VM can't be saved with its vsock device, by which it is reached. So it loses the device, stands still while its disk and its memory
 * are written, and gets it back; in Firecracker it keeps it, and the connections end. Its processes see nothing but a leap of time, and connections
 * to its PID 1 are made anew. A file in `vm/forks` says as long as that takes that it may stand there; of a daemon that died meanwhile the next one
 * lets it go on.
 */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { isDiskFull } from '@squash/base/errno';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { unlessAborted } from '@squash/base/unless-aborted';
import type { MemoryFiles } from '../driver.ts';
import { checkRoom, saveDisk, saveVm } from './vm-copy.ts';
import type { MachineCopies, SavedBounds } from './vmm.ts';
import { spokenTo, type ToVmm } from './vmm-channel.ts';

/** Emulated, on a busy machine, with all of its disk. */
const saveMsMax = 600_000;
/** Of its kernel, which takes five seconds, and of an emulated one more; and of Firecracker, which writes all of its memory then. */
const partMsMax = 120_000;
const slackBytes = 64 * 1_048_576;

export interface RunningVm {
  readonly id: SandboxId;
  readonly connect: ToVmm;
  readonly copies: MachineCopies;
}

export class VmForks {
  readonly #folder: string;
  readonly #hasRoom: SavedBounds['hasRoom'];
  readonly #gates = new Map<SandboxId, Promise<void>>();
  /** Of all that are saved now. */
  #memoryBytes = 0;

  constructor(dataDir: string, hasRoom: SavedBounds['hasRoom']) {
    this.#folder = join(dataDir, 'vm/forks');
    this.#hasRoom = hasRoom;
  }

  /** Resolves when it can be reached, as far as it is up to this. */
  async passed(id: SandboxId, signal?: AbortSignal): Promise<void> {
    const gate = this.#gates.get(id);
    if (gate !== undefined) await unlessAborted(gate, signal);
  }

  /** It goes on afterwards, whatever happens; says how long it stood still, in milliseconds. @param giveUp it is to be removed @param held `disk` is in the VMM's root @throws guest_failed, disk_full */
  async save(
    vm: RunningVm,
    held: { readonly disk: string; readonly diskBytes: number; readonly memoryBytes: number },
    { to, giveUp }: { readonly to: MemoryFiles; readonly giveUp: AbortSignal },
  ): Promise<number> {
    // One that writes its memory in its own root asks nobody; nor do the others meanwhile.
    checkRoom(this.#hasRoom, this.#memoryBytes + held.memoryBytes);
    this.#memoryBytes += held.memoryBytes;
    const late = AbortSignal.any([giveUp, AbortSignal.timeout(saveMsMax)]);
    const bounds = { hasRoom: this.#hasRoom, giveUp: late };
    let stillMs = 0;
    const saved = this.#without(vm, { giveUp, late }, async () => {
      const beganMs = performance.now();
      // Extents have heads of 16 bytes, and blocks of 4 KiB.
      const diskBytesMax = held.diskBytes + held.diskBytes / 128 + slackBytes;
      await saveDisk(vm.connect, { disk: held.disk, path: to.disk }, { ...bounds, bytesMax: diskBytesMax });
      await saveVm(vm, to.memory, { ...bounds, bytesMax: held.memoryBytes + slackBytes });
      stillMs = performance.now() - beganMs;
    });
    await saved.finally(() => (this.#memoryBytes -= held.memoryBytes));
    return stillMs;
  }

  /** Of VMs that run: those that an earlier daemon has left without a device get it back. A daemon's start waits for it, and no longer for one that is hostile. */
  async mend(running: readonly RunningVm[]): Promise<void> {
    const left = new Set<string>(await readdir(this.#folder).catch(() => []));
    await Promise.all(
      running.filter(({ id }) => left.has(id)).map((vm) => this.#giveBack(vm, limits.takeOverMs)),
    );
    for (const name of left) await rm(join(this.#folder, name), { force: true });
  }

  async #without(
    vm: RunningVm,
    { giveUp, late }: { readonly giveUp: AbortSignal; readonly late: AbortSignal },
    work: () => Promise<void>,
  ): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gates.set(vm.id, promise);
    const mark = join(this.#folder, vm.id);
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await writeFile(mark, '');
      try {
        const partBy = AbortSignal.any([late, AbortSignal.timeout(partMsMax)]);
        await vm.copies.part(vm.connect, partBy);
        await work();
      } finally {
        // One that is to be removed is not waited for.
        if (!giveUp.aborted) await this.#giveBack(vm);
      }
    } catch (error) {
      giveUp.throwIfAborted();
      throw asRefusal(error);
    } finally {
      await rm(mark, { force: true });
      this.#gates.delete(vm.id);
      resolve();
    }
  }

  /** Nothing is to be done for one whose VMM does not answer any more: what is missing shows, and it is started again. */
  async #giveBack(vm: RunningVm, msMax = partMsMax): Promise<void> {
    const signal = AbortSignal.timeout(msMax);
    await vm.copies.goOn(vm.connect, signal).catch(() => undefined);
  }
}

/** A VMM that dies breaks off whichever stream it has just then. */
function asRefusal(error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (isDiskFull(error))
    return new AppError('disk_full', 'No room on the disk for the fork of a microVM', { cause: error });
  return new AppError('guest_failed', 'The VMM broke off while its guest was saved', { cause: error });
}

/** With a stream to its VMM, which hears one at a time: call in its sandbox's turn. @throws guest_failed where it lies or is silent */
export async function controlled<T>(
  vm: Pick<RunningVm, 'connect'>,
  signal: AbortSignal,
  work: (control: Duplex) => Promise<T>,
): Promise<T> {
  try {
    return await spokenTo(vm.connect, { which: 'vmmControl', signal }, work);
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    if (signal.reason instanceof AppError) throw signal.reason;
    throw new AppError('guest_failed', 'The VMM does not answer as it should', { cause });
  }
}
