/**
 * One connection of a program, from the relay's word that it is there to the relay's word that it has ended.
 *
 * `plan.ts` decides, this file carries out: hold and look, dial and release, hand to the interceptor, refuse. The bytes of
 * a tunnel never come here. What a newcomer would get wrong: everything that is awaited may find the connection ended,
 * or judged anew, when it comes back, so each step looks at `#state` first; and the relay's `connectionClosed` is the only
 * end, also of a connection that was reset from here.
 */
import type { Socket } from 'node:net';
import { getSystemErrorName } from 'node:util';
import { formatAddress, type Address } from '@squash/policy/address/address';
import type { ConnectionName } from '../channel/launch-channel.ts';
import { egressLimits as limits } from '../limits.ts';
import type { Destination, Verdict } from '@squash/policy/policy';
import type { Decision } from '../ports.ts';
import { Asked } from './asked.ts';
import { ConnectionRecord } from './connection-record.ts';
import type { ConnectionEnd, ConnectionServices, ConnectionState, RelaySide } from './connection-services.ts';
import { looksLikeTls } from './client-hello.ts';
import { type FirstBytes, readFirstBytes } from './first-bytes.ts';
import { dialServer } from './interception.ts';
import { type Plan, planFirst, planNow, planOpen, planRefusal, refusedMsMax, type Rules } from './plan.ts';
import { carryTunnel } from './carried.ts';
import { ProgramStream } from './program-stream.ts';
import { Reached } from './reached.ts';
import type { Reviewable } from './sandbox.ts';
import { carryUndecided, type Open, type UndecidedHost } from './undecided-host.ts';
import { dialMsOf, findTargets, type Targets } from './targets.ts';

type Unreadable = Extract<Plan, { kind: 'refuse' }>;

export class Connection implements Reviewable {
  readonly #services: ConnectionServices;
  readonly #relay: RelaySide;
  readonly #name: ConnectionName;
  readonly #destination: Destination;
  #state: ConnectionState = 'waiting';
  #timer: NodeJS.Timeout | undefined;
  #looks = 0;
  #first: FirstBytes | undefined;
  /** The address a name leads to is refused: this overrides what its policy says of the name. */
  #refused: Verdict | undefined;
  readonly #reached = new Reached();
  #plan: Plan | undefined;
  /** The server is dialled although the program has said nothing: only a tunnel is possible then. */
  #isServerFirst = false;
  #dialled: Address | undefined;
  readonly #record: ConnectionRecord;
  readonly #asked: Asked;
  /** Or tried to be. */
  #isNoted = false;
  readonly #stream: ProgramStream;
  #onEnd: (() => void) | undefined;
  /** Of the requests on it, where they are read. */
  #reviewRequests: (() => boolean) | undefined;

