/** The operations that change or save what a sandbox is stacked from. */
import {
  activateBodySchema,
  restoreBodySchema,
  sandboxInfoSchema,
  snapshotAnswerSchema,
  snapshotBodySchema,
} from '../sandbox.ts';
import { defineOperation } from './operation.ts';
import { sandboxParams } from './sandboxes.ts';

export const sandboxActivate = defineOperation({
  id: 'sandbox.activate',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/activate',
  dialect: 'seed',
  summary: 'Add a module to a sandbox; what was written stays, running commands end (137, layers_changed)',
  params: sandboxParams,
  body: activateBodySchema,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxInfoSchema }],
  errors: [
    'sandbox_not_found',
    'module_not_found',
    'module_active',
    'layer_corrupt',
    'sandbox_busy',
    'sandbox_not_ready',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  auth: 'token',
});

export const sandboxSnapshot = defineOperation({
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

export const sandboxRestore = defineOperation({
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
