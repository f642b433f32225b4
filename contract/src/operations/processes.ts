/**
 * The operations that run commands and read what they did. A background command is a job, whose number is its `seq` in the
 * sandbox's log.
 */
import { z } from 'zod';
import { execBodySchema, execRecordSchema, jobBodySchema, jobDoneSchema, jobInfoSchema } from '../exec.ts';
import {
  processEvents,
  processExecBodySchema,
  processInfoSchema,
  processResizeBodySchema,
  processResultSchema,
  processSignalBodySchema,
  processStartBodySchema,
  processStates,
  processTagSchema,
  stdinAnswerSchema,
  waitAnswerSchema,
} from '../process.ts';
import { limits } from '../limits.ts';
import { utf8Bytes } from '../tolerant.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape, queryFlag, queryInteger } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const startErrors = [
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
  'idempotency_mismatch',
  'process_not_found',
] as const;

/** A sandbox that rests is woken, where it may be. */
const awakeErrors = [
  'sandbox_paused',
  'host_full',
  'sandbox_not_ready',
  'sandbox_busy',
  'launch_failed',
] as const;

const seedExec = defineOperation({
  id: 'seed.exec',
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
    'host_full',
    'sandbox_busy',
    'exec_limit',
    'exec_failed',
    'guest_failed',
    'shutting_down',
  ],
  permission: 'exec',
});

