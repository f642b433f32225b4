/**
 * What an exec is on the wire: the seed's record, the job shapes, and the native stream of `/v1`.
 *
 * A command that fails is a result, never an error. `seq` numbers one sandbox's commands from 1 without
 * gap or repeat; a job's `job_id` is its `seq`.
 */
import { z } from 'zod';
import { limits } from './limits.ts';
import { tolerantTimeout, utf8Bytes } from './tolerant.ts';

export const endReasons = [
  'exited',
  'signaled',
  'timed_out',
  'oom_killed',
  'upper_full',
  'layers_changed',
  'destroyed',
  'killed',
  'stopped',
  'lost',
] as const;

export const execRecordSchema = z.strictObject({
  seq: z.int(),
  cmd: z.string(),
  workdir: z.string(),
  exit_code: z
    .int()
    .describe('128 + signal where a signal ended it; 124 when timed out; 137 when the sandbox ended it'),
  started: z.string().describe('RFC 3339 with milliseconds, UTC'),
  finished: z.string(),
  stdout: z.string().describe('at most 64 KiB; bytes that are not UTF-8 become U+FFFD'),
  stderr: z.string(),
  duration_ms: z.int(),
  timed_out: z.boolean(),
  truncated: z.boolean().describe('stdout or stderr was longer than it is here'),
  stdout_bytes: z.int().describe('bytes the command wrote, kept or not'),
  stderr_bytes: z.int(),
  reason: z.enum(endReasons),
});
export type ExecRecord = z.infer<typeof execRecordSchema>;

export const jobStatuses = ['running', 'done', 'killed'] as const;
export const jobInfoSchema = z.strictObject({
  job_id: z.int(),
  cmd: z.string(),
  workdir: z.string(),
  status: z.enum(jobStatuses),
  exit_code: z.int().nullable().describe('null while running'),
  started: z.string(),
  finished: z.string().nullable(),
  reason: z.enum(endReasons).nullable(),
});
export type JobInfo = z.infer<typeof jobInfoSchema>;

/** The last event of a job's log. */
export const jobDoneSchema = z.strictObject({ exit_code: z.int().nullable() });

const cmdSchema = z
  .string({ error: 'cmd required' })
  .refine((cmd) => cmd.trim() !== '', { error: 'cmd required', abort: true })
  .refine((cmd) => utf8Bytes(cmd) <= limits.cmdBytesMax, {
    error: `cmd required, max ${limits.cmdBytesMax / 1024}KiB`,
    abort: true,
  })
  .refine((cmd) => !cmd.includes('\0'), { error: 'cmd must not contain NUL' });

const workdirSentence = 'workdir must be absolute path, no ..';
const workdirSchema = z
  .string({ error: workdirSentence })
  .refine(
    (path) =>
      path === '' ||
      (path.startsWith('/') &&
        !path.includes('\0') &&
        !path.split('/').includes('..') &&
        utf8Bytes(path) <= limits.workdirBytesMax),
    { error: workdirSentence },
  );

const shellExecBody = (timeout: { readonly default: number; readonly max: number }) =>
  z.looseObject({
    cmd: cmdSchema.describe('run by /bin/sh -c'),
    workdir: workdirSchema
      .nullish()
      .transform((path) => path || undefined)
      .describe('none: the image’s, else /'),
    timeout: tolerantTimeout('timeout must be a number of seconds', {
      min: limits.execTimeoutSMin,
      max: timeout.max,
    })
      .nullish()
      .transform((seconds) => seconds ?? timeout.default)
      .describe(
        `seconds, more than 0, default ${timeout.default}; more than ${timeout.max} count as ${timeout.max}`,
      ),
  });

export const execBodySchema = shellExecBody({
  default: limits.execTimeoutSDefault,
  max: limits.execTimeoutSMax,
});
export const jobBodySchema = shellExecBody({
  default: limits.jobTimeoutSDefault,
  max: limits.jobTimeoutSMax,
});

/** An exec or exec-bg request after the edge has parsed it. */
export interface ShellExecRequest {
  readonly cmd: string;
  /** Undefined: the sandbox’s own. */
  readonly workdir: string | undefined;
  /** Clamped to 1 … 3,600 (exec) or 1 … 86,400 (exec-bg). */
  readonly timeoutS: number;
}

