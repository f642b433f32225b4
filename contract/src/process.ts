/**
 * Processes of `/v1`: how one is started, what it is while it runs and after, and its output as events.
 *
 * The output of a process is one row of bytes: standard output and standard error in the order in which the daemon took them. A
 * position in it (`seq`, `after`) counts the bytes of both before it, so that a client that says where it stopped goes on at exactly
 * the next byte. `bytes` of a gap is what the bounded store does not have any more.
 */
import { z } from 'zod';
import {
  argumentSchema,
  commandShape,
  type ExecStart,
  endReasons,
  fitsOneFrame,
  terminalShape,
} from './exec.ts';
import { limits } from './limits.ts';
import { boundedText, utf8Bytes } from './tolerant.ts';

const shellSchema = argumentSchema
  .min(1)
  .refine((text) => utf8Bytes(text) <= limits.cmdBytesMax, { error: `${limits.cmdBytesMax} bytes at most` });

export const processTagSchema = boundedText('tag', limits.processTagBytesMax).refine((tag) => tag !== '', {
  error: 'must not be empty',
});

const startShape = {
  argv: commandShape.argv.optional(),
  shell: shellSchema.optional().describe('run by /bin/sh -c; either this or `argv`'),
  env: commandShape.env,
  cwd: commandShape.cwd,
  user: commandShape.user.describe(
    'a uid (which is the gid as well), or both; without it the image’s or the host user’s, else 0',
  ),
  tag: processTagSchema
    .optional()
    .describe('a name of the caller’s own; `tag:NAME` finds the latest process of it'),
  output_bytes_max: z
    .int()
    .min(0)
    .max(limits.processOutputBytesMax)
    .default(limits.processOutputBytesDefault)
    .describe('output that is kept, of both streams together'),
};

const timeoutMs = (max: number) => z.int().min(1).max(max);
const keep = z.enum(['head', 'tail']);

const oneCommand = { error: 'exactly one of argv and shell must be given' };
interface CommandGiven {
  readonly argv?: readonly string[] | undefined;
  readonly shell?: string | undefined;
  readonly env: Readonly<Record<string, string>>;
}
const isOneCommand = ({ argv, shell }: CommandGiven): boolean =>
  (argv === undefined) !== (shell === undefined);
const frameError = { error: `argv and env: ${limits.execArgumentsBytesMax} bytes at most` };
const fits = ({ argv, shell, env }: CommandGiven): boolean =>
  fitsOneFrame({ argv: argv ?? ['/bin/sh', '-c', shell ?? ''], env });

export const processExecBodySchema = z
  .strictObject({
    ...startShape,
    stdin: z.string().optional().describe('standard input, whole; it ends behind it'),
    stdin_base64: z.base64().optional().describe('the same for bytes that are no text'),
    timeout_ms: timeoutMs(limits.execTimeoutSMax * 1_000).default(limits.execTimeoutSDefault * 1_000),
    keep: keep.default('head').describe('which end of longer output is kept'),
    encoding: z
      .enum(['text', 'base64'])
      .default('text')
      .describe('`text`: bytes that are no UTF-8 become U+FFFD'),
  })
  .refine(isOneCommand, oneCommand)
  .refine(fits, frameError)
  .refine(({ stdin, stdin_base64 }) => stdin === undefined || stdin_base64 === undefined, {
    error: 'stdin and stdin_base64 exclude each other',
  });
export type ProcessExecBody = z.output<typeof processExecBodySchema>;

export const processStartBodySchema = z
  .strictObject({
    ...startShape,
    stdin: z
      .boolean()
      .default(false)
      .describe('keep standard input open for `process.stdin`; without it, it is empty'),
    pty: terminalShape.optional().describe('give it a terminal, which takes input as well'),
    timeout_ms: timeoutMs(limits.jobTimeoutSMax * 1_000)
      .optional()
      .describe('none: it runs until it ends'),
    keep: keep.default('tail').describe('which end of longer output is kept'),
  })
  .refine(isOneCommand, oneCommand)
  .refine(fits, frameError);
export type ProcessStartBody = z.output<typeof processStartBodySchema>;

/** Either of them, as the engine takes it. Either `argv` or `shell` is there. */
export interface ProcessRequest extends Pick<ExecStart, 'env' | 'user' | 'tty'> {
  /** Undefined: the sandbox’s own. */
  readonly cwd: string | undefined;
  readonly argv: readonly string[] | undefined;
  readonly shell: string | undefined;
  readonly tag: string | undefined;
  /** Bytes: all of it. */
  readonly stdin: 'none' | 'open' | Uint8Array;
  /** Nobody waits for its end. */
  readonly isBackground: boolean;
  readonly timeoutMs: number | undefined;
  readonly outputBytesMax: number;
  readonly keep: 'head' | 'tail';
}
/** Its number, or the latest one of a tag. */
export type ProcessReference = number | { readonly tag: string };
export type ProcessEncoding = ProcessExecBody['encoding'];

export const processStates = ['running', 'ended'] as const;
export const processKinds = ['exec', 'process', 'stream', 'job'] as const;

