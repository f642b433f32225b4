/**
 * Puts the process together: database, DNS, channels, connections, and the daemon's API over them.
 *
 * The order is the promise: no relay is listened to before the daemon has said what every sandbox may do, so there is
 * no moment in which an old or an empty policy decides. The parts that plug in (policy, secrets, interception) are
 * made by `parts.ts`.
 */
import { join } from 'node:path';
import { rfc3339, systemClock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import { SocketDirectory } from '@squash/base/socket-directory';
import { LaunchChannel } from './channel/launch-channel.ts';
import { RelayListener } from './channel/relay-listener.ts';
import type { ConnectionServices } from './connections/connection-services.ts';
import { FairTurns } from '@squash/base/fair-turns';
import { Callers } from './connections/callers.ts';
import { interceptWith } from './connections/interception.ts';
import { PolicyRefused, Sandboxes } from './connections/sandboxes.ts';
import { judgeAddresses } from './connections/targets.ts';
import { TunnelRows } from './connections/tunnel-rows.ts';
import { type ControlHandlers, ControlRefusal, ControlServer } from './control/control-server.ts';
import { type EgressChanged, type EgressStats, egressSockets } from '@squash/contract/egress-protocol';
import { openEgressDatabase } from './database.ts';
import { DecisionLog } from './decisions/decision-log.ts';
import { DecisionRows } from './decisions/decision-rows.ts';
import { DnsServer } from './dns/dns-server.ts';
import { serveDnsStream } from './dns/dns-stream.ts';
import { Resolver } from './dns/resolver.ts';
import { NameRows } from './dns/virtual-addresses.ts';
import { egressLimits as limits } from './limits.ts';
import { Questions } from './approvals/questions.ts';
import type { CompilePolicy, Interceptor, SecretStore } from './ports.ts';

export interface EgressOptions {
  readonly dataDir: string;
  readonly runDir: string;
  /** What it answers as its version: whoever started it knows. */
  readonly build: string;
  readonly log: Log;
  /** Instead of what the host's files say; for hosts whose resolvers are not in resolv.conf, and for tests. */
  readonly resolvers: readonly string[] | undefined;
  readonly hostsFile: string | undefined;
  readonly parts: EgressParts;
}

export interface EgressParts {
  readonly compilePolicy: CompilePolicy;
  readonly secrets: SecretStore;
  readonly interceptor: Interceptor;
}

const wallMs = (): number => systemClock.wallMs();
const monoMs = (): number => systemClock.monoMs();

/** Serves until `signal` aborts or the daemon says stop. @throws EgressLocked where another process does */
export async function runEgress(options: EgressOptions, signal: AbortSignal): Promise<void> {
  const { runDir, log } = options;
  await using stack = new AsyncDisposableStack();
  const core = buildCore(options, stack);
  const listener = stack.use(
    new RelayListener(
      {
        onControl: (hello, link) => core.sandboxes.takeControl(hello, link),
        onStream: (name, socket) => core.sandboxes.takeStream(name, socket),
      },
      log,
    ),
  );
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => stop(), { once: true });
  let opening: Promise<void> | undefined;
  const open = async (): Promise<void> => {
    core.services.launcher.start();
    await listener.listen(join(runDir, egressSockets.relays));
    log.info('egress.open');
  };
  const control = stack.use(new ControlServer({ ...handlers(core, () => (opening ??= open())), stop }, log));
  await control.listen(join(runDir, egressSockets.api));
  log.info('egress.ready', { version: options.build, pid: process.pid });
  if (signal.aborted) stop();
  await stopped;
  log.info('egress.stopping');
  // First: the listener ends when the last of its connections has.
  core.sandboxes.close();
}

interface Core {
  readonly build: string;
  readonly services: ConnectionServices;
  readonly sandboxes: Sandboxes;
  readonly secrets: SecretStore;
  readonly log: Log;
  readonly rules: { interceptsTls: boolean; isSynced: boolean };
}

