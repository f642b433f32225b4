/** A box as the API tells of it: a sandbox with paths of the host. */
import type { SandboxRecord } from '@squash/contract/native-sandbox';

export type BoxRecord = SandboxRecord;

/** Of which directory a box's work is kept. The daemon's own labels are not ours to set. */
export const repositoryLabel = 'box.repository';

export function repositoryOf({ labels }: Pick<BoxRecord, 'labels'>): string | undefined {
  return labels[repositoryLabel];
}