  constructor(
    services: ConnectionServices,
    relay: RelaySide,
    opened: { readonly number: number; readonly destination: Destination },
  ) {
    this.#services = services;
    this.#relay = relay;
    this.#name = { instance: relay.instance, connection: opened.number };
    this.#destination = opened.destination;
    this.#record = new ConnectionRecord(services, relay.sandbox.id, {
      destination: opened.destination,
      reached: this.#reached,
    });
    this.#asked = new Asked(services.questions, {
      sandbox: relay.sandbox,
      destination: this.#destination,
      rules: () => this.#rules,
      hold: (offset) => relay.hold(opened.number, offset),
      carryOut: (plan) => this.#carryOut(plan),
      refuse: (verdict) => {
        this.#refused = verdict;
        this.#look('to_refuse');
      },
      cut: () => this.cut(),
    });
    this.#stream = new ProgramStream({
      ask: () => {
        relay.release(opened.number);
        return services.launcher.streamOut(this.#name);
      },
      cut: () => this.cut(),
      // Not the program's doing: it could have been told.
      onFault: (error) => services.log.guest(relay.sandbox.id).error('stream.fault', { error }),
    });
    relay.sandbox.connections.add(this);
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** Judges it for the first time when its turn comes. */
  admit(): void {
    const { sandbox } = this.#relay;
    const begin = (): void => {
      if (this.#state === 'waiting') this.#carryOut(planOpen(this.#destination, this.#rules));
    };
    this.#onEnd = () => sandbox.leave(begin);
    sandbox.admit(begin);
  }

  /** All bytes so far that the program has sent. */
  takeFirst(bytes: Uint8Array, hasEnded: boolean): void {
    if (this.#state === 'asking') return this.#asked.hear(bytes.length, hasEnded);
    if (this.#state !== 'looking' || this.#first !== undefined) return;
    const found = readFirstBytes(bytes, hasEnded || bytes.length >= limits.firstBytesMax, hasEnded);
    const mayPass = !looksLikeTls(bytes) && !this.#isServerFirst;
    if (found.kind === 'unfinished' && mayPass && this.#openUndecided()) return;
    if (found.kind !== 'more') return this.#decide(found);
    if (found.bytesMin > limits.firstBytesMax) return this.#decide({ kind: 'unfinished' });
    if (this.#looks === 1) {
      const giveUp = (): void => this.#decide({ kind: 'unfinished' });
      const orWait = (): unknown => this.#openUndecided() || this.#wait(limits.helloBytesMs, giveUp);
      this.#wait(mayPass ? limits.unfinishedMs : limits.helloBytesMs, mayPass ? orWait : giveUp);
    }
    // A program that sends byte by byte is not asked about each: the pause doubles with every look.
    if (this.#looks < 4) this.#hold(found.bytesMin - 1);
    else setTimeout(() => this.#hold(found.bytesMin - 1), Math.min(1_000, 1 << this.#looks));
  }

  /** The stream that was asked for has come. */
  takeStream(socket: Socket): void {
    this.#stream.take(socket);
  }

  /** The relay's last word; `undefined` where the relay is gone without one. */
  finish(end: ConnectionEnd | undefined): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    clearTimeout(this.#timer);
    this.#relay.sandbox.connections.delete(this);
    this.#record.end(end ?? { bytesUp: 0, bytesDown: 0 });
    // Without the relay's word the tunnel may go on.
    if (this.#isNoted && end !== undefined) this.#services.tunnels.remove(this.#name);
    const isCarried = this.#plan?.kind === 'tunnel' && end?.isWhole === true;
    this.#stream.finish(isCarried, () => this.#giveBack());
  }

  review(): boolean {
    if (this.#state === 'asking') this.#asked.review();
    if (this.#isStillAllowed()) return this.#reviewRequests?.() ?? false;
    this.cut();
    return true;
  }

  #isStillAllowed(): boolean {
    // Its server is heard although the program has said nothing: that alone has to be allowed still.
    if (this.#state === 'looking' && this.#isServerFirst) {
      const { kind } = planFirst(this.#destination, this.#rules, { kind: 'silent' });
      return kind === 'tunnel' && this.#isAddressStillAllowed();
    }
    if (this.#state !== 'dialling' && this.#state !== 'tunnelled' && this.#state !== 'streamed') return true;
    return this.#plan === undefined || this.#isStillRight(this.#plan);
  }

  cut(): void {
    if (this.#state === 'ended' || this.#state === 'ending') return;
    this.#state = 'ending';
    clearTimeout(this.#timer);
    this.#relay.reset(this.#name.connection);
    this.#stream.end();
    this.#giveBack();
  }

  #giveBack(): void {
    this.#onEnd?.();
    this.#onEnd = undefined;
  }

  /** Serves DNS over TCP on it. */
  serveDns(): void {
    const { sandbox } = this.#relay;
    if (sandbox.dnsStreams >= limits.sandboxDnsStreamsMax) return this.cut();
    sandbox.dnsStreams += 1;
    this.#onEnd = () => {
      sandbox.dnsStreams -= 1;
    };
    this.#openStream((socket) => this.#services.serveDns(socket, sandbox));
  }

  /** Refuses it before anything is known of it. `rule` is a code. */
  refuse(rule: string): void {
    this.#carryOut({ kind: 'refuse', protocol: undefined, verdict: { isAllowed: false, rule } });
  }

  /** For the next process. False where the disk is full: a tunnel that can't be noted is none. */
  #note(addresses: readonly Address[]): boolean {
    const texts = addresses.map(formatAddress);
    const tunnel = { destination: this.#destination, first: this.#first, addresses: texts };
    this.#isNoted = true;
    return this.#services.tunnels.tryPut(this.#relay.sandbox.id, this.#name, tunnel);
  }

  get #rules(): Rules {
    const { secrets } = this.#relay.sandbox;
    return { policy: this.#asked.consent.policy, secrets, interceptsTls: this.#services.interceptsTls() };
  }

  #isStillRight(plan: Plan): boolean {
    return this.#planNow.kind === plan.kind && this.#isAddressStillAllowed();
  }

  get #planNow(): Plan {
    return planNow(this.#destination, this.#rules, { first: this.#first, refused: this.#refused });
  }

  #isAddressStillAllowed(): boolean {
    const all = [...this.#reached.all, ...(this.#dialled === undefined ? [] : [this.#dialled])];
    return all.every((address) => this.#mayDial(address));
  }

  #mayDial(address: Address): boolean {
    return this.#rules.policy.decideAddress(this.#destination, formatAddress(address)).isAllowed;
  }

  #carryOut(plan: Plan): void {
    this.#plan = plan;
    switch (plan.kind) {
      case 'ask':
        this.#state = 'asking';
        this.#onEnd = () => this.#asked.leave();
        return this.#asked.begin(plan);
      case 'look':
        return this.#look(plan.waits);
      case 'tunnel':
        return void this.#tunnel(plan.verdict);
      case 'intercept':
        return this.#intercept(plan.protocol, { verdict: plan.verdict, refusal: undefined });
      case 'refuse':
        return this.#sayNo(plan);
    }
  }

  #look(waits: Extract<Plan, { kind: 'look' }>['waits']): void {
    this.#state = 'looking';
    const refuse = (): void => this.#decide({ kind: 'silent' });
    if (waits === 'to_refuse') this.#wait(refusedMsMax(this.#destination), refuse);
    else if (waits === 'for_program') this.#wait(limits.firstBytesMs, () => this.cut());
    else if (waits === 'for_server') this.#wait(limits.serverFirstMs, () => this.#dialForGreeting());
    else this.#wait(limits.silentMs, () => this.#openUndecided() || this.#dialForGreeting());
    this.#hold(0);
  }

  /** Asks for the first bytes, once there are more than `offset`. */
  #hold(offset: number): void {
    if (this.#state !== 'looking' || this.#first !== undefined) return;
    this.#looks += 1;
    this.#relay.hold(this.#name.connection, offset);
  }

  /** Nothing came from the program: it may be the server's turn. */
  #dialForGreeting(): void {
    const plan = planFirst(this.#destination, this.#rules, { kind: 'silent' });
    // Rules may have changed meanwhile: who is refused by now and waits for a greeting would wait for long.
    const now = planOpen(this.#destination, this.#rules);
    if (now.kind === 'look' && now.waits === 'to_refuse') return this.#decide({ kind: 'silent' });
    // What the program says is awaited as before.
    if (plan.kind !== 'tunnel') return this.#wait(limits.firstBytesMs, () => this.cut());
    if (this.#relay.sandbox.upstreamTo(this.#destination) !== undefined)
      return void (this.#openUndecided() || this.#refuseForRoom());
    this.#isServerFirst = true;
    void this.#tunnel(plan.verdict);
  }

  #decide(first: FirstBytes): void {
    if (this.#state !== 'looking' || this.#first !== undefined) return;
    clearTimeout(this.#timer);
    this.#first = first;
    const plan = this.#planNow;
    if (!this.#isServerFirst) return this.#carryOut(plan);
    // The server's greeting may have been read already: nobody can step in between any more.
    if (plan.kind !== 'tunnel') return this.#refuseLate(plan);
    this.#plan = plan;
    // It was noted without its first bytes.
    if (this.#dialled !== undefined && !this.#note([this.#dialled])) return this.cut();
    this.#state = this.#dialled === undefined ? 'dialling' : 'tunnelled';
    this.#relay.release(this.#name.connection);
  }

  /** Its bytes come here until they say what it is. False: it has to be read, or there is no room. */
  #openUndecided(): boolean {
    const plan = planFirst(this.#destination, this.#rules, { kind: 'other' });
    if (this.#state !== 'looking' || this.#first !== undefined) return true;
    if (plan.kind !== 'tunnel' || !this.#relay.sandbox.hasRoom(this.#services.counters)) return false;
    // What it is taken for, so that a change of the rules ends it where that may no longer pass.
    this.#first = { kind: 'other' };
    this.#plan = plan;
    this.#onEnd = this.#relay.sandbox.takeRoom(this.#services.counters);
    this.#openStream((socket) => carryUndecided(socket, this.#undecidedHost(plan.verdict)));
    return true;
  }

  #undecidedHost(verdict: Verdict): UndecidedHost {
    const { sandbox } = this.#relay;
    const onDialled = (address: Address | undefined): void => {
      this.#reached.onDialled(address);
      this.#record.open(verdict.rule);
    };
    const { onRefused } = this.#reached;
    const { policy } = this.#asked.consent;
    const served = { sandbox, policy, destination: this.#destination, onRefused, onDialled };
    return {
      sandbox: sandbox.id,
      dial: (signal) => dialServer(this.#services, served, signal),
      planOf: (first) => planFirst(this.#destination, this.#rules, first),
      settle: (first, plan) => {
        this.#first = first;
        this.#plan = plan;
      },
      leave: () => {
        this.#giveBack();
        return !this.#isOver();
      },
      read: (plan, open) => {
        if (plan.kind === 'refuse') this.#sayNo(plan, open);
        else this.#intercept(plan.protocol, { verdict: plan.verdict, refusal: undefined }, open);
        return !this.#isOver();
      },
      cut: () => this.cut(),
      end: (outcome) => {
        if (outcome.kind === 'late') return this.#refuseLate(outcome.plan);
        if (outcome.kind === 'failed') return this.#fail(verdict, outcome.code);
        if (outcome.kind === 'passed') return;
        this.#record.add('denied', outcome.verdict.rule);
        this.cut();
      },
    };
  }

  #refuseLate(plan: Plan): void {
    const verdict = plan.kind === 'refuse' ? plan.verdict : { isAllowed: false, rule: 'first_bytes_late' };
    this.#sayNo({ kind: 'refuse', protocol: undefined, verdict });
  }

  /** Relays speak to no proxy and no caller: the bytes pass this process. */
  #carry(verdict: Verdict): void {
    if (!this.#relay.sandbox.hasRoom(this.#services.counters)) return this.#refuseForRoom();
    this.#onEnd = this.#relay.sandbox.takeRoom(this.#services.counters);
    this.#openStream((socket) => carryTunnel(socket, this.#undecidedHost(verdict)));
  }

  async #tunnel(verdict: Verdict): Promise<void> {
    if (this.#relay.sandbox.isElsewhere(this.#destination)) return this.#carry(verdict);
    if (!this.#isServerFirst) this.#state = 'dialling';
    const before = this.#state;
    const resolver = this.#relay.sandbox.resolverOf(this.#services.resolver);
    const found = findTargets(this.#destination, this.#rules.policy, resolver);
    const targets = found instanceof Promise ? await found : found;
    if (this.#isOver() || (before === 'dialling' && this.#state !== 'dialling')) return;
    if (targets.kind === 'refused') return this.#refuseAddress(targets);
    if (targets.kind === 'unresolved') return this.#fail(verdict, targets.code);
    // Rules may have changed while the name was resolved.
    if (this.#state === 'dialling' && this.#plan !== undefined && !this.#isStillRight(this.#plan)) {
      return this.cut();
    }
    if (this.#relay.sandbox.upstreamTo(this.#destination) !== undefined) return this.#carry(verdict);
    const who = this.#relay.sandbox.id;
    const { turns } = this.#services;
    const begin = (): void => {
      void this.#dial(verdict, targets.addresses)
        .catch(() => this.cut())
        .finally(() => turns.done(who));
    };
    this.#onEnd = () => turns.leave(who, begin);
    turns.take(who, begin);
  }

  /** Where nothing was said yet it is waited for, so that the refusal can be read. */
  #refuseAddress(targets: Extract<Targets, { kind: 'refused' }>): void {
    this.#refused = targets.verdict;
    this.#reached.last = targets.address;
    this.#isServerFirst = false;
    this.#dialled = undefined;
    if (this.#first !== undefined) {
      return this.#carryOut(planRefusal(targets.verdict, this.#rules, this.#first));
    }
    if (this.#state === 'looking') {
      return this.#wait(refusedMsMax(this.#destination), () => this.#decide({ kind: 'silent' }));
    }
    this.#look('to_refuse');
  }

  async #dial(verdict: Verdict, addresses: readonly Address[]): Promise<void> {
    if (this.#isOver()) return;
    if (!this.#note(addresses)) return this.cut();
    // Nothing flows before an upstream is there, so the word can go ahead of it.
    if (this.#state === 'dialling') this.#relay.release(this.#name.connection);
    let errno = 0;
    for (const [at, address] of addresses.entries()) {
      const timeoutMs = dialMsOf(at, addresses.length);
      // It was judged before its turn came, and before the last one was tried.
      if (!this.#mayDial(address)) return this.cut();
      const { port } = this.#destination;
      errno = await this.#services.launcher.dialOut(this.#name, { address, port, timeoutMs });
      this.#reached.last = formatAddress(address);
      if (errno === 0) return this.#takeServer(address, verdict);
      if (this.#isOver()) break;
    }
    this.#fail(verdict, getSystemErrorName(-errno));
  }

  /** The relay and the launcher speak on lines of their own: the end of a short tunnel may be known before its beginning. */
  #takeServer(address: Address, verdict: Verdict): void {
    this.#record.open(verdict.rule);
    if (this.#isOver()) return;
    if (!this.#mayDial(address)) return this.cut();
    this.#dialled = address;
    if (this.#state === 'dialling') this.#state = 'tunnelled';
  }

  #isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'ending';
  }

  /** Allowed, and yet there is nobody. */
  #fail(verdict: Verdict, code: string): void {
    this.#record.add('allowed', `${verdict.rule} (${code})`);
    this.cut();
  }

  #sayNo({ protocol, verdict }: Unreadable, open?: Open): void {
    this.#services.counters.refused += 1;
    if (
      protocol !== undefined &&
      this.#relay.sandbox.hasRoom(this.#services.counters) &&
      this.#relay.sandbox.mayBeTold(protocol)
    )
      return this.#intercept(protocol, { verdict, refusal: verdict }, open);
    this.#record.add('denied', verdict.rule);
    this.cut();
  }

  #intercept(
    protocol: 'tls' | 'http',
    { verdict, refusal }: { readonly verdict: Verdict; readonly refusal: Verdict | undefined },
    open: Open = (serve) => this.#openStream(serve),
  ): void {
    if (!this.#relay.sandbox.hasRoom(this.#services.counters)) return this.#refuseForRoom();
    const { sandbox } = this.#relay;
    const giveRoom = sandbox.takeRoom(this.#services.counters);
    let requests = 0;
    const begin = (): void => {
      if (this.#state === 'streamed') open(serve);
    };
    this.#onEnd = () => {
      sandbox.handshakes.leave(begin);
      giveRoom();
      if (requests === 0) this.#record.add(refusal === undefined ? 'allowed' : 'denied', verdict.rule);
    };
    const record = (decision: Decision): void => {
      requests += 1;
      const { address = this.#reached.last } = decision;
      this.#services.decisions.record(sandbox.id, { ...decision, address });
    };
    const serve = (socket: Socket): Promise<void> =>
      this.#services.intercept(socket, {
        sandbox,
        policy: this.#asked.consent.policy,
        destination: this.#destination,
        protocol,
        serverName: this.#first?.kind === 'tls' ? this.#first.serverName : undefined,
        refusal,
        record,
        onDialled: this.#reached.onDialled,
        onRefused: this.#reached.onRefused,
        onReview: (review) => {
          this.#reviewRequests = review;
        },
      });
    this.#state = 'streamed';
    if (protocol === 'tls' && refusal === undefined) sandbox.handshakes.admit(begin);
    else begin();
  }

  #refuseForRoom(): void {
    this.#record.add('denied', 'interception_limit');
    this.cut();
  }

  /** Has the relay hand the program's bytes to this process, and `serve` them until it is done. */
  #openStream(serve: (socket: Socket) => Promise<void>): void {
    this.#state = 'streamed';
    clearTimeout(this.#timer);
    void this.#stream.open(serve);
  }

  #wait(ms: number, then: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(then, ms);
  }
}
