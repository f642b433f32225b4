/**
 * Whether the VMs of this daemon run on KVM: as configured, and where that is left to it by a guest that has answered. It is tried once in the
 * life of a daemon and a VM module, when the first VM starts or somebody asks what this host offers.
 */
import { existsSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { AppError } from '@squash/contract/errors';
import type { VmFiles } from './vm-module.ts';
import type { Accelerator } from './vmm.ts';

/** `off`: the configuration has it emulated. `untried`: nobody knows, `trying`: not yet. `isNeeded`: there are no VMs without it. */
export type KvmFinding =
  | { readonly state: 'used' | 'off' | 'untried' | 'trying' }
  | { readonly state: 'fails'; readonly why: string; readonly isNeeded: boolean };

export interface AccelerationOptions {
  readonly wanted: 'auto' | Accelerator;
  /** Of KVM, as the host has it. */
  readonly device: string;
  /** Undefined: a guest runs on KVM. Else why none does. */
  readonly probe: (module: VmFiles, signal: AbortSignal) => Promise<string | undefined>;
}

export class Acceleration implements AsyncDisposable {
  readonly #options: AccelerationOptions;
  readonly #ending = new AbortController();
  #tried: { readonly root: string; readonly why: Promise<string | undefined> } | undefined;

  constructor(options: AccelerationOptions) {
    this.#options = options;
  }

  /** Of a VM that is to be started. @throws vm_unavailable where KVM is asked for and no guest runs on it */
  async of(module: VmFiles): Promise<Accelerator> {
    const { wanted } = this.#options;
    if (wanted === 'tcg') return 'tcg';
    const why = await this.#whyNot(module);
    if (why === undefined) return 'kvm';
    if (wanted === 'auto') return 'tcg';
    throw new AppError(
      'vm_unavailable',
      `SQUASH_VM_ACCEL is "kvm", and no guest runs on KVM here (${why}): mend that, or have virtual machines emulated with "auto"`,
    );
  }

  /** What is known now; where it was not tried that begins, and nobody waits for it. @param use has the module as long as that takes */
  async finding(use: (work: (module: VmFiles) => Promise<void>) => Promise<void>): Promise<KvmFinding> {
    const { wanted, device } = this.#options;
    if (wanted === 'tcg') return { state: 'off' };
    const told = (why: string | undefined): KvmFinding =>
      why === undefined ? { state: 'used' } : { state: 'fails', why, isNeeded: wanted === 'kvm' };
    if (!existsSync(device)) return told(`no ${device}`);
    let found: KvmFinding = { state: 'trying' };
    const tell = async (module: VmFiles): Promise<void> => {
      found = told(await this.#whyNot(module));
    };
    // What has failed is tried again by who asks next; a VM's start tells what it was.
    void use(tell).catch(() => {
      found = { state: 'untried' };
    });
    // What was found before is told by then.
    await setImmediate();
    return found;
  }

  async #whyNot(module: VmFiles): Promise<string | undefined> {
    const { device } = this.#options;
    if (!existsSync(device)) return `no ${device}`;
    if (this.#tried?.root === module.root) return await this.#tried.why;
    const why = this.#options.probe(module, this.#ending.signal);
    const tried = { root: module.root, why };
    this.#tried = tried;
    try {
      return await why;
    } catch (error) {
      if (this.#tried === tried) this.#tried = undefined;
      throw error;
    }
  }

  /** Resolves when no probe is at work. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#tried?.why.catch(() => undefined);
  }
}
