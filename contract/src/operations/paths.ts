/** Which paths the programs of a sandbox were refused (`from.host.trace_paths`). */
import { z } from 'zod';
import { pathsListMax, refusedPathsSchema } from '../paths.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryInteger } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const sandboxPaths = defineOperation({
  id: 'sandbox.paths',
  method: 'GET',
  path: '/v1/sandboxes/{id}/paths',
  dialect: 'native',
  summary: 'Which paths the programs of a sandbox were refused',
  description:
    'Of a sandbox made `from.host` with `trace_paths`: each path once for each intent, whether it is on the host or not. The programs may ' +
    'write into it what they like.',
  params: sandboxParams,
  query: z.strictObject({
    after: queryInteger('after', { min: 0, max: Number.MAX_SAFE_INTEGER }).describe(
      'only those with a larger `id`',
    ),
    limit: queryInteger('limit', { min: 1, max: pathsListMax }).describe('at most so many, default 1000'),
  }),
  answers: [{ status: 200, description: 'The paths', schema: refusedPathsSchema }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

export const pathOperations = { 'sandbox.paths': sandboxPaths } as const satisfies Operations;
