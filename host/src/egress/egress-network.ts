/**
 * The network of all sandboxes: their rules on the way to the egress process, in an order that holds.
 *
 * Every message carries what holds when its turn comes, never what was asked for: two changes of one sandbox that overtake
 * each other end in the same place. A full sync runs alone, so that an older one can not undo a newer change.
 */
import { errorText } from '@squash/base/bug';
import type { Log } from '@squash/base/log';
import { pause } from '@squash/base/pause';
import type { Problem } from '@squash/contract/daemon';
import type { EgressSandboxRules, Listener } from '@squash/contract/egress-protocol';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { PolicyRuleSource, PolicySource } from '@squash/contract/policy';
import type { Preset } from '@squash/contract/presets';
import type { OwnSecrets, SecretSubset } from '@squash/contract/secrets';
import type { Upstreams } from '@squash/contract/upstreams';
import type { LayerDigest } from '@squash/contract/ids';
import { SharedLock } from '../sandbox/mailbox.ts';
import type { CallerNetwork, NetworkRules, SandboxNetwork, Traffic } from '../sandbox/network.ts';
import type { EgressClient } from './egress-client.ts';
import { QuestionsFollower } from './questions-follower.ts';
import type { SecretsFileKeeper } from './secrets-keeper.ts';
import { ownSecretHosts } from './own-secret-hosts.ts';
import type { OwnSecretsKeeper } from './own-secrets-keeper.ts';
import { EgressSupervisor, type SupervisorOptions } from './supervisor.ts';
import { hostTrust, trustVariables } from './trust-environment.ts';
import type { TrustLayers } from './trust-layers.ts';

export interface EgressNetworkOptions extends Omit<SupervisorOptions, 'onUp'> {
  readonly ceiling: PolicySource | undefined;
  readonly allowRanges: readonly string[];
  readonly hostPorts: 'off' | 'boxes';
  /** The operator's own. */
  readonly presets: readonly Preset[];
  readonly upstreams: Upstreams;
  readonly upstreamProblems: readonly Problem[];
  /** Where the daemon is going to listen; with port 0 it is not known yet. */
  readonly listen: { readonly host: string; readonly port: number | undefined };
  /** Undefined: no TLS is read (`SQUASH_PROXY_HTTPS=0`). */
  readonly trust: TrustLayers | undefined;
  readonly secrets: SecretsFileKeeper;
  readonly ownSecrets: OwnSecretsKeeper;
  readonly dataDir: string;
  readonly log: Log;
}

export class EgressNetwork implements SandboxNetwork, AsyncDisposable {
  readonly #options: EgressNetworkOptions;
  readonly #lock = new SharedLock();
  /** By sandbox: a message on its way, and whether what it carries is old by now. */
  readonly #sending = new Map<SandboxId, { done: Promise<void>; isStale: boolean }>();
  /** Whose rules the egress process did not take, and why. */
  readonly #failed = new Map<SandboxId, string>();
  #rulesOf: () => ReadonlyMap<SandboxId, NetworkRules> = () => new Map();
  #approvedOf: () => readonly PolicyRuleSource[] = () => [];
  readonly questions: QuestionsFollower;
  readonly #stopping = new AbortController();
  #isApplyingAgain = false;
  #isSyncing = false;
  #supervisor: EgressSupervisor | undefined;
  #listeners: readonly Listener[];

  constructor(options: EgressNetworkOptions) {
    this.#options = options;
    this.questions = new QuestionsFollower(options.client, options.log);
    const { host, port } = options.listen;
    this.#listeners = port === undefined || port === 0 ? [] : [{ address: host, port }];
  }

