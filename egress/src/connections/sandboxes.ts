/**
 * Every sandbox and every relay, and what happens to them when the daemon changes the rules.
 *
 * A sandbox is known by its id, a relay by the instance of the sandbox it was started for. Both words come from the
 * launcher and the daemon only.
 */
import type { Socket } from 'node:net';
import type { SandboxId } from '@squash/contract/ids';
import { useOwnPresets } from '@squash/contract/presets';
import { parseUpstream, upstreamOf, type Upstreams } from '@squash/contract/upstreams';
import type { Policy } from '@squash/policy/policy';
import { errorText } from '@squash/base/bug';
import type { ControlLink, RelayHello } from '../channel/relay-listener.ts';
import type { ConnectionName } from '../channel/launch-channel.ts';
import type {
  EgressChanged,
  EgressChanges,
  EgressSandboxRules,
  EgressSync,
  EgressTraffic,
} from '@squash/contract/egress-protocol';
import type { DecisionRows } from '../decisions/decision-rows.ts';
import { type NameRows, VirtualAddresses } from '../dns/virtual-addresses.ts';
import type { CompilePolicy, PolicyFrame, SandboxSecrets, SecretStore } from '../ports.ts';
import type { ConnectionServices } from './connection-services.ts';
import type { Connection } from './connection.ts';
import type { ConnectionState } from './connection-services.ts';
import { RelayLink } from './relay-link.ts';
import { refuseAll, type Reviewable, Sandbox } from './sandbox.ts';
import { isStillTunnel } from './plan.ts';
import type { NamedUpstream } from './upstream-proxy.ts';
import { egressLimits as limits } from '../limits.ts';

export interface SandboxesOptions {
  readonly services: ConnectionServices;
  readonly compilePolicy: CompilePolicy;
  readonly secrets: SecretStore;
  readonly names: NameRows;
  readonly decisionRows: DecisionRows;
}

/** A policy that can't be compiled: a sentence for who wrote it. */
export class PolicyRefused extends Error {}

export class Sandboxes {
  readonly #options: SandboxesOptions;
  readonly #sandboxes = new Map<string, Sandbox>();
  /** By instance. A sandbox with very many connections has several. */
  readonly #relays = new Map<number, Set<RelayLink>>();
  /** Sandboxes the daemon has spoken of. */
  readonly #known = new Set<string>();
  #upstreams: Upstreams = {};
  #frame: PolicyFrame = { ceiling: null, allowCidrs: [], approved: [], listeners: [] };

