/**
 * The port between sandboxes and what lets them reach the world. The engine keeps the rules (a sandbox's row holds
 * them); the network puts them in force and says what commands must see for it.
 *
 * Where the network is down sandboxes reach nothing: so no method here fails an operation on a sandbox for that.
 */
import type { Duplex } from 'node:stream';
import type { LayerDigest, SandboxId } from '@squash/contract/ids';
import type { Problem } from '@squash/contract/daemon';
import type { PolicyRuleSource, PolicySource } from '@squash/contract/policy';
import type { OwnSecrets, SecretSubset } from '@squash/contract/secrets';
import type { Questions } from './questions.ts';

export interface NetworkRules {
  readonly policy: PolicySource;
  readonly secrets: SecretSubset;
  /** Names of secrets of its own. */
  readonly ownSecrets: readonly string[];
  /** Name of a proxy; null: the default one, where there is one. */
  readonly upstream: string | null;
  /** Its root is the host's file system. */
  readonly isBox: boolean;
}

/** Of connections that ended, since the egress process began. */
export interface Traffic {
  readonly inBytes: number;
  readonly outBytes: number;
  readonly connections: number;
  readonly open: number;
}

export type OfferEvent =
  | { readonly type: 'offered' }
  /** A program waits on it. */
  | { readonly type: 'connection'; readonly connection: string }
  /** It waits no more, or broke off. */
  | { readonly type: 'broken'; readonly connection: string };

export interface CallerNetwork {
  /** While it is followed the port is offered. @throws port_offered, offer_limit, sandbox_not_ready, egress_unavailable */
  followOffer(
    offer: { readonly sandbox: SandboxId; readonly port: number },
    signal: AbortSignal,
  ): AsyncIterable<OfferEvent>;
  /** The bytes of a connection; half-close is kept. @throws connection_gone, egress_unavailable */
  takeConnection(id: string): Promise<Duplex>;
  /** Its program gets a reset. @throws egress_unavailable */
  refuseConnection(id: string): Promise<void>;
}

export interface SandboxNetwork {
  /**
   * From now on the rules of all sandboxes can be asked for: the network asks again whenever it has to tell everything
   * anew, so the newest are what counts.
   */
  begin(
    rulesOf: () => ReadonlyMap<SandboxId, NetworkRules>,
    approvedOf: () => readonly PolicyRuleSource[],
  ): void;
  /** What is approved for all has changed. Resolves when that is in force, or when it can't be now. */
  applyApproved(): Promise<void>;
  /** What waits for a person. */
  readonly questions: Questions;
  /** Ports that callers offer. */
  readonly callers: CallerNetwork;
  /** Stores a new sandbox's own secrets, until it is forgotten. Before its rules are applied. @throws disk_full */
  keepSecrets(id: SandboxId, secrets: OwnSecrets): Promise<void>;
  /** Nothing of any sandbox is heard yet: its connections wait, and its rules, as they are then, are told before. */
  readonly holdsAll: boolean;
  /** Puts the present rules of one sandbox in force. Resolves when they are, or when they can't be now. */
  apply(id: SandboxId): Promise<void>;
  /** Ends what is left of a sandbox that is gone. */
  forget(id: SandboxId): Promise<void>;
  /** Why a sandbox's rules are not in force, in words; undefined where they are. */
  pending(id: SandboxId): string | undefined;
  /** Who may have which of a sandbox's own secrets; empty where their file can't be used. */
  ownSecretHosts(id: SandboxId): Readonly<Record<string, readonly string[]>>;
  /** What sandboxes sent and received; empty where nobody knows. */
  traffic(ids: readonly SandboxId[]): Promise<ReadonlyMap<SandboxId, Traffic>>;
  /** What keeps rules from being in force. */
  problems(): readonly Problem[];
  /** Variables for a command that is about to begin: placeholders, and where the authority's certificate lies; `hostTrust` where its root is the host's. */
  environment(id: SandboxId, rules: NetworkRules, isOnHost: boolean): Readonly<Record<string, string>>;
  /**
   * The layer that makes a sandbox on these trees (topmost first) trust the authority, to be laid on top of them;
   * undefined where nothing is read. Hold the layer lock until a row names it.
   */
  trustLayer(lowers: readonly LayerDigest[]): Promise<LayerDigest | undefined>;
  /** Where there are no layers: files of the trust layer, by their path in it, and where they are to be seen. */
  readonly hostTrust: readonly { readonly path: string; readonly target: string }[];
}
