/** The operations on the bucket: what is there, and bringing things there and back at once instead of by themselves. */
import { z } from 'zod';
import {
  bucketKeySchema,
  bucketListSchema,
  bucketPullSchema,
  bucketPushSchema,
  bucketSchema,
} from '../bucket.ts';
import { defineOperation, type Operations } from './operation.ts';

const errors = ['bucket_not_set', 'bucket_unavailable'] as const;

const bucketGet = defineOperation({
  id: 'bucket.get',
  method: 'GET',
  path: '/v1/bucket',
  dialect: 'native',
  summary: 'Which bucket the daemon has, and whether it does what is asked of it',
  answers: [{ status: 200, description: 'The bucket', schema: bucketSchema }],
  errors: ['bucket_not_set'],
  permission: 'admin',
});

const bucketList = defineOperation({
  id: 'bucket.list',
  method: 'GET',
  path: '/v1/bucket/objects',
  dialect: 'native',
  summary: 'What lies in the bucket',
  query: z.strictObject({ prefix: z.string().max(512).default('').describe('what their keys begin with') }),
  answers: [{ status: 200, description: 'Objects', schema: bucketListSchema }],
  errors,
  permission: 'admin',
});

const bucketPush = defineOperation({
  id: 'bucket.push',
  method: 'POST',
  path: '/v1/bucket/push',
  dialect: 'native',
  summary: 'Bring a module or a snapshot to the bucket, and answer when it is there',
  description:
    'By themselves all go there behind the answer; this waits. What is there already is not sent again.',
  example: { body: { module: '200-tools' } },
  body: bucketPushSchema,
  answers: [{ status: 204, description: 'It is there' }],
  errors: [
    ...errors,
    'bucket_conflict',
    'module_not_found',
    'sandbox_not_found',
    'snapshot_not_found',
    'layer_corrupt',
    'disk_full',
  ],
  permission: 'admin',
});

const bucketPull = defineOperation({
  id: 'bucket.pull',
  method: 'POST',
  path: '/v1/bucket/pull',
  dialect: 'native',
  summary: 'Bring a module, or a snapshot of a sandbox, from the bucket',
  description: 'What is here already is not fetched, also where the bucket has another one of its name.',
  example: { body: { module: '200-tools' } },
  body: bucketPullSchema,
  answers: [{ status: 204, description: 'It is here' }],
  errors: [
    ...errors,
    'module_not_found',
    'sandbox_not_found',
    'snapshot_not_found',
    'layer_corrupt',
    'quota_exceeded',
    'sandbox_busy',
    'disk_full',
  ],
  permission: 'admin',
});

const bucketRemove = defineOperation({
  id: 'bucket.remove',
  method: 'DELETE',
  path: '/v1/bucket/objects',
  dialect: 'native',
  summary: 'Remove an object from the bucket, for every machine',
  description:
    'What is here of it stays, and is pushed again when the daemon starts. One that is not there counts as removed.',
  example: { query: { key: 'modules/300-old.squashfs' } },
  query: z.strictObject({ key: bucketKeySchema }),
  answers: [{ status: 204, description: 'It is gone' }],
  errors,
  permission: 'admin',
});

export const bucketOperations = {
  'bucket.get': bucketGet,
  'bucket.list': bucketList,
  'bucket.push': bucketPush,
  'bucket.pull': bucketPull,
  'bucket.remove': bucketRemove,
} as const satisfies Operations;
