/** What a sandbox has written over directories of the host (`from.host`): looking at it, and bringing it there. */
import { z } from 'zod';
import {
  changeAppliedSchema,
  changeApplySchema,
  changePageSchema,
  changePathSchema,
  changePlaceSchema,
} from '../changes.ts';
import { changeLimits } from '../change-limits.ts';
import { defineOperation, type Operations } from './operation.ts';
import { diffPageShape } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const changeErrors = [
  'sandbox_not_found',
  'sandbox_busy',
  'host_path_refused',
  'host_root_unsupported',
  'snapshot_path_too_long',
  'stream_limit',
  'disk_full',
  'launch_failed',
  'launcher_unavailable',
] as const;

const changeList = defineOperation({
  id: 'change.list',
  method: 'GET',
  path: '/v1/sandboxes/{id}/changes',
  dialect: 'native',
  summary: 'What a sandbox has written over a directory of the host',
  description:
    'Of a sandbox made `from.host`. A file has changed when its bytes, owner or mode have. The sandbox may run or rest, and one that runs ' +
    'goes on meanwhile.',
  params: sandboxParams,
  query: z.strictObject({
    place: changePlaceSchema,
    ...diffPageShape,
  }),
  answers: [{ status: 200, description: 'A page', schema: changePageSchema }],
  errors: [...changeErrors],
  permission: 'read',
  example: { query: { place: '/home/alice/project' } },
});

const changeApply = defineOperation({
  id: 'change.apply',
  method: 'POST',
  path: '/v1/sandboxes/{id}/changes/apply',
  dialect: 'native',
  summary: 'Bring changes of a sandbox to the host, name by name',
  description:
    'Each name is brought whole or not at all, in the order of the request, and answered with what became of it. A file takes its place ' +
    'by one rename. What is neither file, directory nor link never leaves the sandbox, nor does a set-uid bit.',
  params: sandboxParams,
  body: changeApplySchema,
  answers: [{ status: 200, description: 'What became of each', schema: changeAppliedSchema }],
  errors: [...changeErrors],
  permission: 'manage',
  example: { body: { place: '/home/alice/project', paths: ['/src/main.ts'] } },
});

/** As `toLocaleString('en')`, which loads what it knows of languages: a dozen milliseconds of a start. */
function groupedDigits(count: number): string {
  return String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

const changeFile = defineOperation({
  id: 'change.file',
  method: 'GET',
  path: '/v1/sandboxes/{id}/changes/file',
  dialect: 'native',
  summary: 'A file that a sandbox has written over a directory of the host',
  description: `As \`change.apply\` would bring it; of ${groupedDigits(changeLimits.fileBytesMax)} bytes at most. What the rules of the sandbox hide is not told.`,
  params: sandboxParams,
  query: z.strictObject({
    place: changePlaceSchema,
    path: changePathSchema.describe('as the list of changes has it'),
  }),
  answers: [{ status: 200, description: 'Its bytes', contentType: 'application/octet-stream' }],
  errors: [...changeErrors, 'file_not_found', 'not_a_file'],
  permission: 'read',
  example: { query: { place: '/home/alice/project', path: '/src/main.ts' } },
});

export const changeOperations = {
  'change.list': changeList,
  'change.file': changeFile,
  'change.apply': changeApply,
} as const satisfies Operations;
