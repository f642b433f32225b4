/** From a create request of `/v1` to the engine's wish. What a request asks for and can't have is refused, never left out. */
import { release } from 'node:os';
import { AppError } from '@squash/contract/errors';
import { type SandboxId, sandboxIdSchema } from '@squash/contract/ids';
import type { NativeWish, SandboxCreate, SandboxSource } from '@squash/contract/native-sandbox';
import type { Once } from '@squash/contract/once';
import type { CreateWish } from '@squash/contract/sandbox';
import type { Engine } from '../engine/engine.ts';
import type { ImageStack } from '../engine/images.ts';
import { type Caller, NotSeen, ownerFor, sees } from '../http/caller.ts';
import { baseLayer, namingModule } from './base-layer.ts';
import { checkUpstream, type EgressRules } from './network.ts';
import { newSandboxId } from './sandbox-id.ts';
import { askerOf } from './volumes.ts';

export interface Creating {
  /** Undefined: one is made. */
  readonly id?: SandboxId;
  readonly body: SandboxCreate;
  readonly caller: Caller;
  readonly once: Once | undefined;
}

export async function createSandbox(
  engine: Engine,
  { upstreams }: Pick<EgressRules, 'upstreams'>,
  { id = newSandboxId(), body, caller, once }: Creating,
): Promise<SandboxId> {
  checkUpstream(body.upstream, upstreams);
  const source = forkSource(engine, body, caller);
  const hostRoot = hostRootFor(body, caller);
  const stack = await imageFor(engine, body, caller);
  const layers =
    source === undefined && hostRoot === undefined
      ? [...(stack?.modules ?? []), ...(await layersOf(engine, body.from, stack))]
      : [];
  const wish: CreateWish = {
    id,
    owner: ownerFor(caller, body.owner),
    task: '',
    layers,
    cpu: body.cpu,
    memoryMb: body.memory_mb,
    maxLifetimeS: body.lifetime_s === undefined ? undefined : (body.lifetime_s ?? 0),
    allowNet: undefined,
    policy: body.policy,
    secrets: body.secrets ?? 'all',
    ownSecrets: body.own_secrets ?? {},
    upstream: body.upstream,
    backend: body.backend,
    mounts: engine.volumes.plan(askerOf(caller, body.owner), body.mounts ?? []),
    warnings: [],
    native: { ...nativeWish(body, source), image: stack?.image, hostRoot, once },
  };
  try {
    const made = await engine.sandboxes.create(wish);
    return sandboxIdSchema.parse(made.id);
  } catch (error) {
    throw await namingModule(error, engine, layers);
  }
}

/** @throws sandbox_not_found for another owner's, as if it were not there */
function forkSource(
  { sandboxes }: Engine,
  { from, memory = false }: SandboxCreate,
  caller: Caller,
): NativeWish['from'] {
  if (from === undefined || !('sandbox' in from)) {
    if (memory) throw new AppError('invalid_request', '"memory" is of a sandbox that "from.sandbox" names');
    return undefined;
  }
  if (!sees(caller, sandboxes.ownerOf(from.sandbox))) {
    throw new NotSeen('sandbox_not_found', `Cannot find sandbox "${from.sandbox}"`);
  }
  return { sandbox: from.sandbox, snapshot: from.snapshot, memory };
}

/** Who has the host's files may do what the operator may. @throws forbidden */
function hostRootFor({ image, from }: SandboxCreate, { scope }: Caller): NativeWish['hostRoot'] {
  if (from === undefined || !('host' in from)) return undefined;
  if (scope !== 'admin') throw new AppError('forbidden', '"from.host" is for callers whose scope is "admin"');
  if (image === undefined) return from.host;
  throw new AppError(
    'invalid_request',
    '"image" and "from.host" exclude each other: one of them is the root',
  );
}

/** A pull is the operator's: whoever names an image chooses whom the daemon speaks with. @throws image_not_found, and why it can't be had */
async function imageFor(
  { images }: Engine,
  { image, from }: SandboxCreate,
  { scope }: Caller,
): Promise<ImageStack | undefined> {
  if (image === undefined) return undefined;
  if (from !== undefined && 'sandbox' in from)
    throw new AppError(
      'invalid_request',
      '"image" and "from.sandbox" exclude each other: a sandbox’s files are on its own image',
    );
  return await images.stackFor(image, scope === 'admin');
}

async function layersOf(engine: Engine, from: SandboxSource | undefined, stack: ImageStack | undefined) {
  if (from !== undefined && 'layers' in from) return from.layers;
  // An image is a base itself.
  return stack === undefined ? [await baseLayer(engine)] : [];
}

function nativeWish(
  body: SandboxCreate,
  from: NativeWish['from'],
): Omit<NativeWish, 'once' | 'image' | 'hostRoot'> {
  const reaches = body.policy !== undefined && body.policy.allow.some((rule) => rule !== 'none');
  return {
    name: body.name ?? null,
    labels: body.labels,
    env: body.env,
    idleTimeoutS: body.idle_timeout_s ?? 0,
    onTimeout: body.on_timeout,
    processesMax: body.processes_max,
    mustHold: [
      ...(body.cpu === undefined ? [] : ['cpu_limit']),
      ...(body.memory_mb === undefined ? [] : ['memory_limit']),
      ...(body.processes_max === undefined || countsByOwner(release()) ? [] : ['pids_limit']),
      ...(reaches ? ['network'] : []),
    ],
    secrets: body.secrets,
    from,
  };
}

/** Where no group counts them the launcher holds each sandbox by the limit of its owner, which is a namespace's own since Linux 5.14. */
function countsByOwner(kernel: string): boolean {
  const [major = 0, minor = 0] = kernel.split('.').map((word) => Number.parseInt(word, 10));
  return major > 5 || (major === 5 && minor >= 14);
}
