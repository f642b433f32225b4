/** The operations on volumes, and on what a sandbox has attached: volumes and directories of the host. */
import { z } from 'zod';
import {
  mountIdSchema,
  mountInfoSchema,
  mountWishSchema,
  volumeBodySchema,
  volumeInfoSchema,
  volumeRefSchema,
  volumeSnapshotBodySchema,
} from '../volume.ts';
import { mountCheckAnswerSchema, mountCheckBodySchema } from '../mount-check.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape } from './query.ts';
import { labelFilterSchema } from '../labels.ts';
import { sandboxParams } from './sandboxes.ts';

const volumeParams = z.strictObject({ volume: volumeRefSchema.describe('name or id') });

const volumeCreate = defineOperation({
  id: 'volume.create',
  method: 'POST',
  path: '/v1/volumes',
  dialect: 'native',
  summary: 'Make a volume: a directory that outlives the sandboxes it is attached to',
  description:
    'Where the host holds volumes to a size, its room is set aside on the disk at once. `from` copies a volume that is not attached.',
  body: volumeBodySchema,
  answers: [{ status: 201, description: 'The volume', schema: volumeInfoSchema }],
  errors: [
    'volume_exists',
    'volume_not_found',
    'volume_in_use',
    'volume_limit',
    'quota_exceeded',
    'limits_unenforceable',
    'stream_limit',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  permission: 'manage',
});

const volumeList = defineOperation({
  id: 'volume.list',
  method: 'GET',
  path: '/v1/volumes',
  dialect: 'native',
  summary: 'The volumes, sorted by id',
  query: z.strictObject({
    ...pageShape,
    label: labelFilterSchema.optional().describe('`key=value` or `key`, separated by commas: all of them'),
  }),
  answers: [
    {
      status: 200,
      description: 'A page of volumes',
      schema: z.strictObject({ items: z.array(volumeInfoSchema), next: z.string().nullable() }),
    },
  ],
  errors: [],
  permission: 'read',
});

const volumeGet = defineOperation({
  id: 'volume.get',
  method: 'GET',
  path: '/v1/volumes/{volume}',
  dialect: 'native',
  summary: 'Look at one volume',
  params: volumeParams,
  answers: [{ status: 200, description: 'The volume', schema: volumeInfoSchema }],
  errors: ['volume_not_found'],
  permission: 'read',
});

const volumeRemove = defineOperation({
  id: 'volume.remove',
  method: 'DELETE',
  path: '/v1/volumes/{volume}',
  dialect: 'native',
  summary: 'Remove a volume that no sandbox has attached, and all that is in it',
  params: volumeParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['volume_not_found', 'volume_in_use', 'disk_full'],
  permission: 'manage',
});

const volumeSnapshot = defineOperation({
  id: 'volume.snapshot',
  method: 'POST',
  path: '/v1/volumes/{volume}/snapshots',
  dialect: 'native',
  summary: 'Copy a volume that is not attached, to be read by any number of sandboxes',
  description:
    'The snapshot is a volume itself, attached read-only; a volume made `from` it can be written. A copy of all files: without blocks shared by the file system it takes as long, and as much room, as they have bytes.',
  params: volumeParams,
  body: volumeSnapshotBodySchema,
  answers: [{ status: 201, description: 'The snapshot', schema: volumeInfoSchema }],
  errors: [
    'volume_not_found',
    'volume_exists',
    'volume_in_use',
    'volume_limit',
    'quota_exceeded',
    'stream_limit',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  permission: 'manage',
});

const mountAttach = defineOperation({
  id: 'mount.attach',
  method: 'POST',
  path: '/v1/sandboxes/{id}/mounts',
  dialect: 'native',
  summary: 'Attach a volume or a directory of the host to a sandbox, while it runs',
  description:
    'It stays through every restart of the sandbox until it is detached. Neither set-uid programs nor device nodes work in it.',
  params: sandboxParams,
  body: mountWishSchema,
  answers: [{ status: 201, description: 'The mount', schema: mountInfoSchema }],
  errors: [
    'sandbox_not_found',
    'sandbox_not_ready',
    'sandbox_busy',
    'volume_not_found',
    'volume_in_use',
    'host_directory_refused',
    'mount_exists',
    'mount_limit',
    'mount_refused',
    'vm_unsupported',
    'vm_unavailable',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  permission: 'manage',
});

const mountCheck = defineOperation({
  id: 'mount.check',
  method: 'POST',
  path: '/v1/mounts/check',
  dialect: 'native',
  summary: 'Whether a sandbox would get a directory of the host, and what each rule says of it',
  description: 'Nothing is attached. With `tier` it is about the runs of a group of this tier.',
  body: mountCheckBodySchema,
  answers: [{ status: 200, description: 'What the rules say', schema: mountCheckAnswerSchema }],
  errors: ['tier_not_found'],
  permission: 'admin',
});

const mountList = defineOperation({
  id: 'mount.list',
  method: 'GET',
  path: '/v1/sandboxes/{id}/mounts',
  dialect: 'native',
  summary: 'What a sandbox has attached, sorted by path',
  params: sandboxParams,
  answers: [
    {
      status: 200,
      description: 'The mounts, all of them',
      schema: z.strictObject({ items: z.array(mountInfoSchema), next: z.null() }),
    },
  ],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const mountDetach = defineOperation({
  id: 'mount.detach',
  method: 'DELETE',
  path: '/v1/sandboxes/{id}/mounts/{mount}',
  dialect: 'native',
  summary: 'Detach it; refused while a program in the sandbox uses it',
  params: sandboxParams.extend({ mount: mountIdSchema }),
  answers: [{ status: 204, description: 'The sandbox does not have it any more' }],
  errors: [
    'sandbox_not_found',
    'sandbox_not_ready',
    'sandbox_busy',
    'mount_not_found',
    'mount_busy',
    'mount_refused',
    'vm_unsupported',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
  ],
  permission: 'manage',
});

export const volumeOperations = {
  'volume.create': volumeCreate,
  'volume.list': volumeList,
  'volume.get': volumeGet,
  'volume.remove': volumeRemove,
  'volume.snapshot': volumeSnapshot,
  'mount.attach': mountAttach,
  'mount.check': mountCheck,
  'mount.list': mountList,
  'mount.detach': mountDetach,
} as const satisfies Operations;
