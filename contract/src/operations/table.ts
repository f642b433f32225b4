/** Every operation of the API, a line for each noun. An operation that is not here is not served. */
import { auditOperations } from './audit.ts';
import { approvalOperations } from './approvals.ts';
import { bucketOperations } from './bucket.ts';
import { changeOperations } from './changes.ts';
import { callerOperations } from './callers.ts';
import { contextOperations } from './contexts.ts';
import { daemonOperations } from './daemon.ts';
import { fileOperations } from './files.ts';
import { keyOperations } from './keys.ts';
import { sshKeyOperations } from './ssh-keys.ts';
import { eventOperations } from './events.ts';
import { groupOperations } from './groups.ts';
import { imageOperations } from './images.ts';
import { moduleOperations } from './modules.ts';
import { networkOperations } from './network.ts';
import type { Operations } from './operation.ts';
import { ownerOperations } from './owners.ts';
import { pathOperations } from './paths.ts';
import { portOperations } from './ports.ts';
import { processOperations } from './processes.ts';
import { sandboxOperations } from './sandboxes.ts';
import { scheduleOperations } from './schedules.ts';
import { seedSandboxOperations } from './seed-sandboxes.ts';
import { secretOperations } from './secrets.ts';
import { snapshotOperations } from './snapshots.ts';
import { ticketOperations } from './tickets.ts';
import { usageOperations } from './usage.ts';
import { webhookOperations } from './webhooks.ts';
import { volumeOperations } from './volumes.ts';

export const operations = {
  ...sandboxOperations,
  ...seedSandboxOperations,
  ...processOperations,
  ...contextOperations,
  ...fileOperations,
  ...portOperations,
  ...callerOperations,
  ...moduleOperations,
  ...imageOperations,
  ...snapshotOperations,
  ...bucketOperations,
  ...volumeOperations,
  ...changeOperations,
  ...pathOperations,
  ...networkOperations,
  ...approvalOperations,
  ...secretOperations,
  ...keyOperations,
  ...sshKeyOperations,
  ...ownerOperations,
  ...auditOperations,
  ...ticketOperations,
  ...usageOperations,
  ...eventOperations,
  ...webhookOperations,
  ...groupOperations,
  ...scheduleOperations,
  ...daemonOperations,
} as const satisfies Operations;

export type OperationId = keyof typeof operations;
export type OperationOf<T extends OperationId> = (typeof operations)[T];

/** Errors that any operation may answer: they come from the gate and the parsing, before the handler. */
export const commonErrors = [
  'invalid_request',
  'invalid_json',
  'unauthorized',
  'token_required',
  'forbidden',
  'origin_refused',
  'not_found',
  'method_not_allowed',
  'request_timeout',
  'body_too_large',
  'unsupported_media_type',
  'shutting_down',
  'internal',
] as const;

/**
 * Addresses of the original's last version that this Squash does not serve: each answers 501 with its sentence,
 * so that a client learns that the part is missing, not that it misspelt the address.
 */
export const notOffered: Readonly<Record<string, string>> = {
  '/cgi-bin/api/sandboxes/{id}/fork':
    'fork is not offered: snapshot the sandbox, download the snapshot whole and upload it to another sandbox',
  '/cgi-bin/api/sandboxes/{id}/diff':
    'diff is not offered: snapshots are squashfs files that can be compared',
  '/cgi-bin/api/sandboxes/{id}/task': 'task is not offered: run the agent by exec-bg',
  '/cgi-bin/api/sandboxes/{id}/gui': 'gui is not offered: sandboxes have no desktop',
  '/cgi-bin/api/sandboxes/{id}/novnc': 'novnc is not offered: sandboxes have no desktop',
  '/cgi-bin/api/sandboxes/{id}/wg': 'wg is not offered: sandboxes reach nothing by UDP',
};
