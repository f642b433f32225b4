/**
 * The ports between the parts of the egress process: connections (who decides and dials), policy (what is allowed),
 * interception (what happens to readable traffic), secrets (what is put in and taken out). Types, and one error.
 *
 * What a newcomer would get wrong: a connection's sandbox is what the launcher said when it handed the control
 * connection over, its host is the name whose virtual address was dialled. Nothing the program sends can change either.
 */
import type { Duplex } from 'node:stream';
import type { Socket } from 'node:net';
import { Failure } from '@squash/base/failure';
import type { Listener } from '@squash/contract/egress-protocol';
import type { Destination, Policy, Question, Verdict } from '@squash/policy/policy';
import type { TrafficSecrets } from './secrets/traffic-secrets.ts';

export type DecisionVerdict = 'allowed' | 'denied' | 'blocked';

/** What is recorded of one connection, request or query; the row's number, time and sandbox are added by the log. */
export interface Decision {
  readonly kind: 'dns' | 'connection' | 'request';
  readonly host: string | undefined;
  readonly address: string | undefined;
  readonly port: number | undefined;
  readonly method?: string;
  /** Query left out: it may carry secrets. */
  readonly path?: string;
  readonly verdict: DecisionVerdict;
  /** The rule that decided, or a code such as `private_address`, `sni_mismatch`, `placeholder_elsewhere`. */
  readonly rule: string;
  readonly bytesUp?: number;
  readonly bytesDown?: number;
  readonly durationMs?: number;
  /** Names of secrets that were put into the request; never a value. */
  readonly secrets?: readonly string[];
}

/** A request that waits for a person. */
export interface RequestQuestion {
  readonly question: Question;
  readonly rule: string;
  readonly method: string;
  readonly path: string;
}

/** What the interceptor is told of the connection it takes over. */
export interface InterceptedConnection {
  readonly sandbox: string;
  readonly destination: Destination;
  /** What the first bytes are: TLS is terminated with a certificate of the installation's CA, HTTP is read as it is. */
  readonly protocol: 'tls' | 'http';
  /** No TLS is read (`SQUASH_PROXY_HTTPS=0`), so that values go out in plain HTTP or not at all. */
  readonly isTlsUnread: boolean;
  /**
   * SNI of the ClientHello (lower case), already found equal to the destination's host where that has a name. With a
   * `refusal` it is whatever the program said, so that it can read the answer.
   */
  readonly serverName: string | undefined;
  /** Set where the whole connection is refused: every request gets the readable 403 that names the rule. */
  readonly refusal: Verdict | undefined;
  /** Stays the sandbox's present policy when that changes: ask it for every request. */
  readonly policy: Policy;
  readonly secrets: SandboxSecrets;
  /** Asks a person, who may let it wait. Undefined: allowed, or the signal aborted. */
  readonly ask: (asked: RequestQuestion, signal: AbortSignal) => Promise<Verdict | undefined>;
  /** Resolves, checks and dials the destination; the socket is connected. @throws DialRefused with a Verdict, or an Error with `code`, the signal's reason */
  readonly dial: (signal: AbortSignal) => Promise<Socket>;
  readonly record: (decision: Decision) => void;
  /**
   * Takes what judges the requests under way again; it is called when policy or secrets have changed, and says whether it
   * ended one.
   */
  readonly onReview: (review: () => boolean) => void;
}

/** E4's front: takes a raw byte stream from a program and serves it until it ends. Resolves when both ends are closed. */
export interface Interceptor {
  intercept(stream: Duplex, connection: InterceptedConnection): Promise<void>;
}

/** What `dial` throws where the policy, not the network, says no. */
export class DialRefused extends Error {
  readonly verdict: Verdict;

  constructor(verdict: Verdict) {
    super(`refused by ${verdict.rule}`);
    this.name = 'DialRefused';
    this.verdict = verdict;
  }
}

/** A proxy of the operator's could not be reached, or did not connect. */
export class ProxyFailed extends Failure {
  /** @param why the system's code, the status of an HTTP proxy, or `socks_` and the number that SOCKS5 has for it */
  constructor(upstream: string, why: string, options?: { readonly cause?: unknown }) {
    super(`via ${upstream}: ${why}`, `the proxy "${upstream}" makes no connection: ${why}`, options);
    this.name = 'ProxyFailed';
  }
}

/** The operator's part of every policy. */
export interface PolicyFrame {
  /** A policy's source that no sandbox can exceed; null: none. */
  readonly ceiling: unknown;
  /** Private or reserved ranges that may be reached where a policy allows the name or the address. */
  readonly allowCidrs: readonly string[];
  /** The sandbox may have what its policy names of the host's loopback. */
  readonly reachesHost?: boolean;
  /** Rules that answer questions of every policy. */
  readonly approved: unknown;
  /** Where the daemon listens. */
  readonly listeners: readonly Listener[];
}

/** E3's front. `source` is what the daemon sent. @throws Error with a sentence for the operator */
export type CompilePolicy = (source: unknown, frame: PolicyFrame) => Policy;

/** Secrets of one sandbox alone. */
export interface OwnNames {
  readonly sandbox: string;
  readonly names: readonly string[];
}

/** E4's front to `secrets.json`. What it hands out stays true when the file changes. */
export interface SecretStore extends AsyncDisposable {
  /**
   * The same object for the same words may be handed out more than once.
   * @param own those of one sandbox alone: they take the place of others with their names. @throws where they can't be read
   */
  subset(names: 'all' | readonly string[], own?: OwnNames): SandboxSecrets;
  /** What an operator should know, as sentences: a bad edit, a name nobody knows. Never a value. */
  readonly warnings: readonly string[];
  /** Called after each change that has taken effect: connections are then judged again. */
  onChange(listener: () => void): void;
}

/** The subset of the secrets that one sandbox may use. */
export interface SandboxSecrets {
  /** Any secret at all? Where not, plain HTTP to an allowed host is tunnelled unread. */
  readonly isEmpty: boolean;
  /** Has a secret whose allowed hosts contain this destination: its TLS must be intercepted. */
  concerns(destination: Destination): boolean;
  /** The secrets themselves, as they stand now. Asked for anew with each request: an edit holds at once. */
  readonly traffic: TrafficSecrets;
}
