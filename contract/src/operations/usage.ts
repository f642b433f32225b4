/** The operation that says what a sandbox uses. */
import { sandboxUsageSchema } from '../usage.ts';
import { defineOperation, type Operations } from './operation.ts';
import { sandboxParams } from './sandboxes.ts';

const sandboxUsage = defineOperation({
  id: 'sandbox.usage',
  method: 'GET',
  path: '/v1/sandboxes/{id}/usage',
  dialect: 'native',
  summary: 'What a sandbox uses of processor, memory, disk and network, now and in the last ten minutes',
  description:
    'Null is what is not known. The history grows while the sandbox is used or somebody asks, and has gaps where neither was.',
  params: sandboxParams,
  answers: [{ status: 200, description: 'What it uses', schema: sandboxUsageSchema }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

export const usageOperations = { 'sandbox.usage': sandboxUsage } as const satisfies Operations;
