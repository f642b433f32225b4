/** The operations on sandboxes themselves: create, list, look at, destroy. */
import { z } from 'zod';
import { sandboxIdSchema } from '../ids.ts';
import { createBodySchema, sandboxInfoSchema } from '../sandbox.ts';
import { defineOperation, type Operations } from './operation.ts';

export const sandboxParams = z.strictObject({ id: sandboxIdSchema });

const sandboxCreate = defineOperation({
  id: 'sandbox.create',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes',
  dialect: 'seed',
  summary: 'Create a sandbox from a stack of layers',
  description: 'Returns when the sandbox takes commands. Unknown fields are answered in `warnings`.',
  body: createBodySchema,
  answers: [{ status: 201, description: 'The sandbox', schema: sandboxInfoSchema }],
  errors: [
    'sandbox_exists',
    'sandbox_limit',
    'ceiling_exceeded',
    'host_full',
    'module_not_found',
    'layer_corrupt',
    'limits_unenforceable',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
    'guest_failed',
  ],
  permission: 'manage',
});

const sandboxList = defineOperation({
  id: 'sandbox.list',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes',
  dialect: 'seed',
  summary: 'List all sandboxes, sorted by id',
  answers: [{ status: 200, description: 'All sandboxes', schema: z.array(sandboxInfoSchema) }],
  errors: [],
  permission: 'read',
});

const sandboxGet = defineOperation({
  id: 'sandbox.get',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes/{id}',
  dialect: 'seed',
  summary: 'Look at one sandbox',
  params: sandboxParams,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxInfoSchema }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const sandboxDestroy = defineOperation({
  id: 'sandbox.destroy',
  method: 'DELETE',
  path: '/cgi-bin/api/sandboxes/{id}',
  dialect: 'seed',
  summary: 'End everything in a sandbox and remove it with its files and snapshots',
  params: sandboxParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['sandbox_not_found', 'sandbox_busy', 'launcher_unavailable'],
  permission: 'manage',
});

export const sandboxOperations = {
  'sandbox.list': sandboxList,
  'sandbox.create': sandboxCreate,
  'sandbox.get': sandboxGet,
  'sandbox.destroy': sandboxDestroy,
} as const satisfies Operations;