  /** Where the daemon listens in the end: no sandbox reaches that. */
  async listensAt(listen: { readonly host: string; readonly port: number } | null): Promise<void> {
    const now = listen === null ? [] : [{ address: listen.host, port: listen.port }];
    if (JSON.stringify(now) === JSON.stringify(this.#listeners)) return;
    this.#listeners = now;
    await this.#syncNow('egress.listeners');
  }

  applyApproved(): Promise<void> {
    return this.#syncNow('egress.approved');
  }

  async #syncNow(what: string): Promise<void> {
    // The sync that it waits for says so.
    if (this.holdsAll) return;
    // Down: the sync of its next start says so.
    if ((await this.#supervisor?.up()) !== true) return;
    try {
      await this.#sync();
    } catch (error) {
      // It is ending: whoever takes its place is told.
      this.#options.log.error(what, { error: errorText(error) });
    }
  }

  get client(): EgressClient {
    return this.#options.client;
  }

  get callers(): CallerNetwork {
    return this.client;
  }

  begin(
    rulesOf: () => ReadonlyMap<SandboxId, NetworkRules>,
    approvedOf: () => readonly PolicyRuleSource[],
  ): void {
    this.#rulesOf = rulesOf;
    this.#approvedOf = approvedOf;
    this.#options.ownSecrets.sweep(rulesOf());
    this.#supervisor ??= new EgressSupervisor({ ...this.#options, onUp: () => this.#sync() });
    const supervisor = this.#supervisor;
    this.client.started = async () => supervisor.isComing && (await supervisor.up());
  }

  /** A connection waits for it. */
  want(): void {
    this.#supervisor?.want();
  }

  get holdsAll(): boolean {
    return this.#supervisor?.isComing === true && !this.#isSyncing;
  }

  async apply(id: SandboxId): Promise<void> {
    const present = this.#sending.get(id);
    if (present !== undefined) {
      present.isStale = true;
      return present.done;
    }
    const sending = { done: Promise.resolve(), isStale: false };
    this.#sending.set(id, sending);
    sending.done = this.#send(id, sending);
    return sending.done;
  }

  async #send(id: SandboxId, sending: { isStale: boolean }): Promise<void> {
    try {
      do {
        sending.isStale = false;
        await this.#sendOnce(id);
      } while (sending.isStale);
    } finally {
      this.#sending.delete(id);
    }
  }

  async #sendOnce(id: SandboxId): Promise<void> {
    // Down: the sync of its next start carries these rules.
    if ((await this.#supervisor?.up()) !== true) return;
    await this.#lock.shared(async () => {
      const rules = this.#rulesOf().get(id);
      if (rules === undefined) {
        this.#failed.delete(id);
        return;
      }
      try {
        await this.client.put(id, wireOf(rules, this.#options.hostPorts));
        this.#failed.delete(id);
      } catch (error) {
        // Said once: it is tried again and again, and some are refused for good.
        if (!this.#failed.has(id)) {
          this.#options.log.error('egress.apply', { sandbox: id, error: errorText(error) });
        }
        this.#failed.set(id, errorText(error));
        this.#applyAgain();
      }
    });
  }

  async forget(id: SandboxId): Promise<void> {
    this.#failed.delete(id);
    this.#options.ownSecrets.forget(id);
    // A next start does not know it anyway, so nobody waits for one; one that is just being told everything may have been told of it.
    if (this.#supervisor?.isUp !== true && !this.#isSyncing) return;
    // It may overtake a message that is on its way, which would make the sandbox known again.
    await this.#sending.get(id)?.done;
    this.#failed.delete(id);
    await this.#lock.shared(async () => {
      try {
        await this.client.forget(id);
      } catch (error) {
        // The next sync does not name it: then it is forgotten.
        this.#options.log.warn('egress.forget', { sandbox: id, error: errorText(error) });
      }
    });
  }

  async traffic(ids: readonly SandboxId[]): Promise<ReadonlyMap<SandboxId, Traffic>> {
    // Of one that does not answer nothing is known, and it is told in health.
    const rows = await this.client.traffic(ids).catch(() => []);
    return new Map(
      rows.map(({ id, bytes_down: inBytes, bytes_up: outBytes, connections, open }) => [
        id,
        { inBytes, outBytes, connections, open },
      ]),
    );
  }

  pending(id: SandboxId): string | undefined {
    if (this.#supervisor?.isUp === true) return this.#failed.get(id);
    // It judges by no others.
    if (this.#supervisor?.isComing === true) return undefined;
    return 'the egress process does not answer; it holds as soon as that is back';
  }

  ownSecretHosts(id: SandboxId): Readonly<Record<string, readonly string[]>> {
    return ownSecretHosts(this.#options.dataDir, id);
  }

  problems(): readonly Problem[] {
    const { isUp = false, isComing = false, isUnknown = false } = this.#supervisor ?? {};
    if (!isUp && !isComing && !isUnknown) {
      const message =
        'the egress process does not answer: sandboxes reach nothing until it is back; log/egress.log says why';
      return [{ code: 'egress_unavailable', message }];
    }
    return [...this.#pending(), ...this.#options.upstreamProblems];
  }

  #pending(): readonly Problem[] {
    const [first] = this.#failed;
    if (first === undefined) return [];
    const [id, why] = first;
    const others = this.#failed.size - 1;
    const more = others === 0 ? '' : `, and those of ${others} more`;
    const message = `the rules of sandbox "${id}" are not in force, so it reaches nothing${more}: ${why}`;
    return [{ code: 'policy_pending', message }];
  }

  keepSecrets(id: SandboxId, secrets: OwnSecrets): Promise<void> {
    return this.#options.ownSecrets.keep(id, secrets);
  }

  environment(
    id: SandboxId,
    { secrets, ownSecrets }: NetworkRules,
    isOnHost: boolean,
  ): Readonly<Record<string, string>> {
    const own = ownSecrets.length === 0 ? {} : this.#options.ownSecrets.placeholders(id);
    const given = { ...without(this.#options.secrets.placeholders(secrets), ownSecrets), ...own };
    // Who has placeholders is going to send them.
    if (Object.keys(given).length > 0) this.#supervisor?.want();
    else this.#supervisor?.wantBehindCommand();
    return { ...(this.#options.trust === undefined ? {} : trustVariables(isOnHost)), ...given };
  }

  get hostTrust(): SandboxNetwork['hostTrust'] {
    return this.#options.trust === undefined ? [] : hostTrust;
  }

  async trustLayer(lowers: readonly LayerDigest[]): Promise<LayerDigest | undefined> {
    return await this.#options.trust?.ensure(lowers);
  }

  /** After it was disposed of, see `EgressSupervisor`. */
  async endOwn(): Promise<void> {
    await this.#supervisor?.endOwn();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#supervisor?.[Symbol.asyncDispose]();
    await this.questions[Symbol.asyncDispose]();
    this.client[Symbol.dispose]();
  }

  /** Until nothing is left that was not taken. One round at a time: rules that are refused for good stay few. */
  #applyAgain(): void {
    if (this.#isApplyingAgain) return;
    this.#isApplyingAgain = true;
    void (async () => {
      while (this.#failed.size > 0 && !this.#stopping.signal.aborted) {
        await pause(limits.egressApplyAgainMs, this.#stopping.signal);
        for (const id of this.#failed.keys()) await this.apply(id);
      }
      this.#isApplyingAgain = false;
    })();
  }

  #tellingAll(): Disposable {
    this.#isSyncing = true;
    return { [Symbol.dispose]: () => void (this.#isSyncing = false) };
  }

  #sync(): Promise<void> {
    return this.#lock.exclusive(async () => {
      using _told = this.#tellingAll();
      const { ceiling, allowRanges, presets, upstreams, trust } = this.#options;
      const { problems } = await this.client.sync({
        ceiling: ceiling === undefined ? null : toJson(ceiling),
        allowCidrs: [...allowRanges],
        approved: toJson(this.#approvedOf()),
        listeners: [...this.#listeners],
        presets: presets.map((preset) => ({ ...preset, hosts: [...preset.hosts] })),
        upstreams,
        interceptsTls: trust !== undefined,
        sandboxes: [...this.#rulesOf()].map(([id, rules]) => ({
          id,
          ...wireOf(rules, this.#options.hostPorts),
        })),
      });
      this.#failed.clear();
      for (const { id, message } of problems) {
        this.#failed.set(id as SandboxId, message);
        this.#options.log.error('egress.rules', { sandbox: id, problem: message });
      }
      // A file may be mended meanwhile: nobody says so.
      this.#applyAgain();
    });
  }
}

type Json = ReturnType<typeof JSON.parse>;

/** A policy is JSON by its shape; the protocol's type is that of any JSON. */
function toJson(policy: PolicySource | readonly PolicyRuleSource[]): Json {
  return policy;
}

function wireOf(
  { policy, secrets, ownSecrets, upstream, isBox }: NetworkRules,
  hostPorts: EgressNetworkOptions['hostPorts'],
): EgressSandboxRules {
  return {
    policy: toJson(policy),
    secrets: subset(secrets),
    ownSecrets: [...ownSecrets],
    upstream,
    ...(isBox && hostPorts === 'boxes' && { reachesHost: true }),
  };
}

/** Those of the same name are the sandbox's own, even where its file can't be read: then it has neither. */
function without(all: Readonly<Record<string, string>>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(all).filter(([name]) => !names.includes(name)));
}

function subset(secrets: SecretSubset): 'all' | string[] {
  return secrets === 'all' ? secrets : [...secrets];
}
