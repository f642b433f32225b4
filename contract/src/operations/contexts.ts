/** The operations on contexts: kernels that keep state between the cells that they run. */
import { z } from 'zod';
import {
  cellEvents,
  cellRunSchema,
  contextCreateSchema,
  contextListSchema,
  contextNameSchema,
  contextSchema,
  executionSchema,
} from '../context.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryFlag, queryInteger } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const contextParams = sandboxParams.extend({
  context: contextNameSchema.describe(
    '`default-python`, `default-javascript` and `default-typescript` are made when a cell is first run in them',
  ),
});

const beginErrors = [
  'interpreter_missing',
  'context_limit',
  'user_not_found',
  'sandbox_not_found',
  'sandbox_paused',
  'host_full',
  'sandbox_not_ready',
  'sandbox_busy',
  'quota_exceeded',
  'exec_limit',
  'guest_failed',
  'launch_failed',
  'disk_full',
] as const;

const toldErrors = [
  'context_not_found',
  'context_ended',
  'sandbox_not_found',
  'sandbox_paused',
  'host_full',
  'sandbox_not_ready',
  'sandbox_busy',
  'stdin_blocked',
  'guest_failed',
  'launch_failed',
  'disk_full',
] as const;

const contextCreate = defineOperation({
  id: 'context.create',
  method: 'POST',
  path: '/v1/sandboxes/{id}/contexts',
  dialect: 'native',
  summary: 'Start a kernel that keeps state between the cells it runs',
  description:
    'Answers before the kernel has started; the first cell waits for it. A context lives as long as its sandbox runs: ' +
    'stopping, restoring and restarting that end it, and no fork has it.',
  params: sandboxParams,
  body: contextCreateSchema,
  answers: [{ status: 201, description: 'The context', schema: contextSchema }],
  errors: ['context_exists', ...beginErrors],
  example: { body: { language: 'python', context: 'analysis' } },
  permission: 'exec',
});

const contextList = defineOperation({
  id: 'context.list',
  method: 'GET',
  path: '/v1/sandboxes/{id}/contexts',
  dialect: 'native',
  summary: 'The contexts of a sandbox that have not ended, oldest first',
  params: sandboxParams,
  answers: [{ status: 200, description: 'All of them', schema: contextListSchema }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const contextGet = defineOperation({
  id: 'context.get',
  method: 'GET',
  path: '/v1/sandboxes/{id}/contexts/{context}',
  dialect: 'native',
  summary: 'Look at one context',
  params: contextParams,
  answers: [{ status: 200, description: 'The context', schema: contextSchema }],
  errors: ['sandbox_not_found', 'context_not_found'],
  example: { params: { context: 'analysis' } },
  permission: 'read',
});

const contextRemove = defineOperation({
  id: 'context.remove',
  method: 'DELETE',
  path: '/v1/sandboxes/{id}/contexts/{context}',
  dialect: 'native',
  summary: 'End a context with all of its state; one that has ended stays as it is',
  params: contextParams,
  answers: [{ status: 204, description: 'It has ended' }],
  errors: ['sandbox_not_found', 'context_not_found', 'sandbox_paused', 'guest_failed'],
  example: { params: { context: 'analysis' } },
  permission: 'exec',
});

const contextRun = defineOperation({
  id: 'context.run',
  method: 'POST',
  path: '/v1/sandboxes/{id}/contexts/{context}/cells',
  dialect: 'native',
  summary: 'Run a cell in a context, after those that wait there already',
  description:
    'Answers what the cell did, whole; with `Accept: application/x-ndjson` or `text/event-stream` as it comes, as `context.output` gives ' +
    'it. A cell that raises is a 200 with its `error`. It runs on when the client goes away. A kernel that dies answers `kernel_died` as ' +
    'status of the cell, and as error to the cells behind it.',
  params: contextParams,
  body: cellRunSchema,
  answers: [
    { status: 200, description: 'What the cell did', schema: executionSchema },
    { status: 200, description: 'What it does as events', contentType: 'text/event-stream' },
    { status: 200, description: 'What it does as lines of JSON', contentType: 'application/x-ndjson' },
  ],
  errors: [
    'context_not_found',
    'context_ended',
    'context_busy',
    'kernel_died',
    'stdin_blocked',
    ...beginErrors,
    'stream_limit',
  ],
  example: { params: { context: 'default-python' }, body: { code: 'x = 20\nx + 1' } },
  permission: 'exec',
});

const contextOutput = defineOperation({
  id: 'context.output',
  method: 'GET',
  path: '/v1/sandboxes/{id}/contexts/{context}/cells/{cell}/output',
  dialect: 'native',
  summary: 'What a cell did and does, again, as server-sent events or lines of JSON',
  description:
    'Events are `CellEvent`s: first `cell`, at last `end`. The id of an event is its `seq`; `Last-Event-ID` or `after` resumes behind it. ' +
    'A context keeps its last 12 MiB: of older cells nothing is left, and a reader that is too slow is told by `gap`.',
  params: contextParams.extend({
    cell: z
      .string()
      .regex(/^\d{1,15}$/, { error: 'a cell is its number' })
      .transform(Number),
  }),
  query: z.strictObject({
    after: queryInteger('after', { min: 0, max: Number.MAX_SAFE_INTEGER }).describe(
      '`seq` of the last event that was seen; `Last-Event-ID` wins',
    ),
    follow: queryFlag('follow').describe('`false`: only what is kept now; default `true`'),
    format: z
      .enum(['sse', 'ndjson'])
      .optional()
      .describe('default by `Accept`: `application/x-ndjson` for lines of JSON, else events'),
  }),
  answers: [
    { status: 200, description: 'Its events', contentType: 'text/event-stream' },
    { status: 200, description: 'Its events as lines of JSON', contentType: 'application/x-ndjson' },
  ],
  events: cellEvents,
  errors: ['sandbox_not_found', 'context_not_found', 'cell_not_found', 'stream_limit'],
  example: { params: { context: 'default-python', cell: '62' } },
  permission: 'read',
});

const contextInterrupt = defineOperation({
  id: 'context.interrupt',
  method: 'POST',
  path: '/v1/sandboxes/{id}/contexts/{context}/interrupt',
  dialect: 'native',
  summary: 'Interrupt the cell that runs; without one nothing happens',
  description:
    'Answers when the kernel was told. A cell may catch it and go on: then `context.restart` helps.',
  params: contextParams,
  answers: [{ status: 204, description: 'The kernel was told' }],
  errors: [...toldErrors],
  example: { params: { context: 'analysis' } },
  permission: 'exec',
});

const contextRestart = defineOperation({
  id: 'context.restart',
  method: 'POST',
  path: '/v1/sandboxes/{id}/contexts/{context}/restart',
  dialect: 'native',
  summary: 'End the kernel with its state and start another in its place',
  description: 'The cell that runs ends as `interrupted`, those that wait are refused.',
  params: contextParams,
  answers: [{ status: 200, description: 'The context, starting', schema: contextSchema }],
  errors: [...toldErrors],
  example: { params: { context: 'analysis' } },
  permission: 'exec',
});

export const contextOperations = {
  'context.create': contextCreate,
  'context.list': contextList,
  'context.get': contextGet,
  'context.remove': contextRemove,
  'context.run': contextRun,
  'context.output': contextOutput,
  'context.interrupt': contextInterrupt,
  'context.restart': contextRestart,
} as const satisfies Operations;
