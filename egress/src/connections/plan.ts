/**
 * The decision about one connection, as a pure function: what is known of it → what happens to it.
 *
 * Asked when it opens, again when its first bytes are there, and again for every open connection when rules change.
 * What a newcomer would get wrong: a tunnel is what is left when nothing needs to be read. Where a policy names hosts,
 * a TLS tunnel is only that host's if the hello says its name and hides no other, and plain HTTP is always read, because
 * behind one address of a content network the `Host` line alone chooses among millions of owners.
 */
import { callerServiceName } from '@squash/contract/destination';
import type { Destination, Policy, Question, Verdict } from '@squash/policy/policy';
import { egressLimits as limits } from '../limits.ts';
import type { SandboxSecrets } from '../ports.ts';
import type { FirstBytes } from './first-bytes.ts';
import type { Tunnel } from './tunnel-rows.ts';

export interface Rules {
  readonly policy: Policy;
  readonly secrets: SandboxSecrets;
  /** False: no certificate of ours is shown to anybody. */
  readonly interceptsTls: boolean;
}

export type Plan =
  /** Nothing of it is looked at before a person has said yes. */
  | { readonly kind: 'ask'; readonly question: Question; readonly verdict: Verdict }
  /** The first bytes are needed. `waits`: what to do while the program says nothing. */
  | { readonly kind: 'look'; readonly waits: 'for_program' | 'for_server' | 'for_either' | 'to_refuse' }
  | { readonly kind: 'tunnel'; readonly verdict: Verdict }
  | { readonly kind: 'intercept'; readonly protocol: 'tls' | 'http'; readonly verdict: Verdict }
  /** Refused: in words where `protocol` can carry them, else by a reset. */
  | { readonly kind: 'refuse'; readonly protocol: 'tls' | 'http' | undefined; readonly verdict: Verdict };

/** On these servers greet; their tunnels need not pass this process. */
const greetingPorts = new Set([21, 22, 25, 110, 143, 587, 2525, 3306, 5900, 6667]);

/** On these no server greets. */
const requestPorts = new Set([80, 443]);

/** How long a refused program may say nothing, before what it says can be answered in words. */
export function refusedMsMax({ port }: Destination): number {
  return requestPorts.has(port) ? limits.refusedHelloMs : limits.refusedFirstBytesMs;
}

export function planOpen(destination: Destination, rules: Rules): Plan {
  const { policy, secrets } = rules;
  const verdict = policy.decideConnection(destination);
  if (verdict.question !== undefined) return { kind: 'ask', question: verdict.question, verdict };
  if (!verdict.isAllowed) return { kind: 'look', waits: 'to_refuse' };
  if (policy.needsRequests(destination)) return { kind: 'look', waits: 'for_program' };
  // One port that one caller offers: there is nobody else behind it whom a name or a secret could be kept from.
  if (destination.host === callerServiceName) return { kind: 'tunnel', verdict };
  const isNamed = destination.host !== undefined && !policy.isOpen;
  if (!isNamed && secrets.isEmpty) return { kind: 'tunnel', verdict };
  return { kind: 'look', waits: greetingPorts.has(destination.port) ? 'for_server' : 'for_either' };
}

export function planFirst(destination: Destination, rules: Rules, first: FirstBytes): Plan {
  const verdict = rules.policy.decideConnection(destination);
  if (!verdict.isAllowed) return refusal(verdict, rules, first);
  switch (first.kind) {
    case 'tls':
      return planTls(destination, rules, { first, verdict });
    case 'http':
      return planHttp(destination, rules, verdict);
    case 'unfinished':
      return refusal(no('first_bytes_unfinished'), rules, first);
    case 'silent':
    case 'other':
      // A method or a path was demanded, and nobody can see one.
      return rules.policy.needsRequests(destination)
        ? refusal(no('not_http'), rules, first)
        : { kind: 'tunnel', verdict };
  }
}

/** By what is known of it now. @param known `refused`: it leads to an address that may not be had */
export function planNow(
  destination: Destination,
  rules: Rules,
  known: { readonly first: FirstBytes | undefined; readonly refused: Verdict | undefined },
): Plan {
  const { first, refused } = known;
  if (refused !== undefined) return refusal(refused, rules, first ?? { kind: 'silent' });
  return first === undefined ? planOpen(destination, rules) : planFirst(destination, rules, first);
}

/** Refused for a reason beside the policy of connections: the address it leads to, or a limit. */
export function planRefusal(verdict: Verdict, rules: Rules, first: FirstBytes): Plan {
  return refusal(verdict, rules, first);
}

/** Would a tunnel that was decided under other rules be one under these? */
export function isStillTunnel({ destination, first, addresses }: Tunnel, rules: Rules): boolean {
  const now = first === undefined ? planOpen(destination, rules) : planFirst(destination, rules, first);
  return (
    now.kind === 'tunnel' &&
    addresses.every((address) => rules.policy.decideAddress(destination, address).isAllowed)
  );
}

function planTls(
  destination: Destination,
  rules: Rules,
  { first, verdict }: { readonly first: Extract<FirstBytes, { kind: 'tls' }>; readonly verdict: Verdict },
): Plan {
  const { policy, secrets, interceptsTls } = rules;
  const needsRequests = policy.needsRequests(destination);
  if (needsRequests && !interceptsTls) return refusal(no('tls_not_intercepted'), rules, first);
  const isRead = needsRequests || (interceptsTls && secrets.concerns(destination));
  const { host } = destination;
  if (host !== undefined && (isRead || !policy.isOpen)) {
    if (first.serverName === undefined) return refusal(no('sni_missing'), rules, first);
    if (first.serverName !== host) return refusal(no('sni_mismatch'), rules, first);
    // Where we end the TLS ourselves, an encrypted hello is encrypted for somebody who never sees it.
    if (first.hasEch && !isRead) return refusal(no('encrypted_client_hello'), rules, first);
  }
  return isRead ? { kind: 'intercept', protocol: 'tls', verdict } : { kind: 'tunnel', verdict };
}

function planHttp(destination: Destination, rules: Rules, verdict: Verdict): Plan {
  const { policy, secrets } = rules;
  const isNamed = destination.host !== undefined && !policy.isOpen;
  const isRead = isNamed || !secrets.isEmpty || policy.needsRequests(destination);
  return isRead ? { kind: 'intercept', protocol: 'http', verdict } : { kind: 'tunnel', verdict };
}

function refusal(verdict: Verdict, rules: Rules, first: FirstBytes): Plan {
  const isReadable = first.kind === 'http' || (first.kind === 'tls' && rules.interceptsTls);
  return { kind: 'refuse', protocol: isReadable ? first.kind : undefined, verdict };
}

function no(rule: string): Verdict {
  return { isAllowed: false, rule };
}
