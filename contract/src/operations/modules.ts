/** The operations on modules: the layers that sandboxes are stacked from, and adding one to a sandbox that runs. */
import { z } from 'zod';
import { moduleNameSchema } from '../ids.ts';
import { moduleManifestSchema } from '../module-manifest.ts';
import {
  gcAnswerSchema,
  gcBodySchema,
  moduleActivateSchema,
  moduleDetailsSchema,
  moduleInfoSchema,
  moduleNamesSchema,
  modulePageSchema,
  moduleSchema,
  seedGcAnswerSchema,
  seedGcBodySchema,
} from '../module.ts';
import { sandboxSchema } from '../native-sandbox.ts';
import { activateBodySchema, sandboxInfoSchema } from '../sandbox.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape, queryFlag } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const moduleParams = z.strictObject({ name: moduleNameSchema });

const seedModules = defineOperation({
  id: 'seed.modules',
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

const moduleList = defineOperation({
  id: 'module.list',
  method: 'GET',
  path: '/v1/modules',
  dialect: 'native',
  summary: 'The modules, sorted by name',
  query: z.strictObject(pageShape),
  answers: [{ status: 200, description: 'A page', schema: modulePageSchema }],
  errors: [],
  permission: 'read',
});

const moduleGet = defineOperation({
  id: 'module.get',
  method: 'GET',
  path: '/v1/modules/{name}',
  dialect: 'native',
  summary: 'Look at one module: its digest, its manifest, what its programs need',
  params: moduleParams,
  answers: [{ status: 200, description: 'The module', schema: moduleDetailsSchema }],
  errors: ['module_not_found', 'layer_corrupt'],
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
  answers: [{ status: 200, description: 'The module', schema: moduleSchema }],
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

const moduleDescribe = defineOperation({
  id: 'module.describe',
  method: 'PUT',
  path: '/v1/modules/{name}/manifest',
  dialect: 'native',
  summary: 'Say what a module is made of: its manifest',
  description:
    'Whoever built the module sends it after the file. One whose `squashfs_sha256` is not the module’s is refused, so it can’t describe another file.',
  params: moduleParams,
  body: moduleManifestSchema,
  answers: [{ status: 200, description: 'The module', schema: moduleDetailsSchema }],
  errors: ['module_not_found', 'layer_corrupt', 'disk_full'],
  permission: 'admin',
});

const moduleVerify = defineOperation({
  id: 'module.verify',
  method: 'POST',
  path: '/v1/modules/{name}/verify',
  dialect: 'native',
  summary: 'Read all of a module again, and compare it with the digest in its manifest',
  params: moduleParams,
  answers: [{ status: 200, description: 'It is what it was', schema: moduleDetailsSchema }],
  errors: ['module_not_found', 'layer_corrupt', 'stream_limit'],
  permission: 'admin',
});

const moduleDownload = defineOperation({
  id: 'module.download',
  method: 'GET',
  path: '/v1/modules/{name}/file',
  dialect: 'native',
  summary: 'The module as a squashfs file',
  params: moduleParams,
  answers: [{ status: 200, description: 'The file', contentType: 'application/octet-stream' }],
  errors: ['module_not_found', 'layer_corrupt', 'stream_limit'],
  permission: 'manage',
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

const moduleGc = defineOperation({
  id: 'module.gc',
  method: 'POST',
  path: '/v1/gc',
  dialect: 'native',
  summary: 'Remove unpacked layers that no sandbox stands on',
  description:
    'They are unpacked again from their module or snapshot when they are wanted, which takes that create or restore longer. No module and no snapshot goes.',
  body: gcBodySchema,
  answers: [{ status: 200, description: 'What went, or would go', schema: gcAnswerSchema }],
  errors: ['launcher_unavailable'],
  permission: 'admin',
});

const seedGc = defineOperation({
  id: 'seed.gc',
  method: 'POST',
  path: '/cgi-bin/api/gc',
  dialect: 'seed',
  summary: 'Remove unpacked layers that no sandbox stands on',
  body: seedGcBodySchema,
  answers: [{ status: 200, description: 'What went, or would go', schema: seedGcAnswerSchema }],
  errors: ['launcher_unavailable'],
  permission: 'admin',
});

const activateErrors = [
  'sandbox_not_found',
  'host_root_unsupported',
  'vm_unsupported',
  'module_not_found',
  'bucket_unavailable',
  'module_active',
  'module_incompatible',
  'layer_corrupt',
  'sandbox_busy',
  'sandbox_not_ready',
  'disk_full',
  'launch_failed',
  'launcher_unavailable',
] as const;

const moduleActivate = defineOperation({
  id: 'module.activate',
  method: 'POST',
  path: '/v1/sandboxes/{id}/modules',
  dialect: 'native',
  summary: 'Add a module to a sandbox; what was written stays, running commands end',
  params: sandboxParams,
  body: moduleActivateSchema,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxSchema }],
  errors: activateErrors,
  permission: 'manage',
});

const seedActivate = defineOperation({
  id: 'seed.activate',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/activate',
  dialect: 'seed',
  summary: 'Add a module to a sandbox; what was written stays, running commands end (137, layers_changed)',
  params: sandboxParams,
  body: activateBodySchema,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxInfoSchema }],
  errors: activateErrors,
  permission: 'manage',
});

export const moduleOperations = {
  'module.list': moduleList,
  'module.get': moduleGet,
  'module.import': moduleImport,
  'module.describe': moduleDescribe,
  'module.verify': moduleVerify,
  'module.download': moduleDownload,
  'module.remove': moduleRemove,
  'module.gc': moduleGc,
  'module.activate': moduleActivate,
  'seed.modules': seedModules,
  'seed.gc': seedGc,
  'seed.activate': seedActivate,
} as const satisfies Operations;
