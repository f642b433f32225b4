/** Labels of sandboxes and of snapshots: how a patch changes them, and which a filter finds. */
import { AppError } from '@squash/contract/errors';
import type { LabelFilter } from '@squash/contract/labels';
import { limits } from '@squash/contract/limits';

type Labels = Readonly<Record<string, string>>;

/** @throws invalid_request where they become too many */
export function mergedLabels(
  now: Labels,
  patch: Readonly<Record<string, string | null>>,
): Record<string, string> {
  const all = Object.entries({ ...now, ...patch });
  const kept = all.flatMap(([key, value]) => (value === null ? [] : [[key, value] as const]));
  if (kept.length > limits.labelsMax) {
    throw new AppError('invalid_request', `labels: ${limits.labelsMax} at most`);
  }
  return Object.fromEntries(kept);
}

export function hasLabels(labels: Labels, filter: LabelFilter | undefined): boolean {
  return (filter ?? []).every(({ key, value }) =>
    value === undefined ? Object.hasOwn(labels, key) : labels[key] === value,
  );
}
