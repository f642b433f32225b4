/** A box as the API tells of it: a sandbox with paths of the host. */
import type { SandboxRecord } from '@squash/contract/native-sandbox';

export type BoxRecord = SandboxRecord;

/** Of which directory a box's work is kept. The daemon's own labels are not ours to set. */
export const repositoryLabel = 'box.repository';

export function repositoryOf({ labels }: Pick<BoxRecord, 'labels'>): string | undefined {
  return labels[repositoryLabel];
}

/** On which branch it began, where it was to have one of its own. */
export const branchLabel = 'box.branch';

export function branchOf({ labels }: Pick<BoxRecord, 'labels'>): string | undefined {
  return labels[branchLabel];
}

/** What was checked out here when it began: `<commit> <branch>`. */
export const baseLabel = 'box.base';

export function baseOf({ labels }: Pick<BoxRecord, 'labels'>) {
  const [commit = '', ref = ''] = (labels[baseLabel] ?? '').split(' ');
  return { commit, ref };
}
