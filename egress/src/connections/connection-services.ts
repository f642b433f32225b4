/**
 * What connections and relays need of the rest of the process. Types only: the composition makes them.
 */
import type { Socket } from 'node:net';
import type { Log } from '@squash/base/log';
import type { Address } from '@squash/policy/address/address';
import type { Callers } from './callers.ts';
import type { LaunchChannel } from '../channel/launch-channel.ts';
import type { Questions } from '../approvals/questions.ts';
import type { DecisionLog } from '../decisions/decision-log.ts';
import type { DnsServer } from '../dns/dns-server.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Destination, Policy, Verdict } from '@squash/policy/policy';
import type { Decision } from '../ports.ts';
import type { FairTurns } from '@squash/base/fair-turns';
import type { Sandbox } from './sandbox.ts';
import type { TunnelRows } from './tunnel-rows.ts';

export interface ConnectionCounters {
  /** Since the process started. */
  total: number;
  refused: number;
  /** Now. */
  intercepted: number;
}

/** What is known of a connection that is to be read, or refused in words. */
export interface Readable {
  readonly sandbox: Sandbox;
  /** Its present one, with what has been approved for this connection. */
  readonly policy: Policy;
  readonly destination: Destination;
  readonly protocol: 'tls' | 'http';
  readonly serverName: string | undefined;
  readonly refusal: Verdict | undefined;
  readonly record: (decision: Decision) => void;
  /** Told before anything is sent there, so that a change of the rules ends what they no longer allow. Undefined: a proxy knows. */
  readonly onDialled: (address: Address | undefined) => void;
  /** The canonical text of an address that may not be dialled, where there is no other. */
  readonly onRefused: (address: string) => void;
  /** Told what judges the requests under way again. */
  readonly onReview: (review: () => boolean) => void;
}

export interface ConnectionServices {
  readonly launcher: LaunchChannel;
  readonly resolver: Resolver;
  readonly turns: FairTurns;
  readonly decisions: DecisionLog;
  readonly questions: Questions;
  readonly tunnels: TunnelRows;
  readonly callers: Callers;
  readonly dns: DnsServer;
  readonly counters: ConnectionCounters;
  readonly log: Log;
  readonly monoMs: () => number;
  readonly wallMs: () => number;
  readonly interceptsTls: () => boolean;
  /** Resolves when both ends are closed. */
  readonly intercept: (socket: Socket, readable: Readable) => Promise<void>;
  readonly serveDns: (socket: Socket, sandbox: Sandbox) => Promise<void>;
}

/** The relay as one of its connections sees it. */
export interface RelaySide {
  readonly instance: number;
  readonly sandbox: Sandbox;
  hold(connection: number, offset: number): void;
  release(connection: number): void;
  reset(connection: number): void;
}

export type ConnectionState =
  /** Its turn to be judged has not come. */
  | 'waiting'
  /** A person is asked. */
  | 'asking'
  /** Its first bytes are awaited. */
  | 'looking'
  | 'dialling'
  | 'tunnelled'
  /** Its bytes come here: interception, or DNS. */
  | 'streamed'
  /** Reset from here; the relay's last word is awaited. */
  | 'ending'
  | 'ended';

/** What the relay says at the end. */
export interface ConnectionEnd {
  readonly bytesUp: number;
  readonly bytesDown: number;
  /** Both sides have said all, and nobody broke off. */
  readonly isWhole: boolean;
}
