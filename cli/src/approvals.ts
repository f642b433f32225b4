/** What the commands about approvals share: where they lie, and how they are shown. A sandbox chose their hosts and paths. */
import type { ApprovalInfo } from '@squash/contract/approvals';
import { apiPath, type Query } from './client/client.ts';
import { destinationText } from './output/destination.ts';
import { visible } from './output/print.ts';

export interface ApprovalPage {
  readonly items: readonly ApprovalInfo[];
  readonly next: string | null;
}

export function approvalsPath(query: Query = {}): string {
  return apiPath(['v1', 'approvals'], query);
}

export function approvalPath(id: string): string {
  return apiPath(['v1', 'approvals', id]);
}

export function standingPath(more: readonly string[] = []): string {
  return apiPath(['v1', 'standing-approvals', ...more]);
}

/** All on one line. */
export function wantedText(approval: ApprovalInfo): string {
  return visible(destinationText(approval));
}
