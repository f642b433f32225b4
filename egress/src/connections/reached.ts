/** Which addresses a connection has led to, as far as this process knows: for the log, and to be judged again with new rules. */
import { type Address, formatAddress } from '@squash/policy/address/address';

export class Reached {
  /** Canonical: of the server, the last that was dialled for a name, or that may not be. */
  last: string | undefined;
  readonly #all = new Map<string, Address>();

  /** Undefined: a proxy has looked the name up, and keeps to itself where it leads. */
  readonly onDialled = (address: Address | undefined): void => {
    if (address === undefined) return;
    this.last = formatAddress(address);
    this.#all.set(this.last, address);
  };

  readonly onRefused = (address: string): void => {
    this.last = address;
  };

  get all(): readonly Address[] {
    return [...this.#all.values()];
  }
}
