/** What sandboxes may reach. The rules are a sandbox's own; `SandboxNetwork` puts them in force. */
import type { SandboxId } from '@squash/contract/ids';
import type { PolicySource } from '@squash/contract/policy';
import type { NetworkRules, SandboxNetwork } from '../sandbox/network.ts';
import type { Residents } from './residents.ts';

export interface Network {
  /** What a sandbox may reach, and whether that is in force by now. @throws sandbox_not_found */
  rules(id: SandboxId): NetworkRules & { readonly isInForce: boolean };
  /** Resolves when it is in force, or known not to be. @throws sandbox_not_found */
  setPolicy(id: SandboxId, policy: PolicySource): Promise<void>;
}

export class LocalNetwork implements Network {
  readonly #network: SandboxNetwork;
  readonly #residents: Residents;

  constructor(network: SandboxNetwork, residents: Residents) {
    this.#network = network;
    this.#residents = residents;
  }

  rules(id: SandboxId): NetworkRules & { readonly isInForce: boolean } {
    return { ...this.#residents.find(id).rules, isInForce: this.#network.isInForce(id) };
  }

  async setPolicy(id: SandboxId, policy: PolicySource): Promise<void> {
    await this.#residents.find(id).setPolicy(policy);
  }

  /** From now on the network may ask for the rules of every sandbox that is not on its way out. */
  begin(): void {
    this.#network.begin(() => {
      const all = this.#residents.all().filter((sandbox) => sandbox.state.phase !== 'destroying');
      return new Map(all.map((sandbox) => [sandbox.row.id, sandbox.rules]));
    });
  }
}