function buildCore(options: EgressOptions, stack: AsyncDisposableStack): Core {
  const { dataDir, runDir, log, parts } = options;
  const { compilePolicy, secrets, interceptor } = parts;
  stack.use(secrets);
  const database = stack.adopt(
    openEgressDatabase(join(dataDir, 'egress', 'egress.db'), (why) =>
      log.error('database.replaced', { reason: why }),
    ),
    (one) => one.close(),
  );
  const decisionRows = new DecisionRows(database);
  const resolver = new Resolver({
    monoMs,
    ...(options.resolvers === undefined ? {} : { servers: options.resolvers }),
    ...(options.hostsFile === undefined ? {} : { hostsFile: options.hostsFile }),
  });
  const dns = new DnsServer({ resolver, nowMs: wallMs, log });
  const rules = { interceptsTls: false, isSynced: false };
  const services: ConnectionServices = {
    launcher: stack.use(new LaunchChannel(stack.use(new SocketDirectory(runDir)), log)),
    resolver,
    turns: new FairTurns({ all: limits.dialsMax, each: limits.sandboxDialsMax }),
    questions: new Questions({ wallMs, monoMs }),
    decisions: stack.use(new DecisionLog({ rows: decisionRows, nowMs: wallMs, log })),
    tunnels: new TunnelRows(database, log),
    callers: new Callers(),
    dns,
    counters: { total: 0, refused: 0, intercepted: 0 },
    log,
    monoMs,
    wallMs,
    interceptsTls: () => rules.interceptsTls,
    intercept: (socket, readable) => interceptWith(interceptor, services, { socket, readable }),
    serveDns: (socket, client) => serveDnsStream(socket, dns, { client, monoMs }),
  };
  const names = new NameRows(database);
  const sandboxes = stack.adopt(
    new Sandboxes({ services, compilePolicy, secrets, names, decisionRows }),
    (one) => one.close(),
  );
  return { build: options.build, services, sandboxes, secrets, log, rules };
}

/** `open` begins to listen to relays; later calls wait for the same. */
function handlers(core: Core, open: () => Promise<void>): Omit<ControlHandlers, 'stop'> {
  const { services, sandboxes, rules, log } = core;
  const refused = (problems: EgressChanged['problems']): EgressChanged['problems'] => {
    for (const { id, message } of problems) log.warn('policy.refused', { sandbox: id, reason: message });
    return problems;
  };
  return {
    sync: async (sync) => {
      rules.interceptsTls = sync.interceptsTls;
      const problems = refused(sandboxes.sync(sync));
      await open();
      rules.isSynced = true;
      return { problems };
    },
    change: (changes) => {
      if (!rules.isSynced) throw new ControlRefusal(409, 'not_synced', 'the first request must be PUT /sync');
      const { closed, problems } = sandboxes.change(changes);
      return { closed, problems: refused(problems) };
    },
    judge: ({ host, address, port, ...rules }) => {
      const destination = { host: host ?? undefined, address: address ?? undefined, port };
      const compiled = orRefusal(() => sandboxes.compile(rules));
      return judgeAddresses(destination, compiled, services.resolver);
    },
    remove: (id) => ({ closed: sandboxes.remove(id) }),
    decisions: (query) => services.decisions.read(query),
    follow: (query, onRows) => services.decisions.follow(query, onRows),
    traffic: (ids) => sandboxes.traffic(ids),
    questions: services.questions,
    callers: services.callers,
    checkOffer: (at) => {
      if (!sandboxes.isKnown(at.sandbox))
        throw new ControlRefusal(409, 'sandbox_unknown', 'nothing is known of the sandbox');
      const problem = services.callers.problemOf(at);
      if (problem !== undefined) throw new ControlRefusal(409, problem, problem);
    },
    stats: () => stats(core),
  };
}

function orRefusal<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (error instanceof PolicyRefused) throw new ControlRefusal(400, 'policy_invalid', error.message);
    throw error;
  }
}

const started = rfc3339(wallMs());

const plainSecrets = 'SQUASH_PROXY_HTTPS=0: values of secrets go out in plain HTTP';

function stats({ build, services, sandboxes, secrets, rules }: Core): EgressStats {
  const states = sandboxes.states();
  const count = (...names: Parameters<typeof states.get>): number => states.get(...names) ?? 0;
  const { rss, heapUsed } = process.memoryUsage();
  return {
    version: build,
    pid: process.pid,
    started,
    synced: rules.isSynced,
    launcher: services.launcher.isAttached,
    ...sandboxes.counts,
    connections: {
      pending: count('waiting') + count('asking') + count('looking') + count('dialling'),
      tunnelled: count('tunnelled'),
      intercepted: count('streamed'),
      total: services.counters.total,
      refused: services.counters.refused,
    },
    dns: { ...services.dns.stats, upstream: services.resolver.asked },
    decisions: services.decisions.stats,
    questions: {
      open: services.questions.waiting.questions,
      waiting: services.questions.waiting.askers,
      ...services.questions.stats,
    },
    memory: { rss_bytes: rss, heap_bytes: heapUsed },
    warnings: [...secrets.warnings, ...(rules.isSynced && !rules.interceptsTls ? [plainSecrets] : [])],
  };
}
