/** `audit.list`: what the audit holds, newest first. */
import type { AuditFilters, AuditList } from '@squash/contract/audit';
import type { Problem } from '@squash/contract/daemon';
import type { auditOperations } from '@squash/contract/operations/audit';
import { limits } from '@squash/contract/limits';
import type { Metric } from '@squash/base/metric';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

/** What the API needs of the audit beside its lines; `AuditLog` is one. */
export interface AuditParts {
  /** @throws invalid_request where the cursor is none */
  read(page: {
    readonly of?: 'requests' | 'agents' | undefined;
    readonly filters: AuditFilters;
    readonly limit: number;
    readonly cursor: string | undefined;
  }): Promise<AuditList>;
  problems(): readonly Problem[];
  metrics(): readonly Metric[];
}

export function auditHandlers(audit: AuditParts): HandlersOf<typeof auditOperations> {
  return {
    'audit.list': async ({ query: { limit = limits.pageItemsDefault, cursor, of, ...filters } }) =>
      json(await audit.read({ of, filters, limit, cursor })),
  };
}