export const argumentSchema = z
  .string()
  .refine((text) => !text.includes('\0'), { error: 'must not contain NUL, which no argument can hold' });

/** argv and environment travel in one frame, beside at most some hundred bytes of other fields. */
export function fitsOneFrame(start: {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}) {
  const words = [...start.argv, ...Object.entries(start.env).flat()];
  return words.reduce((sum, word) => sum + utf8Bytes(word) + 8, 0) <= limits.execArgumentsBytesMax;
}

/** As `useradd` takes them. */
export const userNameSchema = z.string().regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,30}\$?$/, {
  error: 'a user’s name is letters, digits, "_", "." and "-", 32 at most',
});

/** What is run, where and as whom: the same for the stream and for the processes of `/v1`. */
export const commandShape = {
  argv: z
    .array(argumentSchema)
    .min(1)
    .max(4096)
    .describe('argv[0] is looked up in PATH inside the sandbox; no shell'),
  env: z
    .record(z.string().regex(/^[^=\0]+$/), argumentSchema)
    .default({})
    .refine((env) => Object.keys(env).length <= limits.execVariablesMax, {
      error: `${limits.execVariablesMax} variables at most`,
    })
    .describe('added to the sandbox default environment'),
  cwd: argumentSchema.max(4096).regex(/^\//).optional().describe('none: the image’s, else /'),
  user: z
    .union(
      [
        z.int().min(0).max(65_535),
        z.strictObject({ uid: z.int().min(0).max(65_535), gid: z.int().min(0).max(65_535) }),
        userNameSchema,
      ],
      { error: 'user is a number, uid and gid as numbers, or a name' },
    )
    .optional()
    .describe(
      'a name is looked up in the sandbox’s /etc/passwd, and `HOME`, `USER` and `LOGNAME` are set by it',
    ),
};

export const terminalShape = z.strictObject({
  rows: z.int().min(1).max(4096),
  columns: z.int().min(1).max(4096),
  term: argumentSchema.max(64).default('xterm-256color'),
});

/**
 * The native stream, `GET /v1/sandboxes/{id}/exec` as a WebSocket (subprotocol `squash.exec.v1`).
 * Client: first a text message `execStart`; then binary messages (stdin bytes) and text messages of
 * `execControl`. Server: text `execEvent`s; output as binary messages whose first byte is 1 (stdout, or the
 * terminal) or 2 (stderr). After `exit` or `error` the server closes with 1000. A client that stops reading
 * stalls the command. A client that goes away gets its command a SIGHUP, unless `detach` is set.
 */
export const execStartSchema = z
  .strictObject({
    type: z.literal('start'),
    ...commandShape,
    tty: terminalShape.optional(),
    job_control: z
      .boolean()
      .default(false)
      .describe(
        'with `tty`: Ctrl-Z stops the command, `stopped` tells of it, and a signal, 18 (SIGCONT) for one, continues it',
      ),
    stdin: z.boolean().default(false),
    timeout_ms: z.int().min(1).max(86_400_000).optional(),
    detach: z.boolean().default(false),
  })
  .refine(fitsOneFrame, { error: `argv and env: ${limits.execArgumentsBytesMax} bytes at most` });
export type ExecStart = z.infer<typeof execStartSchema>;

export const execControlSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('stdin_eof') }),
  z.strictObject({
    type: z.literal('resize'),
    rows: z.int().min(1).max(4096),
    columns: z.int().min(1).max(4096),
  }),
  z.strictObject({ type: z.literal('signal'), signal: z.int().min(1).max(64) }),
]);
export type ExecControl = z.infer<typeof execControlSchema>;

export const execEventSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('started'), seq: z.int(), pid: z.int() }),
  z
    .strictObject({ type: z.literal('stopped') })
    .describe('only with `job_control`: the command stands still until it gets a signal'),
  z.strictObject({
    type: z.literal('exit'),
    exit_code: z.int(),
    signal: z.int().nullable(),
    timed_out: z.boolean(),
    reason: z.enum(endReasons),
    duration_ms: z.int(),
    stdout_bytes: z.int(),
    stderr_bytes: z.int(),
  }),
  z.strictObject({ type: z.literal('error'), code: z.string(), message: z.string() }),
]);
export type ExecEvent = z.infer<typeof execEventSchema>;
