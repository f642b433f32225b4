/**
 * The addresses of the host's own interfaces. A public one among them is no public place: what is dialled from here
 * gets there without ever leaving the machine, past whatever guards its services from outside.
 *
 * What a newcomer would get wrong: those of the loopback device beyond 127.0.0.0/8 and ::1 do not count; they are how
 * services are put there that are to be reached.
 */
import { networkInterfaces } from 'node:os';
import { formatAddress, parseAddress } from '@squash/policy/address/address';

/** Addresses come and go with networks; asking takes some 50 µs. */
const lookAgainMs = 2_000;

let known: ReadonlySet<string> = new Set();
let lookedMs = Number.NEGATIVE_INFINITY;

/** @param text canonical, as `formatAddress` gives it */
export function isOwnAddress(text: string): boolean {
  const nowMs = performance.now();
  if (nowMs - lookedMs >= lookAgainMs) {
    lookedMs = nowMs;
    known = look();
  }
  return known.has(text);
}

function look(): ReadonlySet<string> {
  const found = new Set<string>();
  for (const each of Object.values(networkInterfaces()).flat()) {
    const address = each === undefined || each.internal ? undefined : parseAddress(each.address);
    if (address !== undefined) found.add(formatAddress(address));
  }
  return found;
}
