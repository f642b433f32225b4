/** `sandbox.*`: create, look at, destroy. A create chooses the base layer where none is named, and says which fields have no effect. */
import { AppError } from '@squash/contract/errors';
import { type ModuleName, moduleNameSchema } from '@squash/contract/ids';
import type { sandboxOperations } from '@squash/contract/operations/sandboxes';
import type { CreateWish } from '@squash/contract/sandbox';
import type { Engine } from '../engine/engine.ts';
import { empty, json } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import type { EgressRules } from './network.ts';
import { fieldWarnings } from './warnings.ts';

/** The original's default, taken where a module of this name exists. */
const originalBase = moduleNameSchema.parse('000-base-alpine');

export function sandboxHandlers(
  engine: Engine,
  rules: Pick<EgressRules, 'upstreams'>,
): HandlersOf<typeof sandboxOperations> {
  return {
    'sandbox.create': creating(engine, rules),
    'sandbox.list': () => json(engine.sandboxes.list()),
    'sandbox.get': ({ params }) => json(engine.sandboxes.get(params.id)),
    // Answers when nothing of the sandbox runs and its id is free; its files go behind the answer.
    'sandbox.destroy': async ({ params }) => {
      await engine.sandboxes.destroy(params.id);
      return empty;
    },
  };
}

function creating(
  engine: Engine,
  { upstreams }: Pick<EgressRules, 'upstreams'>,
): Handler<(typeof sandboxOperations)['sandbox.create']> {
  return async ({ body, unknownFields }) => {
    if (body.allow_net && body.policy) {
      throw new AppError(
        'invalid_request',
        'allow_net and policy say the same in two ways: send one of them',
      );
    }
    if (body.upstream && !Object.hasOwn(upstreams, body.upstream)) {
      const known = Object.keys(upstreams).join(', ') || 'none';
      throw new AppError(
        'invalid_request',
        `upstream: "${body.upstream}" is no proxy of egress-upstreams.json, which has: ${known}`,
      );
    }
    const layers = body.layers.length > 0 ? body.layers : [await baseLayer(engine)];
    const wish: CreateWish = {
      id: body.id,
      owner: body.owner,
      task: body.task,
      layers,
      cpu: body.cpu,
      memoryMb: body.memory_mb,
      maxLifetimeS: body.max_lifetime_s,
      allowNet: body.allow_net ?? undefined,
      policy: body.policy ?? undefined,
      secrets: body.secrets ?? 'all',
      ownSecrets: body.own_secrets ?? {},
      upstream: body.upstream ?? undefined,
      warnings: fieldWarnings(unknownFields, body),
    };
    try {
      return json(await engine.sandboxes.create(wish));
    } catch (error) {
      throw await namingModule(error, engine, layers);
    }
  };
}

/** The first module that stacks as a base; the original's own comes first where it was brought along. */
async function baseLayer(engine: Engine): Promise<ModuleName> {
  const names = (await engine.modules.list()).map((module) => module.name);
  if (names.includes(originalBase)) return originalBase;
  return names.find((name) => name.startsWith('000-')) ?? originalBase;
}

/** The original's sentence names the missing module, which the request alone does not tell where it lists several. */
async function namingModule(error: unknown, engine: Engine, layers: readonly ModuleName[]): Promise<unknown> {
  if (!(error instanceof AppError) || error.code !== 'module_not_found' || error.subject !== undefined) {
    return error;
  }
  const known = new Set((await engine.modules.list()).map((module) => module.name));
  const missing = layers.find((name) => !known.has(name)) ?? layers[0] ?? originalBase;
  return new AppError(error.code, error.message, { cause: error, subject: missing });
}
