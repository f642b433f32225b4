/** The operations that save what was written in a sandbox, and go back to it. */
import { z } from 'zod';
import { labelFilterSchema } from '../labels.ts';
import { sandboxSchema } from '../native-sandbox.ts';
import {
  diffAgainstSchema,
  diffPageSchema,
  snapshotChangeSchema,
  snapshotCreateSchema,
  snapshotPageSchema,
  snapshotRestoreSchema,
  snapshotSchema,
  snapshotTakenSchema,
} from '../native-snapshot.ts';
import {
  parseLabel,
  restoreBodySchema,
  sandboxInfoSchema,
  snapshotAnswerSchema,
  snapshotBodySchema,
} from '../sandbox.ts';
import { defineOperation, type Operations } from './operation.ts';
import { diffPageShape, pageShape } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const takeErrors = [
  'quota_exceeded',
  'sandbox_not_found',
  'host_root_unsupported',
  'vm_unsupported',
  'snapshot_exists',
  'snapshot_path_too_long',
  'sandbox_busy',
  'sandbox_not_ready',
  'disk_full',
  'launcher_unavailable',
] as const;

const restoreErrors = [
  'sandbox_not_found',
  'host_root_unsupported',
  'vm_unsupported',
  'snapshot_not_found',
  'module_not_found',
  'bucket_unavailable',
  'quota_exceeded',
  'layer_corrupt',
  'sandbox_busy',
  'host_full',
  'disk_full',
  'launch_failed',
  'launcher_unavailable',
] as const;

const seedSnapshot = defineOperation({
  id: 'seed.snapshot',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/snapshot',
  dialect: 'seed',
  summary: 'Save what was written as a squashfs file; commands stand still meanwhile and go on',
  params: sandboxParams,
  body: snapshotBodySchema,
  answers: [{ status: 200, description: 'The snapshot', schema: snapshotAnswerSchema }],
  errors: takeErrors,
  permission: 'manage',
});

const seedRestore = defineOperation({
  id: 'seed.restore',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/restore',
  dialect: 'seed',
  summary: 'Replace what was written by a snapshot; running commands end (137, layers_changed)',
  params: sandboxParams,
  body: restoreBodySchema,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxInfoSchema }],
  errors: restoreErrors,
  permission: 'manage',
});

const snapshotCreate = defineOperation({
  id: 'snapshot.create',
  method: 'POST',
  path: '/v1/sandboxes/{id}/snapshots',
  dialect: 'native',
  summary: 'Save what was written in a sandbox; commands stand still meanwhile and go on',
  description:
    'Of one that is stopped its files are saved as they lie there. With `memory` a microVM in QEMU is saved with its processes: it stands still ' +
    'meanwhile and can not be reached, and goes on.',
  params: sandboxParams,
  body: snapshotCreateSchema,
  answers: [{ status: 201, description: 'The snapshot', schema: snapshotTakenSchema }],
  errors: [...takeErrors, 'unsupported_feature', 'guest_failed', 'launch_failed'],
  permission: 'manage',
});

const snapshotRestore = defineOperation({
  id: 'snapshot.restore',
  method: 'POST',
  path: '/v1/sandboxes/{id}/restore',
  dialect: 'native',
  summary: 'Replace what was written in a sandbox by a snapshot of it; running commands end',
  params: sandboxParams,
  body: snapshotRestoreSchema,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxSchema }],
  errors: [...restoreErrors, 'unsupported_feature'],
  permission: 'manage',
});

const snapshotParams = sandboxParams.extend({ label: z.string().transform(parseLabel) });

