/** Places for connections: in all, of one address, and for those who have not logged in, of whom the oldest does not make room. */
import { sshLimits } from '@squash/contract/ssh-limits';

interface Place {
  /** He has logged in. */
  welcome(): void;
  /** Idempotent. */
  leave(): void;
}

export class Guests {
  readonly #byAddress = new Map<string, number>();
  #all = 0;
  #strangers = 0;

  /** Undefined where there is none. */
  take(address: string): Place | undefined {
    const same = this.#byAddress.get(address) ?? 0;
    const isFull = this.#all >= sshLimits.connectionsMax || this.#strangers >= sshLimits.strangersMax;
    if (isFull || same >= sshLimits.connectionsOfOneMax) return undefined;
    this.#all += 1;
    this.#strangers += 1;
    this.#byAddress.set(address, same + 1);
    let isStranger = true;
    let isHere = true;
    const welcome = (): void => {
      if (isStranger) this.#strangers -= 1;
      isStranger = false;
    };
    const leave = (): void => {
      if (!isHere) return;
      isHere = false;
      welcome();
      this.#all -= 1;
      const left = (this.#byAddress.get(address) ?? 1) - 1;
      if (left === 0) this.#byAddress.delete(address);
      else this.#byAddress.set(address, left);
    };
    return { welcome, leave };
  }
}
