/** The operations on background commands. A job's number is its `seq` in the sandbox's log. */
import { z } from 'zod';
import { jobBodySchema, jobInfoSchema } from '../exec.ts';
import { defineOperation } from './operation.ts';
import { queryInteger } from './commands.ts';
import { sandboxParams } from './sandboxes.ts';

export const jobParams = sandboxParams.extend({
  jobId: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, { error: 'invalid job_id' })
    .transform(Number),
});

export const jobStart = defineOperation({
  id: 'job.start',
  method: 'POST',
  path: '/cgi-bin/api/sandboxes/{id}/exec-bg',
  dialect: 'seed',
  summary: 'Start a shell command and return its number',
  params: sandboxParams,
  body: jobBodySchema,
  answers: [{ status: 200, description: 'The job', schema: jobInfoSchema }],
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

export const jobList = defineOperation({
  id: 'job.list',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes/{id}/jobs',
  dialect: 'seed',
  summary: 'The jobs of a sandbox, oldest first',
  params: sandboxParams,
  answers: [{ status: 200, description: 'Jobs', schema: z.array(jobInfoSchema) }],
  errors: ['sandbox_not_found'],
  auth: 'token',
});

export const jobGet = defineOperation({
  id: 'job.get',
  method: 'GET',
  path: '/cgi-bin/api/sandboxes/{id}/jobs/{jobId}',
  dialect: 'seed',
  summary: 'Look at one job',
  params: jobParams,
  answers: [{ status: 200, description: 'The job', schema: jobInfoSchema }],
  errors: ['sandbox_not_found', 'job_not_found'],
  auth: 'token',
});

export const jobLogs = defineOperation({
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
    streams: z
      .enum(['true', 'false'], { error: 'streams must be true or false' })
      .optional()
      .describe(
        '`true`: a line of standard error is `event: stderr`; without it all lines are plain messages, as in the original',
      ),
  }),
  answers: [{ status: 200, description: 'The lines', contentType: 'text/event-stream' }],
  errors: ['sandbox_not_found', 'job_not_found', 'stream_limit'],
  auth: 'token',
});

export const jobKill = defineOperation({
  id: 'job.kill',
  method: 'DELETE',
  path: '/cgi-bin/api/sandboxes/{id}/jobs/{jobId}',
  dialect: 'seed',
  summary: 'End a job: TERM, KILL after two seconds; a job that has ended stays as it is',
  params: jobParams,
  answers: [{ status: 204, description: 'It has ended' }],
  errors: ['sandbox_not_found', 'job_not_found'],
  auth: 'token',
});