const seedLogs = defineOperation({
  id: 'seed.logs',
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

const seedExecStream = defineOperation({
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
    'host_full',
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
  errors: ['sandbox_not_found', 'stream_limit'],
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

const processExec = defineOperation({
  id: 'process.exec',
  method: 'POST',
  path: '/v1/sandboxes/{id}/exec',
  dialect: 'native',
  summary: 'Run a command and wait for its end, with all of its input and output',
  description:
    'A command that fails is a 200 with its exit code; so is one that can not be started (126, 127, and why on standard error). ' +
    'With the header `Idempotency-Key` the same request, sent again within 24 hours, answers what the first one did or does, ' +
    'also when the daemon died between.',
  params: sandboxParams,
  body: processExecBodySchema,
  example: { headers: { 'Idempotency-Key': 'upper-case-1' } },
  answers: [{ status: 200, description: 'What the command did', schema: processResultSchema }],
  errors: [...startErrors],
  permission: 'exec',
});

const processStart = defineOperation({
  id: 'process.start',
  method: 'POST',
  path: '/v1/sandboxes/{id}/processes',
  dialect: 'native',
  summary: 'Start a process; it runs whether or not anybody follows it',
  description:
    'With `Accept: application/x-ndjson` or `text/event-stream` the answer is its output, as `process.output` gives it. ' +
    '`Idempotency-Key` as for `process.exec`.',
  params: sandboxParams,
  body: processStartBodySchema,
  answers: [
    { status: 201, description: 'The process', schema: processInfoSchema },
    { status: 201, description: 'Its output as events', contentType: 'text/event-stream' },
    { status: 201, description: 'Its output as lines of JSON', contentType: 'application/x-ndjson' },
  ],
  errors: [...startErrors, 'stream_limit'],
  permission: 'exec',
});

const processList = defineOperation({
  id: 'process.list',
  method: 'GET',
  path: '/v1/sandboxes/{id}/processes',
  dialect: 'native',
  summary: 'The commands of a sandbox, running and ended, however they were started; oldest first',
  params: sandboxParams,
  query: z.strictObject({
    state: z.enum(processStates).optional().describe('only these'),
    tag: processTagSchema.optional().describe('only those with this tag'),
    limit: pageShape.limit,
    cursor: z
      .string()
      .regex(/^\d{1,15}$/, { error: 'cursor must be the `next` of a page before' })
      .transform(Number)
      .optional()
      .describe('`next` of the page before'),
  }),
  answers: [
    {
      status: 200,
      description: 'A page',
      schema: z.strictObject({
        items: z.array(processInfoSchema),
        next: z.string().nullable().describe('`cursor` of the next page; null: there is none'),
      }),
    },
  ],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const processParams = sandboxParams.extend({
  process: z
    .string()
    .regex(/^(?:[1-9]\d{0,14}$|tag:[^])/, { error: 'a process is its number, or tag: and its tag' })
    .transform((text) => (text.startsWith('tag:') ? { tag: text.slice(4) } : Number(text)))
    .describe('its number, or `tag:NAME` for the latest one with that tag'),
});

const processGet = defineOperation({
  id: 'process.get',
  method: 'GET',
  path: '/v1/sandboxes/{id}/processes/{process}',
  dialect: 'native',
  summary: 'Look at one process, running or ended',
  params: processParams,
  answers: [{ status: 200, description: 'The process', schema: processInfoSchema }],
  errors: ['sandbox_not_found', 'process_not_found'],
  permission: 'read',
});

const after = queryInteger('after', { min: 0, max: Number.MAX_SAFE_INTEGER }).describe(
  'position in the output to begin behind, default 0; `Last-Event-ID` wins',
);

const processOutput = defineOperation({
  id: 'process.output',
  method: 'GET',
  path: '/v1/sandboxes/{id}/processes/{process}/output',
  dialect: 'native',
  summary: 'Follow a process’s output from any position, as server-sent events or lines of JSON',
  description:
    'Events are `ProcessEvent`s: first `process`, then `output` and `gap`, at last `exit`. The id of an event is its `seq`: bytes of ' +
    'both streams up to its end. `Last-Event-ID` or `after` resumes behind it, at any byte. A reader never holds up the process: what ' +
    'the bounded store does not have any more is told by `gap`, unless `stall=true` says that the process shall wait for this reader.',
  params: processParams,
  query: z.strictObject({
    after,
    follow: queryFlag('follow').describe('`false`: only what is kept now; default `true`'),
    streams: z.enum(['stdout', 'stderr']).optional().describe('only this one'),
    format: z
      .enum(['sse', 'ndjson'])
      .optional()
      .describe('default by `Accept`: `application/x-ndjson` for lines of JSON, else events'),
    stall: queryFlag('stall').describe(
      '`true`: the process waits while this reader is 64 KiB behind; needs the scope `exec`',
    ),
  }),
  answers: [
    { status: 200, description: 'Its output as events', contentType: 'text/event-stream' },
    { status: 200, description: 'Its output as lines of JSON', contentType: 'application/x-ndjson' },
  ],
  events: processEvents,
  errors: ['sandbox_not_found', 'process_not_found', 'output_not_kept', 'stream_limit'],
  permission: 'read',
});

const processStdin = defineOperation({
  id: 'process.stdin',
  method: 'POST',
  path: '/v1/sandboxes/{id}/processes/{process}/stdin',
  dialect: 'native',
  summary: 'Send input to a process; answers when the process, or its pipe, has it',
  description:
    'The body is the bytes themselves, as many as there are. A process that does not read for 10 s answers `stdin_blocked`.',
  params: processParams,
  query: z.strictObject({
    eof: queryFlag('eof').describe('`true`: nothing comes behind it; to a terminal ^D is sent'),
  }),
  upload: { contentType: 'application/octet-stream', description: 'Input, as it is' },
  answers: [{ status: 200, description: 'All of it was taken', schema: stdinAnswerSchema }],
  example: { query: { eof: 'true' }, file: 'input.txt' },
  errors: [
    'sandbox_not_found',
    'process_not_found',
    'process_ended',
    'stdin_closed',
    'stdin_blocked',
    'guest_failed',
    'disk_full',
    ...awakeErrors,
  ],
  permission: 'exec',
});

const processResize = defineOperation({
  id: 'process.resize',
  method: 'POST',
  path: '/v1/sandboxes/{id}/processes/{process}/resize',
  dialect: 'native',
  summary: 'Say how large the terminal of a process is',
  params: processParams,
  body: processResizeBodySchema,
  answers: [{ status: 204, description: 'It was told' }],
  example: { body: { rows: 40, columns: 120 } },
  errors: ['sandbox_not_found', 'process_not_found', 'process_ended', 'guest_failed', ...awakeErrors],
  permission: 'exec',
});

const processSignal = defineOperation({
  id: 'process.signal',
  method: 'POST',
  path: '/v1/sandboxes/{id}/processes/{process}/signal',
  dialect: 'native',
  summary: 'Send a signal to a process and its group',
  params: processParams,
  body: processSignalBodySchema,
  answers: [{ status: 204, description: 'It was sent' }],
  errors: ['sandbox_not_found', 'process_not_found', 'process_ended', 'guest_failed', ...awakeErrors],
  permission: 'exec',
});

const patternSchema = z
  .string()
  .min(1)
  .refine((text) => utf8Bytes(text) <= limits.processPatternBytesMax, {
    error: `${limits.processPatternBytesMax} bytes at most`,
  });

const processWait = defineOperation({
  id: 'process.wait',
  method: 'GET',
  path: '/v1/sandboxes/{id}/processes/{process}/wait',
  dialect: 'native',
  summary: 'Wait for the end of a process, for a line that it writes, or for a port to listen',
  params: processParams,
  query: z.strictObject({
    for: z.enum(['exit', 'log', 'port']).default('exit'),
    text: patternSchema.optional().describe('for `log`: a text that stands in the line'),
    pattern: patternSchema.optional().describe('for `log`: the same, where `*` stands for anything'),
    after: queryInteger('after', { min: 0, max: Number.MAX_SAFE_INTEGER }).describe(
      'for `log`: only output behind this position, default 0: what is kept counts',
    ),
    port: queryInteger('port', { min: 1, max: 65_535 }).describe(
      'for `port`: on the sandbox’s loopback, which is dialled; needs the scope `exec`',
    ),
    timeout_ms: queryInteger('timeout_ms', { min: 0, max: limits.processWaitMsMax }).describe(
      'default 60,000',
    ),
  }),
  answers: [{ status: 200, description: 'It has happened', schema: waitAnswerSchema }],
  example: { query: { for: 'log', text: 'ready' } },
  errors: [
    'sandbox_not_found',
    'process_not_found',
    'process_ended',
    'output_not_kept',
    'wait_timeout',
    ...awakeErrors,
    'guest_failed',
    'disk_full',
  ],
  permission: 'read',
});

const processAttach = defineOperation({
  id: 'process.attach',
  method: 'GET',
  path: '/v1/sandboxes/{id}/processes/{process}/attach',
  dialect: 'native',
  summary:
    'Attach to a process over a WebSocket: its output from any position, input and controls; many at once',
  description:
    'Server: text messages `ProcessEvent` but for output, which is a binary message: one byte 1 (standard output, or the terminal) or 2 ' +
    '(standard error), eight bytes `seq` (big-endian), then the bytes. Client: binary messages are input, text messages `ProcessControl`. ' +
    'A client that goes away ends nothing, and one that reads slowly holds up nobody, unless it said `stall=true`.',
  params: processParams,
  query: z.strictObject({
    after,
    stall: queryFlag('stall').describe('`true`: the process waits while this client is 64 KiB behind'),
  }),
  answers: [{ status: 101, description: 'Switching to the WebSocket protocol' }],
  errors: ['sandbox_not_found', 'process_not_found', 'output_not_kept', 'upgrade_required', 'stream_limit'],
  permission: 'exec',
  webSocket: 'squash.process.v1',
});

export const processOperations = {
  'process.exec': processExec,
  'process.start': processStart,
  'process.list': processList,
  'process.get': processGet,
  'process.output': processOutput,
  'process.stdin': processStdin,
  'process.attach': processAttach,
  'process.resize': processResize,
  'process.signal': processSignal,
  'process.wait': processWait,
  'seed.exec': seedExec,
  'sandbox.exec_stream': seedExecStream,
  'seed.logs': seedLogs,
  'job.start': jobStart,
  'job.list': jobList,
  'job.get': jobGet,
  'job.logs': jobLogs,
  'job.kill': jobKill,
} as const satisfies Operations;
