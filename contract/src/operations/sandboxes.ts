/** The operations on sandboxes themselves: create, find, change, put to rest, destroy. */
import { z } from 'zod';
import { sandboxIdSchema } from '../ids.ts';
import { labelFilterSchema } from '../labels.ts';
import { limits } from '../limits.ts';
import {
  sandboxChangeSchema,
  sandboxCreateSchema,
  sandboxPageSchema,
  sandboxSchema,
  sandboxStates,
} from '../native-sandbox.ts';
import { processExecBodySchema, processResultSchema } from '../process.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape } from './query.ts';

export const sandboxParams = z.strictObject({ id: sandboxIdSchema });

const createErrors = [
  'idempotency_mismatch',
  'quota_exceeded',
  'sandbox_limit',
  'sandbox_not_found',
  'snapshot_not_found',
  'ceiling_exceeded',
  'host_full',
  'module_not_found',
  'bucket_unavailable',
  'image_not_found',
  'image_invalid',
  'image_unsupported',
  'registry_unavailable',
  'registry_denied',
  'registry_credentials_unreadable',
  'stream_limit',
  'module_incompatible',
  'layer_corrupt',
  'limits_unenforceable',
  'unsupported_feature',
  'volume_not_found',
  'volume_in_use',
  'host_directory_refused',
  'host_root_unavailable',
  'vm_unavailable',
  'host_path_refused',
  'host_root_unsupported',
  'vm_unsupported',
  'mount_exists',
  'mount_limit',
  'mount_refused',
  'sandbox_busy',
  'sandbox_not_ready',
  'disk_full',
  'launch_failed',
  'launcher_unavailable',
  'guest_failed',
] as const;

const sandboxCreate = defineOperation({
  id: 'sandbox.create',
  method: 'POST',
  path: '/v1/sandboxes',
  dialect: 'native',
  summary: 'Create a sandbox from layers, a snapshot, or another sandbox',
  description:
    'Returns when the sandbox takes commands. One made from another sandbox has its files, and its limits, policy and ' +
    'environment where the request does not name them; the other one goes on. With the header `Idempotency-Key` the same request, sent ' +
    'again within 24 hours, answers the sandbox that the first one made, as long as it is there.',
  body: sandboxCreateSchema,
  answers: [{ status: 201, description: 'The sandbox', schema: sandboxSchema }],
  errors: createErrors,
  permission: 'manage',
});

const stateFilterSchema = z
  .string()
  .transform((text) => text.split(','))
  .pipe(z.array(z.enum(sandboxStates)));

const sandboxList = defineOperation({
  id: 'sandbox.list',
  method: 'GET',
  path: '/v1/sandboxes',
  dialect: 'native',
  summary: 'The sandboxes that the caller may see, newest first',
  query: z.strictObject({
    ...pageShape,
    state: stateFilterSchema.optional().describe('one or more, separated by commas'),
    label: labelFilterSchema.optional().describe('`key=value` or `key`, separated by commas: all of them'),
    name: z.string().max(limits.sandboxNameCharsMax).optional(),
    owner: z.string().max(limits.ownerBytesMax).optional(),
  }),
  answers: [{ status: 200, description: 'A page', schema: sandboxPageSchema }],
  errors: [],
  permission: 'read',
});

