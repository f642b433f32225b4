/** The operations on modules: the layers that sandboxes are stacked from, and adding one to a sandbox that runs. */
import { z } from 'zod';
import { moduleNameSchema } from '../ids.ts';
import { moduleInfoSchema, moduleNamesSchema } from '../module.ts';
import { activateBodySchema, sandboxInfoSchema } from '../sandbox.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryFlag } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const moduleParams = z.strictObject({ name: moduleNameSchema });

const moduleList = defineOperation({
  id: 'module.list',
  method: 'GET',
  path: '/cgi-bin/api/modules',
  dialect: 'seed',
  summary: 'The modules, sorted by name',
  description:
    'Two shapes, because the original has had both: an array of objects, or with `format=names` an object.',
  query: z.strictObject({
    format: z
      .enum(['full', 'names'], { error: 'format must be full or names' })
      .optional()
      .describe('`names`: {"modules":["000-base-debian",…]}, as the last version of the original'),
  }),
  answers: [
    {
      status: 200,
      description: 'The modules',
      schema: z.union([z.array(moduleInfoSchema), moduleNamesSchema]),
    },
  ],
  errors: [],
  permission: 'read',
});

const moduleImport = defineOperation({
  id: 'module.import',
  method: 'PUT',
  path: '/v1/modules/{name}',
  dialect: 'native',
  summary: 'Store a squashfs file as a module',
  description: 'The body is the file itself. The same file under the same name again changes nothing.',
  params: moduleParams,
  query: z.strictObject({
    replace: queryFlag('replace').describe(
      '`true`: another file of this name is replaced; sandboxes keep what they were stacked from',
    ),
  }),
  upload: { contentType: 'application/octet-stream', description: 'A squashfs file' },
  answers: [{ status: 200, description: 'The module', schema: moduleInfoSchema }],
  errors: [
    'module_exists',
    'module_invalid',
    'layer_corrupt',
    'stream_limit',
    'disk_full',
    'launcher_unavailable',
  ],
  permission: 'admin',
  example: { file: 'tools.squashfs' },
});

const moduleRemove = defineOperation({
  id: 'module.remove',
  method: 'DELETE',
  path: '/v1/modules/{name}',
  dialect: 'native',
  summary: 'Remove a module that no sandbox is stacked from',
  params: moduleParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['module_not_found', 'module_in_use'],
  permission: 'admin',
});

const sandboxActivate = defineOperation({
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
  permission: 'manage',
});

export const moduleOperations = {
  'module.list': moduleList,
  'module.import': moduleImport,
  'module.remove': moduleRemove,
  'sandbox.activate': sandboxActivate,
} as const satisfies Operations;
