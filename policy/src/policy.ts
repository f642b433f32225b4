/**
 * What a compiled policy answers, and what it is asked. Pure: whoever holds one may ask it at any time and as often as
 * it likes; nothing is looked up, resolved or remembered.
 */

import type { Address } from './address/address.ts';

/** Where a program connected to, after the virtual address was translated back. */
export interface Destination {
  /** Lower case, A-labels, no trailing dot. `undefined`: an address literal was dialled. */
  readonly host: string | undefined;
  /** The literal address (canonical text); `undefined` where `host` is set. */
  readonly address: string | undefined;
  readonly port: number;
}

export interface RequestAsked {
  readonly method: string;
  readonly path: string;
  /** The protocol it changes to, lower case. What comes behind it is no request, so a rule has to allow that. */
  readonly upgrade?: string | undefined;
}

/** One answer of a policy. `rule` is what a person can find again in the policy: `allow[3] *.npmjs.org:443`. */
export interface Verdict {
  readonly isAllowed: boolean;
  readonly rule: string;
  /** The address that decided, where it was one that a name leads to. */
  readonly address?: string;
  /** Not allowed unless a person says so. Of a name: nothing is looked up, and whoever connects to it is told to wait. */
  readonly isAsked?: true;
  /** What that person is asked. */
  readonly question?: Question;
}

/** What a person is asked, and what an answer is about. */
export interface Question extends Destination {
  /** Where the rule names methods: the one. */
  readonly method: string | undefined;
  /** Where the rule names paths: the one of them that holds the request's. */
  readonly path: string | undefined;
  /** What the rule lets a request change to. */
  readonly upgrades: readonly string[] | undefined;
  readonly waitMs: number;
}

/** Equal for questions that one answer settles. */
export function questionKey({ host, address, port, method, path }: Question): string {
  return JSON.stringify([host, address, port, method, path]);
}

/** The compiled policy of one sandbox: its own rules, the daemon-wide ceiling and the presets, ready to be asked. Pure. */
export interface Policy {
  /** May any port of this name be reached? Decides whether a query for it may leave the host. */
  decideName(host: string): Verdict;
  /** May this destination be connected to, as far as that can be told without reading the traffic? */
  decideConnection(destination: Destination): Verdict;
  /** Does a rule name this very host, and no wildcard? `port` undefined: any port of it. */
  namesHost(host: string, port: number | undefined): boolean;
  /** Is this resolved (or literal) address one that may be dialled for the destination? Private, reserved … unless named. */
  decideAddress(destination: Destination, address: string): Verdict;
  /** Must requests to this destination be read because an HTTP rule (method, path) concerns it? */
  needsRequests(destination: Destination): boolean;
  /** For HTTP(S) that is read. `path` is percent-decoded once and normalised by the caller. */
  decideRequest(destination: Destination, request: RequestAsked): Verdict;
  /** True where every public host is allowed and no rule restricts: TLS names then need no check against the address. */
  readonly isOpen: boolean;
  /** `refuse` (a refused name gets a virtual address, so the refusal is explained at connection time) or `nxdomain`. */
  readonly refusedNames: 'refuse' | 'nxdomain';
}

/** The machine that dials, as far as it changes what may be dialled. Addresses are asked for in the form that is reached. */
export interface DiallingHost {
  /** One of its interfaces' addresses, private or public. Loopback is a kind of its own. */
  isOwn(address: Address): boolean;
  /** Does the daemon listen there? */
  isDaemon(address: Address, port: number): boolean;
}
