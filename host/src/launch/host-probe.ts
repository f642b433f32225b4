/**
 * What this host offers, as `squash-launch` found it: one capability per `entry` frame, in the order to be shown.
 */
import type { Capability } from '@squash/contract/capability';
import { AppError } from '@squash/contract/errors';
import type { FieldReader } from '@squash/contract/guest/fields';
import type { LaunchClient } from './launch-client.ts';

const states = ['ok', 'weaker', 'missing'] as const;
const textBytesMax = 1_024;

/** @throws launcher_unavailable */
export async function probeHost(launcher: LaunchClient): Promise<readonly Capability[]> {
  const { entries } = await launcher.ask('hostProbe');
  return entries.map(parseCapability);
}

function parseCapability(entry: FieldReader): Capability {
  const state = states[entry.integer('status', { max: states.length - 1 })];
  if (state === undefined) throw new AppError('launch_failed', 'squash-launch gives a capability no state');
  return {
    name: entry.text('capability', 64),
    state,
    required: entry.flag('required'),
    found: entry.text('found', textBytesMax),
    choice: entry.text('choice', textBytesMax),
    weaker: entry.optionalText('weaker', textBytesMax) ?? null,
    remedy: entry.optionalText('remedy', textBytesMax) ?? null,
  };
}
