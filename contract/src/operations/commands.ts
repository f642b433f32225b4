/** The operations that run commands and read what they did. */
import { z } from 'zod';
import { execBodySchema, execRecordSchema } from '../exec.ts';
import { limits } from '../limits.ts';
import { defineOperation } from './operation.ts';
import { sandboxParams } from './sandboxes.ts';

/** A number in a query string. Both dialects word it the same: the original has no paging. */
export const queryInteger = (name: string, range: { readonly min: number; readonly max: number }) =>
  z
    .string()
    .regex(/^\d{1,15}$/, { error: `${name} must be a whole number`, abort: true })
    .transform(Number)
    .refine((value) => value >= range.min && value <= range.max, {
      error: `${name} must be from ${range.min} to ${range.max}`,
    })
    .optional();

export const sandboxExec = defineOperation({
  id: 'sandbox.exec',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/exec',
  dialect: 'seed',
  summary: 'Run a shell command and wait for its end',
  description: 'A command that fails is a 200 with its exit code. It runs exactly once.',
  params: sandboxParams,
  body: execBodySchema,
  answers: [{ status: 200, description: 'What the command did', schema: execRecordSchema }],
  errors: [
    'sandbox_not_found',
    'sandbox_not_ready',
    'sandbox_busy',
    'exec_limit',
    'exec_failed',
    'guest_failed',
    'shutting_down',
  ],
  auth: 'token',
});

export const sandboxLogs = defineOperation({
  id: 'sandbox.logs',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes/{id}/logs',
  dialect: 'seed',
  summary: 'The finished commands of a sandbox, oldest first',
  params: sandboxParams,
  query: z.strictObject({
    after: queryInteger('after', { min: 0, max: Number.MAX_SAFE_INTEGER }).describe(
      'only commands with a larger `seq`',
    ),
    limit: queryInteger('limit', { min: 1, max: limits.execHistoryMax }).describe('at most so many'),
  }),
  answers: [{ status: 200, description: 'Exec records', schema: z.array(execRecordSchema) }],
  errors: ['sandbox_not_found', 'stream_limit'],
  auth: 'token',
});

export const sandboxExecStream = defineOperation({
  id: 'sandbox.exec_stream',
  method: 'GET',
  path: '/v1/sandboxes/{id}/exec',
  dialect: 'native',
  summary: 'Run a command with live output, standard input, a terminal and signals, over a WebSocket',
  description:
    'Client: one text message `ExecStart`, then binary messages (standard input) and text messages `ExecControl`. ' +
    'Server: text messages `ExecEvent`; binary messages whose first byte is 1 (standard output, or the terminal) ' +
    'or 2 (standard error). A client that stops reading stalls the command. A client that goes away ends its ' +
    'command with SIGHUP unless it said `detach`.',
  params: sandboxParams,
  answers: [{ status: 101, description: 'Switching to the WebSocket protocol' }],
  errors: ['sandbox_not_found', 'upgrade_required', 'stream_limit'],
  auth: 'token',
  webSocket: 'squash.exec.v1',
});
