/** The operations that save what was written in a sandbox, and go back to it. */
import {
  restoreBodySchema,
  sandboxInfoSchema,
  snapshotAnswerSchema,
  snapshotBodySchema,
} from '../sandbox.ts';
import { defineOperation, type Operations } from './operation.ts';
import { sandboxParams } from './sandboxes.ts';

const sandboxSnapshot = defineOperation({
  id: 'sandbox.snapshot',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/snapshot',
  dialect: 'seed',
  summary: 'Save what was written as a squashfs file; commands stand still meanwhile and go on',
  params: sandboxParams,
  body: snapshotBodySchema,
  answers: [{ status: 200, description: 'The snapshot', schema: snapshotAnswerSchema }],
  errors: [
    'sandbox_not_found',
    'snapshot_exists',
    'snapshot_path_too_long',
    'sandbox_busy',
    'sandbox_not_ready',
    'disk_full',
    'launcher_unavailable',
  ],
  auth: 'token',
});

const sandboxRestore = defineOperation({
  id: 'sandbox.restore',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/restore',
  dialect: 'seed',
  summary: 'Replace what was written by a snapshot; running commands end (137, layers_changed)',
  params: sandboxParams,
  body: restoreBodySchema,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxInfoSchema }],
  errors: [
    'sandbox_not_found',
    'snapshot_not_found',
    'layer_corrupt',
    'sandbox_busy',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  auth: 'token',
});

export const snapshotOperations = {
  'sandbox.snapshot': sandboxSnapshot,
  'sandbox.restore': sandboxRestore,
} as const satisfies Operations;
