/**
 * The machine that everything is dialled from. An address of its own interfaces, public or not, is no place of the
 * network: what is dialled from here gets there without ever leaving the machine, past whatever guards its services from
 * outside. And where the daemon listens, nobody's sandbox has any business.
 *
 * What a newcomer would get wrong: those of the loopback device beyond 127.0.0.0/8 and ::1 are not guarded; they are how
 * services are put there that are to be reached. For the daemon's listener they count.
 */
import { networkInterfaces } from 'node:os';
import type { Listener } from '@squash/contract/egress-protocol';
import { isApiPort } from '@squash/base/api-ports';
import { type Address, formatAddress, parseAddress } from '@squash/policy/address/address';
import { classifyAddress } from '@squash/policy/address/ranges';
import type { DiallingHost } from '@squash/policy/policy';

/** Addresses come and go with networks; asking takes some 50 µs. */
const lookAgainMs = 2_000;

interface Addresses {
  readonly all: ReadonlySet<string>;
  /** Not on the loopback device. */
  readonly outer: ReadonlySet<string>;
}

let known: Addresses = { all: new Set(), outer: new Set() };
let lookedMs = Number.NEGATIVE_INFINITY;

export function dialledFrom(listeners: readonly Listener[]): DiallingHost {
  const bound = listeners.map(({ address, port }) => {
    const parsed = parseAddress(address);
    // What can't be read is taken for the widest.
    return { text: parsed === undefined ? '::' : formatAddress(parsed), port };
  });
  return {
    isOwn: (address) => own().outer.has(formatAddress(address)),
    isDaemon: (address, port) => {
      // Another daemon's counts as well: the same user may have several.
      if (isLocal(address) && isApiPort(port)) return true;
      const there = bound.filter((each) => each.port === port);
      if (there.length === 0) return false;
      const text = formatAddress(address);
      // The kernel connects an address of zeros to the host itself, whichever the listener has.
      const isAny = (zeros: string): boolean => zeros === '0.0.0.0' || zeros === '::';
      return (
        isAny(text) || there.some((each) => each.text === text || (isAny(each.text) && isLocal(address)))
      );
    },
  };
}

/** Does a connection to it end on this machine? */
export function isLocal(address: Address): boolean {
  return classifyAddress(address).kind === 'loopback' || own().all.has(formatAddress(address));
}

function own(): Addresses {
  const nowMs = performance.now();
  if (nowMs - lookedMs >= lookAgainMs) {
    lookedMs = nowMs;
    known = look();
  }
  return known;
}

function look(): Addresses {
  const all = new Set<string>();
  const outer = new Set<string>();
  for (const each of Object.values(networkInterfaces()).flat()) {
    const address = each === undefined ? undefined : parseAddress(each.address);
    if (each === undefined || address === undefined) continue;
    all.add(formatAddress(address));
    if (!each.internal) outer.add(formatAddress(address));
  }
  return { all, outer };
}