const sandboxGet = defineOperation({
  id: 'sandbox.get',
  method: 'GET',
  path: '/v1/sandboxes/{id}',
  dialect: 'native',
  summary: 'Look at one sandbox',
  params: sandboxParams,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxSchema }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const sandboxUpdate = defineOperation({
  id: 'sandbox.update',
  method: 'PATCH',
  path: '/v1/sandboxes/{id}',
  dialect: 'native',
  summary: 'Change name, labels, environment, limits, times or policy of a sandbox',
  description:
    'All of it or nothing. A lifetime counts from now on. Processor and memory change for what runs, too; memory can not ' +
    'become less than what is in use.',
  params: sandboxParams,
  body: sandboxChangeSchema,
  answers: [{ status: 200, description: 'The sandbox as it is now', schema: sandboxSchema }],
  errors: [
    'sandbox_not_found',
    'host_root_unsupported',
    'vm_unsupported',
    'quota_exceeded',
    'ceiling_exceeded',
    'host_full',
    'limits_unenforceable',
    'limit_below_use',
    'sandbox_busy',
    'disk_full',
    'launch_failed',
    'launcher_unavailable',
    'guest_failed',
  ],
  permission: 'manage',
});

const sandboxDestroy = defineOperation({
  id: 'sandbox.destroy',
  method: 'DELETE',
  path: '/v1/sandboxes/{id}',
  dialect: 'native',
  summary: 'End everything in a sandbox and remove it with its files and snapshots',
  params: sandboxParams,
  query: z.strictObject({
    unsaved: z
      .enum(['refuse', 'aside'])
      .default('refuse')
      .describe(
        'what becomes of one that ephemeral mode can not save; aside (scope admin): it is removed, and its directory kept as unsaved/ID.… in the data directory',
      ),
  }),
  answers: [{ status: 204, description: 'It is gone' }],
  errors: [
    'forbidden',
    'snapshot_path_too_long',
    'layer_corrupt',
    'guest_failed',
    'launch_failed',
    'bucket_unavailable',
    'bucket_conflict',
    'disk_full',
    'sandbox_not_found',
    'sandbox_busy',
    'launcher_unavailable',
  ],
  permission: 'manage',
});

const restErrors = [
  'sandbox_not_found',
  'sandbox_not_ready',
  'sandbox_busy',
  'launch_failed',
  'disk_full',
  'launcher_unavailable',
] as const;

const sandboxPause = defineOperation({
  id: 'sandbox.pause',
  method: 'POST',
  path: '/v1/sandboxes/{id}/pause',
  dialect: 'native',
  summary: 'Let a sandbox stand still until it is resumed',
  description:
    'With `keep: "memory"` its processes stand still and use no processor time. With `keep: "files"` they end, and the ' +
    'sandbox uses no memory either. What is asked of it meanwhile is refused (`sandbox_paused`). Nothing happens to one that rests already.',
  params: sandboxParams,
  body: z.strictObject({ keep: z.enum(['memory', 'files']).default('memory') }),
  example: { body: { keep: 'files' } },
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxSchema }],
  errors: restErrors,
  permission: 'manage',
});

const sandboxResume = defineOperation({
  id: 'sandbox.resume',
  method: 'POST',
  path: '/v1/sandboxes/{id}/resume',
  dialect: 'native',
  summary: 'Let a sandbox go on that was paused or stopped',
  description: 'A lifetime that is over begins again. Nothing happens to one that runs.',
  params: sandboxParams,
  answers: [{ status: 200, description: 'The sandbox', schema: sandboxSchema }],
  errors: [...restErrors, 'layer_corrupt', 'host_full'],
  permission: 'manage',
});

const sandboxRun = defineOperation({
  id: 'sandbox.run',
  method: 'POST',
  path: '/v1/run',
  dialect: 'native',
  summary: 'Create a sandbox, run one command in it, and destroy it',
  description:
    'Answers what the command did; nothing of the sandbox is left. A command that fails is a 200 with its exit code.',
  body: z.strictObject({ sandbox: sandboxCreateSchema.prefault({}), exec: processExecBodySchema }),
  answers: [
    {
      status: 200,
      description: 'What the command did',
      schema: z.strictObject({ sandbox: z.string().describe('which is gone'), result: processResultSchema }),
    },
  ],
  example: { body: { sandbox: { policy: { allow: [] } }, exec: { argv: ['uname', '-r'] } } },
  errors: [...createErrors, 'exec_limit', 'shutting_down'],
  permission: 'manage',
});

export const sandboxOperations = {
  'sandbox.create': sandboxCreate,
  'sandbox.list': sandboxList,
  'sandbox.run': sandboxRun,
  'sandbox.get': sandboxGet,
  'sandbox.update': sandboxUpdate,
  'sandbox.destroy': sandboxDestroy,
  'sandbox.pause': sandboxPause,
  'sandbox.resume': sandboxResume,
} as const satisfies Operations;