const snapshotList = defineOperation({
  id: 'snapshot.list',
  method: 'GET',
  path: '/v1/sandboxes/{id}/snapshots',
  dialect: 'native',
  summary: 'The snapshots of a sandbox, oldest first',
  description:
    'A squashfs file that was put into the sandbox\u2019s `snapshots/` directory by hand is found here.',
  params: sandboxParams,
  query: z.strictObject({
    ...pageShape,
    label: labelFilterSchema.optional().describe('`key=value` or `key`, separated by commas: all of them'),
  }),
  answers: [{ status: 200, description: 'A page', schema: snapshotPageSchema }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const snapshotGet = defineOperation({
  id: 'snapshot.get',
  method: 'GET',
  path: '/v1/sandboxes/{id}/snapshots/{label}',
  dialect: 'native',
  summary: 'Look at one snapshot',
  params: snapshotParams,
  answers: [{ status: 200, description: 'The snapshot', schema: snapshotSchema }],
  errors: ['sandbox_not_found', 'snapshot_not_found'],
  permission: 'read',
});

const snapshotUpdate = defineOperation({
  id: 'snapshot.update',
  method: 'PATCH',
  path: '/v1/sandboxes/{id}/snapshots/{label}',
  dialect: 'native',
  summary: 'Change the label and the labels of a snapshot',
  params: snapshotParams,
  body: snapshotChangeSchema,
  answers: [{ status: 200, description: 'The snapshot as it is now', schema: snapshotSchema }],
  errors: ['sandbox_not_found', 'snapshot_not_found', 'snapshot_exists', 'sandbox_busy', 'disk_full'],
  permission: 'manage',
});

const snapshotRemove = defineOperation({
  id: 'snapshot.remove',
  method: 'DELETE',
  path: '/v1/sandboxes/{id}/snapshots/{label}',
  dialect: 'native',
  summary: 'Remove a snapshot; what lies on it goes on',
  description:
    'Its label is free at once. Where the sandbox or another snapshot lies on it, its file goes when nothing does any more.',
  params: snapshotParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['sandbox_not_found', 'snapshot_not_found', 'sandbox_busy', 'disk_full'],
  permission: 'manage',
});

const snapshotDownload = defineOperation({
  id: 'snapshot.download',
  method: 'GET',
  path: '/v1/sandboxes/{id}/snapshots/{label}/file',
  dialect: 'native',
  summary: 'The snapshot as one squashfs file: all that was written, whatever it was taken on',
  description:
    'One that is not whole is merged first, which takes a while; other operations on the sandbox wait.',
  params: snapshotParams,
  answers: [{ status: 200, description: 'The file', contentType: 'application/octet-stream' }],
  errors: [
    'sandbox_not_found',
    'snapshot_not_found',
    'layer_corrupt',
    'snapshot_path_too_long',
    'sandbox_busy',
    'stream_limit',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  permission: 'read',
  example: { file: 'clean.squashfs' },
});

const snapshotDiff = defineOperation({
  id: 'snapshot.diff',
  method: 'GET',
  path: '/v1/sandboxes/{id}/snapshots/{label}/diff',
  dialect: 'native',
  summary:
    'What was added, changed and removed between two snapshots, or between one and the sandbox as it is now',
  description:
    'Told by path, from the older side to the newer. A file has changed when its bytes, owner or mode have; one of more than ' +
    '64 MiB that kept its length, when its time has. What each start makes where the modules have none (/etc/hosts, /etc/resolv.conf, /tmp) is among it. ' +
    'A sandbox that runs goes on meanwhile.',
  params: snapshotParams,
  query: z.strictObject({
    against: diffAgainstSchema,
    ...diffPageShape,
  }),
  answers: [{ status: 200, description: 'A page', schema: diffPageSchema }],
  errors: [
    'sandbox_not_found',
    'snapshot_not_found',
    'layer_corrupt',
    'snapshot_path_too_long',
    'vm_unsupported',
    'sandbox_busy',
    'stream_limit',
    'module_not_found',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  permission: 'read',
});

const snapshotUpload = defineOperation({
  id: 'snapshot.upload',
  method: 'PUT',
  path: '/v1/sandboxes/{id}/snapshots/{label}/file',
  dialect: 'native',
  summary: 'Store a squashfs file as a snapshot, to be restored on the modules that the sandbox has now',
  description:
    'The body is the file itself. It is unpacked before it is accepted; the sandbox stays as it is.',
  params: snapshotParams,
  upload: { contentType: 'application/octet-stream', description: 'A squashfs file' },
  answers: [{ status: 200, description: 'The snapshot', schema: snapshotSchema }],
  errors: [
    'quota_exceeded',
    'sandbox_not_found',
    'host_root_unsupported',
    'vm_unsupported',
    'snapshot_exists',
    'snapshot_invalid',
    'sandbox_busy',
    'stream_limit',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  permission: 'manage',
  example: { file: 'clean.squashfs' },
});

export const snapshotOperations = {
  'snapshot.create': snapshotCreate,
  'snapshot.list': snapshotList,
  'snapshot.get': snapshotGet,
  'snapshot.update': snapshotUpdate,
  'snapshot.remove': snapshotRemove,
  'snapshot.restore': snapshotRestore,
  'snapshot.diff': snapshotDiff,
  'snapshot.download': snapshotDownload,
  'snapshot.upload': snapshotUpload,
  'seed.snapshot': seedSnapshot,
  'seed.restore': seedRestore,
} as const satisfies Operations;
