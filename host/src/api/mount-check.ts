/** `mount.check`: what the rules say of a directory of the host, those about the place and the tier before the judge's. */
import { AppError } from '@squash/contract/errors';
import { groupMountSchema } from '@squash/contract/group-mounts';
import type { MountCheckAnswer, MountCheckBody, MountStep } from '@squash/contract/mount-check';
import { ownerByDefault } from '@squash/contract/sandbox';
import type { Tier } from '@squash/contract/tiers';
import { mountPathSchema } from '@squash/contract/volume';
import { forbiddenMount } from '@squash/groups/network';
import type { Engine } from '../engine/engine.ts';

export interface MountRules {
  readonly volumes: Pick<Engine['volumes'], 'judge'>;
  readonly tiers: () => readonly Tier[];
}

/** @throws tier_not_found */
export function checkMount(wish: MountCheckBody, { volumes, tiers }: MountRules): MountCheckAnswer {
  const { host, mode, owner = ownerByDefault } = wish;
  const steps: MountStep[] = [...placeSteps(wish), ...tierSteps(wish, tiers)];
  if (steps.every(({ allowed }) => allowed)) steps.push(...volumes.judge({ path: host, mode, owner }));
  const refused = steps.findIndex(({ allowed }) => !allowed);
  const asked = refused === -1 ? steps : steps.slice(0, refused + 1);
  return { allowed: refused === -1, mode, reason: steps[refused]?.reason ?? null, steps: asked };
}

function placeSteps({ path, tier }: MountCheckBody): readonly MountStep[] {
  if (path === undefined) return [];
  const schema = tier === undefined ? mountPathSchema : groupMountSchema.shape.path;
  const { error } = schema.safeParse(path);
  const sentence = error?.issues[0]?.message ?? 'a sandbox may have a mount there';
  return [step('place', error === undefined ? null : 'place_refused', sentence)];
}

function tierSteps(
  { tier: name, host, mode }: MountCheckBody,
  tiers: MountRules['tiers'],
): readonly MountStep[] {
  if (name === undefined) return [];
  const tier = tiers().find((each) => each.name === name);
  if (tier === undefined) throw new AppError('tier_not_found', `Cannot find tier "${name}"`);
  const rule = mode === 'cow' ? 'groups have directories as ro or rw' : forbiddenMount(tier, { host, mode });
  return [
    step('tier', rule === undefined ? null : 'tier_forbids', rule ?? `${name}: mounts = ${tier.mounts}`),
  ];
}

function step(rule: string, reason: string | null, sentence: string): MountStep {
  return { rule, allowed: reason === null, reason, sentence };
}
