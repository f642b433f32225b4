/**
 * A machine that writes where the host's disk has no room stands still, with what it was about to write: nothing is lost, and its guest hears
 * of no error, behind which its file system would take no more writes. QEMU tries again where it is told to: from time to time, here.
 */
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import type { HostRoom } from '../driver.ts';
import { Qmp } from './qmp.ts';
import { controlled } from './vm-fork.ts';
import type { Vmm } from './vmm.ts';
import type { ToVmm } from './vmm-channel.ts';

const lookMs = 5_000;
/** For those that do not answer, which are asked at once with the others. */
const askMsMax = 2_000;

const statusSchema = z.object({ status: z.string().max(64) });

/** Where there still is no room it stands still again at once. */
export async function retryMachine(control: Duplex, signal: AbortSignal): Promise<void> {
  const qmp = await Qmp.open(control, signal);
  if (statusSchema.parse(await qmp.ask('query-status')).status === 'io-error') await qmp.ask('cont');
}

export class FullDisk implements Disposable {
  readonly #vmm: Pick<Vmm, 'retry'>;
  readonly #room: () => HostRoom['disk'];
  readonly #vms: () => readonly ToVmm[];
  readonly #timer = setInterval(() => void this.#look(), lookMs).unref();
  /** What an earlier daemon saw nobody knows. */
  #isShort = true;
  #isBusy = false;

  /** @param vms that may stand still for no other reason */
  constructor(vmm: Pick<Vmm, 'retry'>, room: () => HostRoom['disk'], vms: () => readonly ToVmm[]) {
    this.#vmm = vmm;
    this.#room = room;
    this.#vms = vms;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Of one that stood still for another reason nobody knows what it would write. */
  lookAgain(): void {
    this.#isShort = true;
  }

  async #look(): Promise<void> {
    const { retry } = this.#vmm;
    const vms = this.#vms();
    if (retry === undefined || vms.length === 0 || this.#isBusy) return;
    const wasShort = this.#isShort;
    const { availableBytes, markBytes } = this.#room();
    this.#isShort = availableBytes < markBytes;
    if (!wasShort && !this.#isShort) return;
    this.#isBusy = true;
    const asked = vms.map(async (connect) => {
      const signal = AbortSignal.timeout(askMsMax);
      await controlled({ connect }, signal, (control) => retry(control, signal));
    });
    const answers = await Promise.allSettled(asked);
    // One that has ended or is hostile is no other's matter; one that is only slow is asked again.
    if (answers.some(({ status }) => status === 'rejected')) this.lookAgain();
    this.#isBusy = false;
  }
}
