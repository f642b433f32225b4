/**
 * The operations that run commands and read what they did. A background command is a job, whose number is its `seq` in the
 * sandbox's log.
 */
import { z } from 'zod';
import { execBodySchema, execRecordSchema, jobBodySchema, jobDoneSchema, jobInfoSchema } from '../exec.ts';
import { limits } from '../limits.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryFlag, queryInteger } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const sandboxExec = defineOperation({
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
    'quota_exceeded',
    'sandbox_not_found',
    'sandbox_not_ready',
    'sandbox_paused',
    'sandbox_busy',
    'exec_limit',
    'exec_failed',
    'guest_failed',
    'shutting_down',
  ],
  permission: 'exec',
});

const sandboxLogs = defineOperation({
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
  permission: 'read',
});

const sandboxExecStream = defineOperation({
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
  errors: ['quota_exceeded', 'sandbox_not_found', 'upgrade_required', 'stream_limit'],
  permission: 'exec',
  webSocket: 'squash.exec.v1',
});

const jobParams = sandboxParams.extend({
  jobId: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, { error: 'invalid job_id' })
    .transform(Number),
});

const jobStart = defineOperation({
  id: 'job.start',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/exec-bg',
  dialect: 'seed',
  summary: 'Start a shell command and return its number',
  params: sandboxParams,
  body: jobBodySchema,
  answers: [{ status: 200, description: 'The job', schema: jobInfoSchema }],
  errors: [
    'quota_exceeded',
    'sandbox_not_found',
    'sandbox_not_ready',
    'sandbox_paused',
    'sandbox_busy',
    'exec_limit',
    'exec_failed',
    'guest_failed',
    'shutting_down',
  ],
  permission: 'exec',
});

const jobList = defineOperation({
  id: 'job.list',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes/{id}/jobs',
  dialect: 'seed',
  summary: 'The jobs of a sandbox, oldest first',
  params: sandboxParams,
  answers: [{ status: 200, description: 'Jobs', schema: z.array(jobInfoSchema) }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const jobGet = defineOperation({
  id: 'job.get',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes/{id}/jobs/{jobId}',
  dialect: 'seed',
  summary: 'Look at one job',
  params: jobParams,
  answers: [{ status: 200, description: 'The job', schema: jobInfoSchema }],
  errors: ['sandbox_not_found', 'job_not_found'],
  permission: 'read',
});

const jobLogs = defineOperation({
  id: 'job.logs',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes/{id}/jobs/{jobId}/logs',
  dialect: 'seed',
  summary: 'Follow a job’s output line by line as server-sent events',
  description:
    'One event per line: `id` is the line’s number, `data` its text. ' +
    '`Last-Event-ID` or `after` resumes behind a line. Ends with `event: done` and `data: {"exit_code":…}`.',
  params: jobParams,
  query: z.strictObject({
    after: queryInteger('after', { min: 0, max: Number.MAX_SAFE_INTEGER }).describe(
      'only lines with a larger number; `Last-Event-ID` wins',
    ),
    streams: queryFlag('streams').describe(
      '`true`: a line of standard error is `event: stderr`; without it all lines are plain messages, as in the original',
    ),
  }),
  answers: [{ status: 200, description: 'The lines', contentType: 'text/event-stream' }],
  events: { message: z.string(), stderr: z.string(), done: jobDoneSchema },
  errors: ['sandbox_not_found', 'job_not_found', 'stream_limit'],
  permission: 'read',
});

const jobKill = defineOperation({
  id: 'job.kill',
  method: 'DELETE',
  path: '/cgi-bin/api/sandboxes/{id}/jobs/{jobId}',
  dialect: 'seed',
  summary: 'End a job: TERM, KILL after two seconds; a job that has ended stays as it is',
  params: jobParams,
  answers: [{ status: 204, description: 'It has ended' }],
  errors: ['sandbox_not_found', 'sandbox_paused', 'job_not_found'],
  permission: 'exec',
});

export const processOperations = {
  'sandbox.exec': sandboxExec,
  'sandbox.exec_stream': sandboxExecStream,
  'sandbox.logs': sandboxLogs,
  'job.start': jobStart,
  'job.list': jobList,
  'job.get': jobGet,
  'job.logs': jobLogs,
  'job.kill': jobKill,
} as const satisfies Operations;
