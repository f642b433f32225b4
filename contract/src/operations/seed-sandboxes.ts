/** The original's operations on sandboxes themselves: create, list, look at, destroy. */
import { z } from 'zod';
import { createBodySchema, sandboxInfoSchema } from '../sandbox.ts';
import { defineOperation, type Operations } from './operation.ts';
import { sandboxParams } from './sandboxes.ts';

const seedCreate = defineOperation({
  id: 'seed.create',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes',
  dialect: 'seed',
  summary: 'Create a sandbox from a stack of layers',
  description: 'Returns when the sandbox takes commands. Unknown fields are answered in `warnings`.',
  body: createBodySchema,
  answers: [{ status: 201, description: 'The sandbox', schema: sandboxInfoSchema }],
  errors: [
    'quota_exceeded',
    'sandbox_exists',
    'sandbox_limit',
    'sandbox_not_found',
    'ceiling_exceeded',
    'host_full',
    'module_not_found',
    'bucket_unavailable',
    'module_incompatible',
    'layer_corrupt',
    'limits_unenforceable',
    'volume_not_found',
    'volume_in_use',
    'host_directory_refused',
    'host_path_refused',
    'vm_unavailable',
    'vm_unsupported',
    'mount_exists',
    'mount_limit',
    'mount_refused',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
    'guest_failed',
  ],
  permission: 'manage',
});

const seedList = defineOperation({
  id: 'seed.list',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes',
  dialect: 'seed',
  summary: 'List the sandboxes that the caller may see, sorted by id',
  answers: [{ status: 200, description: 'All sandboxes', schema: z.array(sandboxInfoSchema) }],
  errors: [],
  permission: 'read',
});

const seedGet = defineOperation({
  id: 'seed.get',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes/{id}',
  dialect: 'seed',
  summary: 'Look at one sandbox',
  params: sandboxParams,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxInfoSchema }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const seedDestroy = defineOperation({
  id: 'seed.destroy',
  method: 'DELETE',
  path: '/cgi-bin/api/sandboxes/{id}',
  dialect: 'seed',
  summary: 'End everything in a sandbox and remove it with its files and snapshots',
  params: sandboxParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: [
    'bucket_unavailable',
    'bucket_conflict',
    'disk_full',
    'sandbox_not_found',
    'sandbox_busy',
    'launcher_unavailable',
  ],
  permission: 'manage',
});

export const seedSandboxOperations = {
  'seed.list': seedList,
  'seed.create': seedCreate,
  'seed.get': seedGet,
  'seed.destroy': seedDestroy,
} as const satisfies Operations;
