/** `sandbox.*`: create, find, change, put to rest, destroy. What a request asks for and can't have is refused, never left out. */
import { AppError } from '@squash/contract/errors';
import { sandboxIdSchema } from '@squash/contract/ids';
import {
  type NativeWish,
  reservedFields,
  type SandboxCreate,
  type SandboxSource,
} from '@squash/contract/native-sandbox';
import type { sandboxOperations } from '@squash/contract/operations/sandboxes';
import type { CreateWish } from '@squash/contract/sandbox';
import type { Engine } from '../engine/engine.ts';
import { type Caller, NotSeen, ownerFor, sees } from '../http/caller.ts';
import { empty, json } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { baseLayer, namingModule } from './base-layer.ts';
import { checkUpstream, type EgressRules } from './network.ts';
import { newSandboxId } from './sandbox-id.ts';

export function sandboxHandlers(
  engine: Engine,
  rules: Pick<EgressRules, 'upstreams'>,
): HandlersOf<typeof sandboxOperations> {
  const { sandboxes } = engine;
  return {
    'sandbox.create': creating(engine, rules),
    'sandbox.list': ({ query, caller }) =>
      json(sandboxes.page({ ...query, sees: (owner) => sees(caller, owner) })),
    'sandbox.get': ({ params }) => json(sandboxes.describe(params.id)),
    'sandbox.update': async ({ params, body }) => json(await sandboxes.update(params.id, body)),
    'sandbox.destroy': async ({ params }) => {
      await sandboxes.destroy(params.id);
      return empty;
    },
    'sandbox.pause': async ({ params, body }) => json(await sandboxes.pause(params.id, body.keep)),
    'sandbox.resume': async ({ params }) => json(await sandboxes.resume(params.id)),
  };
}

function creating(
  engine: Engine,
  { upstreams }: Pick<EgressRules, 'upstreams'>,
): Handler<(typeof sandboxOperations)['sandbox.create']> {
  return async ({ body, caller }) => {
    checkReserved(body);
    checkUpstream(body.upstream, upstreams);
    const source = forkSource(engine, body.from, caller);
    const layers = source === undefined ? await layersOf(engine, body.from) : [];
    const wish: CreateWish = {
      id: newSandboxId(),
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
      warnings: [],
      native: nativeWish(body, source),
    };
    try {
      const { id } = await engine.sandboxes.create(wish);
      return json(engine.sandboxes.describe(sandboxIdSchema.parse(id)));
    } catch (error) {
      throw await namingModule(error, engine, layers);
    }
  };
}

function checkReserved(body: SandboxCreate): void {
  const named = reservedFields.find((field) => body[field] !== undefined);
  if (named === undefined) return;
  throw new AppError('unsupported_feature', `"${named}" is reserved for a part that does not exist yet`);
}

/** @throws sandbox_not_found for another owner's, as if it were not there */
function forkSource(
  { sandboxes }: Engine,
  from: SandboxSource | undefined,
  caller: Caller,
): NativeWish['from'] {
  if (from === undefined || 'layers' in from) return undefined;
  if (!sees(caller, sandboxes.ownerOf(from.sandbox))) {
    throw new NotSeen('sandbox_not_found', `Cannot find sandbox "${from.sandbox}"`);
  }
  return { sandbox: from.sandbox, snapshot: from.snapshot };
}

async function layersOf(engine: Engine, from: SandboxSource | undefined) {
  return from !== undefined && 'layers' in from ? from.layers : [await baseLayer(engine)];
}

function nativeWish(body: SandboxCreate, from: NativeWish['from']): NativeWish {
  const reaches = body.policy !== undefined && body.policy.allow.some((rule) => rule !== 'none');
  return {
    name: body.name ?? null,
    labels: body.labels,
    env: body.env,
    idleTimeoutS: body.idle_timeout_s ?? 0,
    onTimeout: body.on_timeout,
    mustHold: [
      ...(body.cpu === undefined ? [] : ['cpu_limit']),
      ...(body.memory_mb === undefined ? [] : ['memory_limit']),
      ...(reaches ? ['network'] : []),
    ],
    secrets: body.secrets,
    from,
  };
}