const infoShape = {
  process: z.int().describe('its number in the sandbox: the command’s `seq`'),
  tag: z.string().nullable(),
  kind: z
    .enum(processKinds)
    .describe(
      '`process`: by `process.start`; `exec`: somebody waits for its end; `stream`: over a WebSocket of its own; `job`: by exec-bg',
    ),
  state: z.enum(processStates),
  pid: z.int().nullable().describe('inside the sandbox; null when it has ended or is just being found again'),
  argv: z.array(z.string()).nullable().describe('null where it was started as a shell line'),
  command: z.string().describe('the shell line, or `argv` written as one'),
  cwd: z.string(),
  user: z.strictObject({ uid: z.int(), gid: z.int() }).nullable().describe('null: nobody noted it'),
  pty: z.boolean(),
  stdin: z.enum(['none', 'open', 'ended']),
  timeout_ms: z.int().nullable(),
  started_at: z.string().describe('RFC 3339 with milliseconds, UTC'),
  finished_at: z.string().nullable(),
  duration_ms: z.int().nullable(),
  exit_code: z
    .int()
    .nullable()
    .describe(
      '128 + signal where a signal ended it; 124 when timed out; 126, 127: it could not be started; null while it runs',
    ),
  signal: z.int().nullable(),
  timed_out: z.boolean(),
  reason: z.enum(endReasons).nullable(),
  stdout_bytes: z.int().describe('bytes written, kept or not'),
  stderr_bytes: z.int(),
};
export const processInfoSchema = z.strictObject(infoShape);
export type ProcessInfo = z.infer<typeof processInfoSchema>;

export const processResultSchema = z.strictObject({
  ...infoShape,
  encoding: z.enum(['text', 'base64']),
  stdout: z.string().describe('what is kept of it'),
  stderr: z.string(),
  truncated: z.boolean().describe('more was written than is here'),
});
export type ProcessResult = z.infer<typeof processResultSchema>;

const streams = z.enum(['stdout', 'stderr', 'pty']);
const seq = z.int().describe('bytes of output up to the end of this event: what `after` resumes behind');

/** What a follower of a process gets, over server-sent events, as lines of JSON, and as text messages of a WebSocket. */
export const processEvents = {
  process: z.strictObject({ type: z.literal('process'), process: processInfoSchema }),
  output: z.strictObject({
    type: z.literal('output'),
    seq,
    stream: streams,
    text: z.string().optional().describe('where the bytes are UTF-8'),
    base64: z.string().optional().describe('where they are not'),
  }),
  gap: z.strictObject({
    type: z.literal('gap'),
    seq,
    bytes: z.int().describe('so many bytes before `seq`, of both streams, are not kept any more'),
  }),
  exit: z.strictObject({ type: z.literal('exit'), seq, process: processInfoSchema }),
  error: z.strictObject({
    type: z.literal('error'),
    code: z.string(),
    message: z.string(),
    remedy: z.string(),
  }),
};
export const processEventSchema = z.discriminatedUnion('type', [
  processEvents.process,
  processEvents.output,
  processEvents.gap,
  processEvents.exit,
  processEvents.error,
  /** Lines of JSON have no comments. */
  z.strictObject({ type: z.literal('keep_alive') }),
]);
export type ProcessEvent = z.infer<typeof processEventSchema>;

const signalNumbers = {
  HUP: 1,
  INT: 2,
  QUIT: 3,
  ILL: 4,
  TRAP: 5,
  ABRT: 6,
  BUS: 7,
  FPE: 8,
  KILL: 9,
  USR1: 10,
  SEGV: 11,
  USR2: 12,
  PIPE: 13,
  ALRM: 14,
  TERM: 15,
  STKFLT: 16,
  CHLD: 17,
  CONT: 18,
  STOP: 19,
  TSTP: 20,
  TTIN: 21,
  TTOU: 22,
  URG: 23,
  XCPU: 24,
  XFSZ: 25,
  VTALRM: 26,
  PROF: 27,
  WINCH: 28,
  IO: 29,
  PWR: 30,
  SYS: 31,
} as const;

function signalNumber(text: string): number | undefined {
  const name = text.toUpperCase().replace(/^SIG/, '');
  return Object.entries(signalNumbers).find(([known]) => known === name)?.[1];
}

export const signalSchema = z.union(
  [
    z.int().min(1).max(64),
    z
      .string()
      .refine((text) => signalNumber(text) !== undefined, { error: 'no signal of Linux has this name' })
      .transform((text) => signalNumber(text) ?? 0),
  ],
  { error: 'a signal is a number from 1 to 64 or a name such as TERM' },
);

export const processSignalBodySchema = z.strictObject({
  signal: signalSchema.describe(
    'a number, or a name such as `TERM` or `SIGTERM`; to the whole process group',
  ),
});
/** Text messages of a client that is attached; its binary messages are input. */
export const processControlSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('stdin_eof') }),
  z.strictObject({
    type: z.literal('resize'),
    rows: terminalShape.shape.rows,
    columns: terminalShape.shape.columns,
  }),
  z.strictObject({ type: z.literal('signal'), signal: signalSchema }),
]);

export const processResizeBodySchema = z.strictObject({
  rows: terminalShape.shape.rows,
  columns: terminalShape.shape.columns,
});

export const stdinAnswerSchema = z.strictObject({
  bytes: z
    .int()
    .describe(
      'taken of this request; a process that has ended or closed its input takes nothing and is sent all',
    ),
});

export const waitAnswerSchema = z.strictObject({
  process: processInfoSchema,
  seq: z.int().nullable().describe('of a line: where it ends in the output'),
  line: z.string().nullable().describe('the line that matched'),
});
export type WaitAnswer = z.infer<typeof waitAnswerSchema>;
