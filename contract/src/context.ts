/**
 * Contexts: kernels in a sandbox that keep state between cells, and what a cell does, as events or collected.
 *
 * A context is a process of the sandbox, the bridge of the layer `interpreter`; a cell's number is the position in that process's output
 * at which the cell begins, so that its output can be found again by any later daemon.
 */
import { z } from 'zod';
import { commandShape } from './exec.ts';
import { limits } from './limits.ts';
import { processEvents } from './process.ts';
import { utf8Bytes } from './tolerant.ts';

export const contextLanguages = ['python', 'javascript', 'typescript'] as const;
const languageSchema = z.enum(contextLanguages);
export type ContextLanguage = z.infer<typeof languageSchema>;

export const contextNameSchema = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,47}$/, {
  error: 'a context’s name is lower-case letters, digits, "-" and "_", 48 at most',
});

export const contextCreateSchema = z.strictObject({
  language: languageSchema.default('python'),
  context: contextNameSchema.optional().describe('its name; without one the daemon makes one'),
  env: commandShape.env,
  cwd: commandShape.cwd,
  user: commandShape.user.describe('a uid (which is the gid as well), or both, or a name; without it 0'),
});
export type ContextCreate = z.output<typeof contextCreateSchema>;

export const contextStates = ['starting', 'idle', 'busy', 'dead', 'ended'] as const;
export const contextSchema = z.strictObject({
  context: z.string(),
  language: languageSchema,
  state: z
    .enum(contextStates)
    .describe('`dead`: the kernel died, and `context.restart` starts another; `ended`: the whole context'),
  cell: z.int().nullable().describe('the cell that runs'),
  process: z.int().describe('the process of the sandbox that it is'),
  cwd: z.string(),
  started_at: z.string().describe('RFC 3339 with milliseconds, UTC'),
  error: z.string().nullable().describe('why it is dead or has ended'),
});
export type Context = z.infer<typeof contextSchema>;

export const contextListSchema = z.strictObject({ items: z.array(contextSchema) });

export const cellRunSchema = z.strictObject({
  code: z
    .string()
    .refine((text) => utf8Bytes(text) <= limits.cellCodeBytesMax, {
      error: `${limits.cellCodeBytesMax} bytes at most`,
    })
    .describe('as it would be typed; the value of its last expression is a result'),
  timeout_ms: z
    .int()
    .min(1)
    .max(limits.execTimeoutSMax * 1_000)
    .default(limits.execTimeoutSDefault * 1_000)
    .describe('then the cell is interrupted, and its kernel ended where that does not help'),
});
export type CellRun = z.output<typeof cellRunSchema>;

export const cellStatuses = ['ok', 'error', 'interrupted', 'timeout', 'kernel_died'] as const;

/** What is nested deeper would end whoever writes it again as JSON. */
const jsonDepthMax = 64;

function isShallow(value: unknown, depthMax: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return depthMax > 0 && Object.values(value).every((inner) => isShallow(inner, depthMax - 1));
}

const resultShape = {
  is_main: z.boolean().describe('the value of the cell; what it displayed by the way is not'),
  text: z.string().optional(),
  html: z.string().optional(),
  markdown: z.string().optional(),
  latex: z.string().optional(),
  svg: z.string().optional(),
  png: z.string().optional().describe('base64'),
  jpeg: z.string().optional().describe('base64'),
  json: z
    .unknown()
    .refine((value) => isShallow(value, jsonDepthMax), { error: `nested more than ${jsonDepthMax} times` })
    .optional()
    .describe('a data frame: its first 100 rows as `columns`, `index`, `data`, and how many `rows` it has'),
  other: z.record(z.string(), z.string()).optional().describe('by media type'),
  omitted: z
    .array(z.strictObject({ format: z.string(), bytes: z.int() }))
    .optional()
    .describe('formats that were too large'),
};
const exceptionShape = {
  name: z.string(),
  message: z.string(),
  traceback: z.string().describe('lines of plain text; empty where there is none'),
};
const cutSchema = z
  .strictObject({
    stdout_bytes: z.int().min(0),
    stderr_bytes: z.int().min(0),
    results: z.int().min(0),
  })
  .describe('what was left out past the limits; all 0: nothing');
const statusSchema = z.enum(cellStatuses);
const endShape = {
  status: statusSchema,
  execution_count: z.int().nullable(),
  duration_ms: z.int().min(0),
  cut: cutSchema,
};

/** What the bridge writes, a line of JSON each. Nothing of it is to be believed: a cell can write there, too. */
export const bridgeLineSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('state'),
    state: z.enum(['starting', 'idle', 'dead']),
    error: z.string().optional(),
  }),
  z.strictObject({
    type: z.literal('refused'),
    key: z.string(),
    why: z.enum(['busy', 'dead', 'restarted']),
  }),
  z.strictObject({ type: z.literal('cell'), key: z.string() }),
  z.strictObject({ type: z.enum(['stdout', 'stderr']), text: z.string() }),
  z.strictObject({ type: z.literal('result'), ...resultShape }),
  z.strictObject({ type: z.literal('clear') }),
  z.strictObject({ type: z.literal('exception'), ...exceptionShape }),
  z.strictObject({ type: z.literal('end'), ...endShape }),
]);
export type BridgeLine = z.infer<typeof bridgeLineSchema>;

const of = {
  seq: z.int().describe('what `after` resumes behind'),
  cell: z.int().describe('its number; numbers rise and have gaps'),
};

/** What a follower of a cell gets, over server-sent events and as lines of JSON. */
export const cellEvents = {
  cell: z.strictObject({ type: z.literal('cell'), ...of, context: z.string(), language: languageSchema }),
  stdout: z.strictObject({ type: z.literal('stdout'), ...of, text: z.string() }),
  stderr: z.strictObject({ type: z.literal('stderr'), ...of, text: z.string() }),
  result: z.strictObject({ type: z.literal('result'), ...of, ...resultShape }),
  clear: z
    .strictObject({ type: z.literal('clear'), ...of })
    .describe('results and output before it are to be forgotten'),
  exception: z.strictObject({ type: z.literal('exception'), ...of, ...exceptionShape }),
  end: z.strictObject({ type: z.literal('end'), ...of, ...endShape }),
  gap: processEvents.gap,
  error: processEvents.error,
};
export const cellEventSchema = z.discriminatedUnion('type', [
  cellEvents.cell,
  cellEvents.stdout,
  cellEvents.stderr,
  cellEvents.result,
  cellEvents.clear,
  cellEvents.exception,
  cellEvents.end,
  cellEvents.gap,
  cellEvents.error,
  /** Lines of JSON have no comments. */
  z.strictObject({ type: z.literal('keep_alive') }),
]);
export type CellEvent = z.infer<typeof cellEventSchema>;

export const executionSchema = z.strictObject({
  cell: z.int(),
  context: z.string(),
  language: languageSchema,
  ...endShape,
  stdout: z.string(),
  stderr: z.string(),
  results: z.array(z.strictObject(resultShape)),
  error: z.strictObject(exceptionShape).nullable().describe('what the cell raised, or how its kernel died'),
});
export type Execution = z.infer<typeof executionSchema>;
