/** Groups over this daemon's engine and store: `@squash/groups` knows neither, and asks for what it needs by ports. */
import type { Duplex } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import { AppError, type ErrorCode } from '@squash/contract/errors';
import { groupLimits } from '@squash/contract/group-limits';
import {
  chatSession,
  globalMemory,
  groupFolder as folder,
  type GroupMount,
} from '@squash/contract/group-mounts';
import { type ModuleName, type SandboxId, sandboxIdSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { type SandboxCreate, sandboxCreateSchema } from '@squash/contract/native-sandbox';
import { ownerByDefault } from '@squash/contract/sandbox';
import { mountIdSchema, type VolumeInfo } from '@squash/contract/volume';
import { LocalGroups } from '@squash/groups/groups';
import type {
  CommandAt,
  CommandEnd,
  Decision,
  Offered,
  Piece,
  RunCommand,
  RunSandboxes,
  SandboxWish,
  VolumeWish,
  Witness,
} from '@squash/groups/ports';
import { baseLayer } from './api/base-layer.ts';
import { createSandbox } from './api/create-sandbox.ts';
import type { EgressRules } from './api/network.ts';
import { newSandboxId } from './api/sandbox-id.ts';
import type { Engine } from './engine/engine.ts';
import type { Audit } from './http/audit.ts';
import { operator } from './http/caller.ts';
import { sharedLabel } from './mounts/mount-sources.ts';
import type { EventPort } from './sandbox/event-port.ts';
import type { Store } from './store/store.ts';

export interface OpenGroupsOptions {
  readonly engine: Engine;
  readonly store: Store;
  readonly rules: Pick<EgressRules, 'upstreams'>;
  readonly log: Log;
  readonly events: EventPort;
  /** Of agents' decisions alone. */
  readonly audit: Audit;
}

const asker = { sees: null, owner: ownerByDefault };
/** The seed's unprivileged user. */
const agent = { uid: 1_000, gid: 1_000 };
/** For one change of an owner. */
const fileMs = 30_000;

export function openGroups({ engine, store, rules, log, ...witness }: OpenGroupsOptions): LocalGroups {
  const groups = new LocalGroups({
    rows: store.groups,
    scheduleRows: store.schedules,
    sandboxes: new EngineSandboxes(engine, rules),
    witness: new DecisionWitness(witness),
    nowMs: () => systemClock.wallMs(),
    log,
  });
  groups.begin();
  return groups;
}

/** Tells clients and webhooks what waits for a person and what he said, and keeps a line of each decision. */
class DecisionWitness implements Witness {
  readonly #options: Pick<OpenGroupsOptions, 'events' | 'audit'>;

  constructor(options: Pick<OpenGroupsOptions, 'events' | 'audit'>) {
    this.#options = options;
  }

  decided(decision: Decision): void {
    const { action, asked, group, run, sandbox, state, rule, by } = decision;
    const { events, audit } = this.#options;
    const subject = { id: sandbox ?? '', owner: ownerByDefault };
    if (state === 'held')
      events.tell(subject, { type: 'action.held', data: { action, asked, group, run, rule } });
    else if (by !== null)
      events.tell(subject, { type: 'action.decided', data: { action, asked, group, run, state, rule } });
    const { verdict, status } = answers[state];
    const line = {
      request_id: `action-${action ?? 'none'}`,
      caller: by ?? { kind: 'agent', group, run },
      peer: { address: by === null ? 'channel' : 'api', uid: null },
      operation: by === null ? asked : state === 'withdrawn' ? 'group.remove' : 'group.decide',
      sandbox,
      stage: 'whole' as const,
      decision: verdict,
      code: null,
      status,
      duration_ms: 0,
      action,
      rule: rule.slice(0, ruleCharsMax),
    };
    // What is not kept has no bound of its own: an agent asks so without end.
    if (state === 'refused' || state === 'unseen') audit.writeBounded(line);
    else audit.write(line);
  }
}

const ruleCharsMax = 1_024;
/** What the agent is answered; `failed`: it might, and it could not be done. */
const answers = {
  done: { verdict: 'allowed', status: 200 },
  held: { verdict: 'held', status: 202 },
  denied: { verdict: 'refused', status: 403 },
  failed: { verdict: 'allowed', status: 409 },
  refused: { verdict: 'refused', status: 409 },
  unseen: { verdict: 'refused', status: 403 },
  withdrawn: { verdict: 'refused', status: 410 },
} as const;

class EngineSandboxes implements RunSandboxes {
  readonly #engine: Engine;
  readonly #rules: OpenGroupsOptions['rules'];
  /** Volumes that are being made, by name. */
  readonly #making = new Map<string, Promise<string>>();
  /** What those that may rest were made from, by id. */
  readonly #madeFrom = new Map<string, string>();

  constructor(engine: Engine, rules: OpenGroupsOptions['rules']) {
    this.#engine = engine;
    this.#rules = rules;
  }

  newId(): string {
    return newSandboxId();
  }

  has(id: string): boolean {
    return this.#engine.sandboxes.list().some((each) => each.id === id);
  }

  /** Runs that begin at once wait for the same one. */
  async volume(name: string, wish?: VolumeWish): Promise<string> {
    const known = this.#known(name);
    if (known !== undefined) return known.id;
    const making =
      this.#making.get(name) ?? this.#makeVolume(name, wish).finally(() => this.#making.delete(name));
    this.#making.set(name, making);
    return await making;
  }

  async #makeVolume(name: string, wish: VolumeWish | undefined): Promise<string> {
    const { volumes } = this.#engine;
    const body = { name, labels: wish?.isShared === true ? { [sharedLabel]: 'groups' } : {} };
    if (wish === undefined) return (await volumes.create(asker, body)).id;
    try {
      return (await volumes.create(asker, { ...body, size_mb: wish.sizeMb })).id;
    } catch (error) {
      if (!isCode(error, 'limits_unenforceable')) throw error;
      return (await volumes.create(asker, body)).id;
    }
  }

  #known(volume: string): VolumeInfo | undefined {
    try {
      return this.#engine.volumes.get(asker, volume);
    } catch (error) {
      if (!isCode(error, 'volume_not_found')) throw error;
      return undefined;
    }
  }

  checkDirectory({ host, mode }: GroupMount): void {
    const [step] = this.#engine.volumes.judge({ path: host, mode, owner: ownerByDefault }).slice(-1);
    if (step === undefined || step.allowed) return;
    throw new AppError(
      'host_directory_refused',
      `Cannot give "${host}" of the host to a group: ${step.sentence} (${step.reason})`,
    );
  }

  removal(volume: string): () => Promise<void> {
    try {
      return this.#engine.volumes.removal(asker, volume);
    } catch (error) {
      if (!isCode(error, 'volume_not_found')) throw error;
      return async () => undefined;
    }
  }

  async make(id: string, wish: SandboxWish): Promise<void> {
    const body = bodyOf(wish);
    if (wish.mayRest) this.#madeFrom.set(id, await this.#sources(body));
    const given = { id: sandboxIdSchema.parse(id), body, caller: operator, once: undefined };
    await createSandbox(this.#engine, this.#rules, given);
  }

  async rest(id: string, seconds: number): Promise<boolean> {
    if (!this.#madeFrom.has(id)) return false;
    const { sandboxes, volumes } = this.#engine;
    const sandbox = sandboxIdSchema.parse(id);
    // The kernel ends all that is in its namespace of processes, PID 1 too: no program outlives it, whatever it is.
    await sandboxes.pause(sandbox, 'files');
    for (const mount of volumes.mounts(sandbox)) await volumes.detach(sandbox, mountIdSchema.parse(mount.id));
    await sandboxes.update(sandbox, { lifetime_s: seconds + groupLimits.lingerS });
    return true;
  }

  async wake(id: string, wish: SandboxWish): Promise<void> {
    const { sandboxes, volumes, network } = this.#engine;
    const sandbox = sandboxIdSchema.parse(id);
    const body = bodyOf(wish);
    const isSame = this.#madeFrom.get(id) === (await this.#sources(body));
    // Whoever has a key may have changed what it reaches …
    if (!isSame || !isDeepStrictEqual(network.rules(sandbox).policy, body.policy))
      throw new AppError('sandbox_not_ready', `Sandbox "${id}" would be made otherwise now`);
    // … or started it.
    await sandboxes.pause(sandbox, 'files');
    for (const mount of body.mounts ?? []) await volumes.attach(asker, sandbox, mount);
    await sandboxes.update(sandbox, { name: body.name, lifetime_s: body.lifetime_s });
    await sandboxes.resume(sandbox);
  }

  /** All that makes a sandbox what it is, layers by their content: where a word differs it is another one. */
  async #sources({ name: _name, lifetime_s: _lifetime, ...body }: SandboxCreate): Promise<string> {
    const { images } = this.#engine;
    const stack = body.image === undefined ? undefined : await images.stackFor(body.image, true);
    const named = body.from !== undefined && 'layers' in body.from ? body.from.layers : [];
    const bases = stack === undefined && named.length === 0 ? [await baseLayer(this.#engine)] : [];
    const digests = await Promise.all([...named, ...bases].map((layer) => this.#digestOf(layer)));
    return JSON.stringify({ body, stack, digests });
  }

  /** Null: only the bucket has it, until the first sandbox is made from it. */
  async #digestOf(layer: ModuleName): Promise<string | null> {
    try {
      return (await this.#engine.modules.get(layer)).digest;
    } catch (error) {
      if (!isCode(error, 'module_not_found')) throw error;
      return null;
    }
  }

  async begin(
    { sandbox: id, tag }: CommandAt,
    { argv, places, env, stdin, timeoutMs, isWarm, outputBytesMax }: RunCommand,
  ): Promise<void> {
    const { processes } = this.#engine;
    const sandbox = sandboxIdSchema.parse(id);
    // Nobody but the operator starts commands in a run's sandbox, so the tag finds the run's.
    try {
      processes.get(sandbox, { tag });
      return;
    } catch (error) {
      if (!isCode(error, 'process_not_found')) throw error;
    }
    if (!isWarm) await this.#giveVolumes(sandbox, places);
    const request = {
      argv,
      env,
      stdin,
      timeoutMs,
      shell: undefined,
      tag,
      tty: undefined,
      isBackground: true,
      user: agent,
      cwd: folder,
      keep: 'head' as const,
      outputBytesMax: Math.min(outputBytesMax, limits.processOutputBytesMax),
    };
    await processes.launch(sandbox, request, undefined);
  }

  /** Nothing of the agent's has run here yet, so the paths are the mounts that were made for it, or nothing stands there. */
  async #giveVolumes(sandbox: SandboxId, places: readonly string[]): Promise<void> {
    const { files, volumes } = this.#engine;
    for (const path of [chatSession, ...places])
      await files.makeDirectory({ id: sandbox, path }, { createParents: true });
    const written = volumes.mounts(sandbox).filter(({ volume, mode }) => volume !== null && mode === 'rw');
    const paths = new Set([chatSession, ...places, ...written.map((mount) => mount.path)]);
    const late = AbortSignal.timeout(fileMs);
    await Promise.all([...paths].map((path) => files.change({ id: sandbox, path }, { owner: agent }, late)));
  }

  async *output(
    { sandbox, tag }: CommandAt,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<Piece, void> {
    const wish = { after, isFollowing: true, isStalling: false };
    for await (const event of this.#engine.processes.output(
      sandboxIdSchema.parse(sandbox),
      { tag },
      wish,
      signal,
    )) {
      if (event.type === 'gap') yield { seq: event.seq, stream: undefined, data: Buffer.alloc(0) };
      else
        yield { seq: event.seq, stream: event.stream === 'stderr' ? 'stderr' : 'stdout', data: event.data };
    }
  }

  end({ sandbox, tag }: CommandAt): CommandEnd {
    const { state, exit_code, reason, timed_out } = this.#engine.processes.get(
      sandboxIdSchema.parse(sandbox),
      { tag },
    );
    if (state !== 'ended') throw new AppError('shutting_down', 'The daemon stops while the run goes on');
    const isOwn = reason === null || reason === 'exited';
    return { exitCode: exit_code ?? 0, reason: isOwn ? null : reason, isTimedOut: timed_out };
  }

  async remove(id: string): Promise<void> {
    this.#madeFrom.delete(id);
    await this.#engine.sandboxes.destroy(sandboxIdSchema.parse(id)).catch((error: unknown) => {
      if (!isCode(error, 'sandbox_not_found')) throw error;
    });
  }

  async *offer(id: string, port: number, signal: AbortSignal): AsyncGenerator<Offered, void> {
    const at = { id: sandboxIdSchema.parse(id), port };
    const { callers } = this.#engine;
    for await (const event of callers.offer(at, signal)) {
      if (event.type === 'offered') yield event;
      else {
        const { connection } = event;
        yield {
          type: 'connection',
          take: async (): Promise<Duplex> => (await callers.take({ ...at, connection })).stream,
        };
      }
    }
  }
}

function bodyOf({ group, run, timeoutS, allow, ...places }: SandboxWish): SandboxCreate {
  return sandboxCreateSchema.parse({
    name: `group ${group.name} run ${run}`,
    labels: { group: group.name },
    ...(group.layers.length > 0 && { from: { layers: group.layers } }),
    ...(group.image !== null && { image: group.image }),
    ...(group.memory_mb !== undefined && { memory_mb: group.memory_mb }),
    ...(group.cpu !== null && { cpu: group.cpu }),
    ...(group.backend !== null && { backend: group.backend }),
    policy: { allow },
    secrets: group.secrets,
    lifetime_s: timeoutS + groupLimits.lingerS,
    mounts: [...volumesAt(places), ...group.mounts],
  });
}

/** Where a run has what is kept of it. */
function volumesAt({ volume, session, global }: Pick<SandboxWish, 'volume' | 'session' | 'global'>) {
  return [
    { volume, path: folder, mode: 'rw' },
    ...(session === null ? [] : [{ volume: session, path: chatSession, mode: 'rw' }]),
    ...(global === null ? [] : [{ ...global, path: globalMemory }]),
  ];
}

function isCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof AppError && error.code === code;
}