  constructor(options: SandboxesOptions) {
    this.#options = options;
    options.secrets.onChange(() => {
      for (const sandbox of this.#sandboxes.values()) sandbox.review();
    });
  }

  get counts(): { readonly sandboxes: number; readonly relays: number } {
    const relays = [...this.#relays.values()].reduce((sum, those) => sum + those.size, 0);
    return { sandboxes: this.#known.size, relays };
  }

  /** Has the daemon spoken of it? */
  isKnown(id: string): boolean {
    return this.#known.has(id);
  }

  traffic(ids: readonly SandboxId[]): EgressTraffic {
    return ids.flatMap((id) => {
      const sandbox = this.#sandboxes.get(id);
      if (sandbox === undefined) return [];
      const { connections, bytesUp, bytesDown } = sandbox.traffic;
      const open = sandbox.connections.size + sandbox.adopted.size;
      return [{ id, connections, open, bytes_up: bytesUp, bytes_down: bytesDown }];
    });
  }

  /** How many connections are in each state. */
  states(): ReadonlyMap<ConnectionState, number> {
    const counts = new Map<ConnectionState, number>();
    for (const sandbox of this.#sandboxes.values()) {
      for (const connection of sandbox.connections) {
        const { state } = connection as Connection;
        counts.set(state, (counts.get(state) ?? 0) + 1);
      }
    }
    return counts;
  }

  /** The daemon's whole truth. @returns the sandboxes whose policy does not compile; everything is refused to them */
  sync(sync: EgressSync): EgressChanged['problems'] {
    const { ceiling, allowCidrs, approved = [], listeners = [], presets = [], upstreams = {} } = sync;
    useOwnPresets(presets);
    this.#upstreams = upstreams;
    this.#frame = { ceiling, allowCidrs, approved, listeners };
    const wanted = new Set<string>(sync.sandboxes.map(({ id }) => id));
    const { names, decisionRows } = this.#options;
    for (const id of new Set([
      ...this.#sandboxes.keys(),
      ...names.sandboxes(),
      ...decisionRows.sandboxes(),
    ])) {
      if (!wanted.has(id)) this.remove(id);
    }
    const { problems } = this.change(sync.sandboxes);
    for (const { id } of problems) this.#refuseAll(id);
    return problems;
  }

  /** Each by itself: one that is refused keeps its old rules, or loses them where `put` says so. */
  change(changes: EgressChanges): EgressChanged {
    const problems: EgressChanged['problems'] = [];
    let closed = 0;
    for (const { id, ...rules } of changes) {
      try {
        closed += this.put(id, rules);
      } catch (error) {
        problems.push({ id, message: errorText(error) });
      }
    }
    return { closed, problems };
  }

  /** What `rules` would allow here, whichever sandbox had them. @throws PolicyRefused */
  compile({ policy, reachesHost = false }: Pick<EgressSandboxRules, 'policy' | 'reachesHost'>): Policy {
    try {
      return this.#options.compilePolicy(policy, { ...this.#frame, reachesHost });
    } catch (error) {
      throw new PolicyRefused(errorText(error), { cause: error });
    }
  }

  #refuseAll(id: string): void {
    const sandbox = this.#sandbox(id);
    sandbox.policy = refuseAll;
    sandbox.review();
    this.#known.add(id);
  }

  /**
   * @returns how many connections were ended
   * @throws PolicyRefused: where the policy does not compile nothing has changed, where secrets or proxy can't be had everything is refused
   */
  put(id: string, rules: EgressSandboxRules): number {
    const policy = this.compile(rules);
    const { secrets, upstream } = this.#meansOf(id, rules);
    const sandbox = this.#sandbox(id);
    const isElsewhere = JSON.stringify(upstream) !== JSON.stringify(sandbox.upstream);
    sandbox.policy = policy;
    sandbox.secrets = secrets;
    sandbox.upstream = upstream;
    this.#known.add(id);
    return isElsewhere ? sandbox.cutConnections() : sandbox.review();
  }

  #meansOf(
    id: string,
    rules: EgressSandboxRules,
  ): { readonly secrets: SandboxSecrets; readonly upstream: NamedUpstream | undefined } {
    try {
      return { secrets: this.#secretsOf(id, rules), upstream: this.#upstreamOf(rules.upstream ?? null) };
    } catch (error) {
      // The rules of before may be wider than those that can't be put in force.
      this.#refuseAll(id);
      throw error;
    }
  }

  #upstreamOf(wanted: string | null): NamedUpstream | undefined {
    const name = upstreamOf(wanted, this.#upstreams);
    if (name === undefined) return undefined;
    const proxy = parseUpstream(this.#upstreams[name] ?? '');
    // Never past it: it may be there so that the sandbox is seen, or held back.
    if (proxy === undefined) throw new PolicyRefused(`egress-upstreams.json has no proxy "${name}"`);
    return { name, proxy };
  }

  #secretsOf(id: string, { secrets, ownSecrets: names = [] }: EgressSandboxRules): SandboxSecrets {
    try {
      return this.#options.secrets.subset(secrets, { sandbox: id, names });
    } catch (error) {
      // Without them the installation's would be put in where it gave its own.
      throw new PolicyRefused(errorText(error), { cause: error });
    }
  }

  /** @returns how many connections were ended */
  remove(id: string): number {
    const sandbox = this.#sandboxes.get(id);
    const closed = sandbox?.connections.size ?? 0;
    this.#sandboxes.delete(id);
    this.#known.delete(id);
    sandbox?.cut();
    for (const relay of this.#allRelays()) if (relay.sandbox === sandbox) relay.finish();
    this.#options.services.questions.forget(id);
    this.#options.services.callers.forget(id);
    this.#forgetRows(id);
    return closed;
  }

  #forgetRows(id: string): void {
    const { names, services } = this.#options;
    try {
      names.forget(id);
      services.tunnels.forget(id);
      services.decisions.forget(id);
    } catch (error) {
      // A full disk: one sandbox's rows must not keep the rules of all others from coming. The next sync forgets them.
      services.log.guest(id).error('rows.kept', { error });
    }
  }

  /** One more relay of this instance; the numbers of its connections are its own. */
  takeControl(hello: RelayHello, link: ControlLink): void {
    const { services } = this.#options;
    const sandbox = this.#sandbox(hello.sandbox);
    const log = services.log.child({ instance: hello.instance }).guest(hello.sandbox);
    log.debug('relay.here');
    const relay = new RelayLink(
      services,
      { instance: hello.instance, sandbox },
      {
        ...link,
        onEnd: (reason) => {
          if (reason !== undefined) log.warn('relay.broken', { reason: reason.message });
          this.#forgetEnded(hello.instance);
        },
      },
    );
    const those = this.#relays.get(hello.instance) ?? new Set();
    this.#relays.set(hello.instance, those.add(relay));
    this.#adopt(sandbox, hello.instance);
    // Its first bytes may have been its last ones.
    this.#forgetEnded(hello.instance);
  }

  takeStream({ instance, connection }: ConnectionName, socket: Socket): void {
    const owner = [...(this.#relays.get(instance) ?? [])].find((relay) => relay.has(connection));
    if (owner === undefined) socket.destroy();
    else owner.takeStream(connection, socket);
  }

  /** Ends what this process carries; tunnels go on without it. */
  close(): void {
    this.#options.services.tunnels.freeze();
    for (const relay of this.#allRelays()) relay.close();
    for (const sandbox of this.#sandboxes.values()) sandbox.cut();
  }

  /** Tunnels that go on from before this process, or this relay's link, are judged by the rules of now. */
  #adopt(sandbox: Sandbox, instance: number): void {
    const { services } = this.#options;
    // Which relay has it, nobody said: the others do not know the number.
    const reset = (connection: number): void => {
      for (const relay of this.#relays.get(instance) ?? []) relay.reset(connection);
    };
    const isKnown = (connection: number): boolean =>
      sandbox.adopted.has(connection) ||
      [...(this.#relays.get(instance) ?? [])].some((relay) => relay.has(connection));
    for (const [connection, tunnel] of services.tunnels.of(sandbox.id, instance)) {
      if (isKnown(connection)) continue;
      const adopted: Reviewable = {
        review: () => {
          const { policy, secrets } = sandbox;
          const rules = { policy, secrets, interceptsTls: services.interceptsTls() };
          // What relays carry goes through no proxy.
          if (sandbox.upstreamTo(tunnel.destination) === undefined && isStillTunnel(tunnel, rules))
            return false;
          adopted.cut();
          return true;
        },
        cut: () => {
          sandbox.adopted.delete(connection);
          services.tunnels.remove({ instance, connection });
          reset(connection);
        },
      };
      const hasRoom = sandbox.adopted.size < limits.sandboxConnectionsMax;
      sandbox.adopted.set(connection, adopted);
      if (hasRoom) adopted.review();
      else adopted.cut();
    }
  }

  #allRelays(): RelayLink[] {
    return [...this.#relays.values()].flatMap((those) => [...those]);
  }

  #forgetEnded(instance: number): void {
    const those = this.#relays.get(instance);
    for (const relay of those ?? []) if (relay.hasEnded) those?.delete(relay);
    if (those?.size === 0) this.#relays.delete(instance);
  }

  #sandbox(id: string): Sandbox {
    const known = this.#sandboxes.get(id);
    if (known !== undefined) return known;
    const { services, names, secrets } = this.#options;
    const sandbox = new Sandbox(id, {
      names: new VirtualAddresses(names, id),
      secrets: secrets.subset([]),
      decisions: services.decisions,
      monoMs: services.monoMs,
    });
    this.#sandboxes.set(id, sandbox);
    return sandbox;
  }
}
