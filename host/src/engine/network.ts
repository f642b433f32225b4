/** What sandboxes may reach. The rules are a sandbox's own; `SandboxNetwork` puts them in force. */
import type { SandboxId } from '@squash/contract/ids';
import type { PolicyRuleSource, PolicySource } from '@squash/contract/policy';
import type { NetworkRules, SandboxNetwork } from '../sandbox/network.ts';
import type { Residents } from './residents.ts';

export interface Network {
  /** What a sandbox may reach, and why that is not in force yet. @throws sandbox_not_found */
  rules(id: SandboxId): NetworkRules & { readonly pending: string | undefined };
  /** Who may have which of its own secrets. @throws sandbox_not_found */
  ownSecretHosts(id: SandboxId): Readonly<Record<string, readonly string[]>>;
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

  rules(id: SandboxId): NetworkRules & { readonly pending: string | undefined } {
    return { ...this.#residents.find(id).rules, pending: this.#network.pending(id) };
  }

  ownSecretHosts(id: SandboxId): Readonly<Record<string, readonly string[]>> {
    const { ownSecrets } = this.#residents.find(id).rules;
    return ownSecrets.length === 0 ? {} : this.#network.ownSecretHosts(id);
  }

  async setPolicy(id: SandboxId, policy: PolicySource): Promise<void> {
    await this.#residents.find(id).setPolicy(policy);
  }

  /** From now on the network may ask for the rules of every sandbox that is not on its way out. */
  begin(approvedOf: () => readonly PolicyRuleSource[]): void {
    const rulesOf = () => {
      const all = this.#residents.all().filter((sandbox) => sandbox.state.phase !== 'destroying');
      return new Map(all.map((sandbox) => [sandbox.row.id, sandbox.rules]));
    };
    this.#network.begin(rulesOf, approvedOf);
  }
}
