/** The layer of a create that names none, and the module that a create misses. */
import { AppError } from '@squash/contract/errors';
import { type ModuleName, moduleNameSchema } from '@squash/contract/ids';
import type { Engine } from '../engine/engine.ts';

/** The original's default, taken where a module of this name exists. */
const originalBase = moduleNameSchema.parse('000-base-alpine');

/** The first module that stacks as a base; the original's own comes first where it was brought along. */
export async function baseLayer(engine: Engine): Promise<ModuleName> {
  const names = (await engine.modules.list()).map((module) => module.name);
  if (names.includes(originalBase)) return originalBase;
  return names.find((name) => name.startsWith('000-')) ?? originalBase;
}

/** The original's sentence names the missing module, which the request alone does not tell where it lists several. */
export async function namingModule(
  error: unknown,
  engine: Engine,
  layers: readonly ModuleName[],
): Promise<unknown> {
  if (!(error instanceof AppError) || error.code !== 'module_not_found' || error.subject !== undefined) {
    return error;
  }
  const known = new Set((await engine.modules.list()).map((module) => module.name));
  const missing = layers.find((name) => !known.has(name)) ?? layers[0] ?? originalBase;
  return new AppError(error.code, error.message, { cause: error, subject: missing });
}
