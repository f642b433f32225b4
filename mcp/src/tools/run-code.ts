/** `run_code`: a cell in an interpreter that keeps what the cells before it made. Pictures come back as pictures. */
import { type Execution, NotFound, type Sandbox } from '@squash/sdk';
import { z } from 'zod';
import { frameText } from '../output/frame.ts';
import { mcpLimits } from '../options.ts';
import { type Block, boxOf, defineTool, sandboxShape, type ToolCall } from '../tool.ts';
import { progressMs, seconds } from './output.ts';
import { imageType } from './read-file.ts';

const languages = ['python', 'javascript', 'typescript'] as const;

export const runCode = defineTool({
  name: 'run_code',
  title: 'Run code',
  description:
    'Runs code in an interpreter of the sandbox that keeps variables, imports and functions from one call to the next. Answers what it printed, the value of ' +
    'its last expression, plots as images, and an error with its traceback. Better than run_command for data and for trying things out step by step.',
  kind: 'runs',
  input: z.object({
    ...sandboxShape,
    code: z.string().min(1).max(1_000_000),
    language: z.enum(languages).default('python'),
    restart: z.boolean().default(false).describe('forget everything first'),
    timeout_seconds: z.number().min(0.1).max(3_600).default(120).describe('then it is interrupted'),
  }),
  run: async ({ code, language, restart, timeout_seconds, ...where }, call) => {
    const box = await boxOf(where, call);
    call.signal.throwIfAborted();
    if (restart) await startAnew(box, language);
    const execution = await runCell(
      box,
      { code, language, timeout_ms: Math.round(timeout_seconds * 1_000) },
      call,
    );
    call.signal.throwIfAborted();
    return {
      blocks: blocksOf(execution, call.chars),
      meta: { 'squash/cell': execution.cell, 'squash/status': execution.status },
    };
  },
});

type Language = (typeof languages)[number];

/** One that was never there is as new; one that ended is removed, so that the next cell makes another. */
async function startAnew(box: Sandbox, language: Language): Promise<void> {
  try {
    const context = await box.contexts.get(`default-${language}`);
    if (context.info.state === 'ended') await context.remove();
    else await context.restart();
  } catch (error) {
    if (!(error instanceof NotFound) || error.code !== 'context_not_found') throw error;
  }
}

interface Cell {
  readonly code: string;
  readonly language: Language;
  readonly timeout_ms: number;
}

/** A call that is cancelled interrupts its cell, as a person would. */
async function runCell(box: Sandbox, { code, ...options }: Cell, call: ToolCall): Promise<Execution> {
  const begun = performance.now();
  const timer = setInterval(() => call.progress(seconds(performance.now() - begun)), progressMs);
  const interrupt = async () => {
    const signal = AbortSignal.timeout(5_000);
    const context = await box.contexts.get(`default-${options.language}`, { signal });
    await context.interrupt({ signal });
  };
  // It has ended, or no daemon is there: then its time-out ends it.
  const onAbort = () => void interrupt().catch(() => {});
  call.signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await box.runCode(code, options);
  } finally {
    clearInterval(timer);
    call.signal.removeEventListener('abort', onAbort);
  }
}

const imagesMax = 8;
const tooLong = 'Have it print less, or write it to a file and read that.';

function blocksOf(
  { cell, status, duration_ms, stdout, stderr, results, error, cut }: Execution,
  chars: number,
): Block[] {
  const said: Readonly<Record<Execution['status'], string>> = {
    ok: 'ended',
    error: 'raised an error',
    interrupted: 'was interrupted',
    timeout: 'was interrupted: its time was over',
    kernel_died: 'ended with the interpreter: what it knew is lost, the next call begins anew with `restart`',
  };
  const texts = results.map(textOf).filter((text) => text !== '');
  const images = results.flatMap(imagesOf).slice(0, imagesMax);
  const traceback = error === null ? '' : error.traceback || `${error.name}: ${error.message}`;
  const parts = [
    frameText('error', traceback, chars / 4),
    frameText('result', texts.join('\n'), chars / 4),
    frameText('stdout', stdout, chars / 4),
    frameText('stderr', stderr, chars / 4),
  ].filter((text) => text !== '');
  const lost = cut.stdout_bytes + cut.stderr_bytes + cut.results;
  const notes = lost > 0 ? [`The interpreter left some of it out. ${tooLong}`] : [];
  const head = `cell ${cell} ${said[status]} after ${seconds(duration_ms)}`;
  const drawn = results.filter(({ png, jpeg }) => png !== undefined || jpeg !== undefined).length;
  const shown =
    images.length === drawn ? `images: ${drawn}` : `images: ${images.length} of ${drawn} are shown`;
  const text = [head, ...parts, ...notes, ...(drawn > 0 ? [shown] : [])].join('\n');
  return [{ type: 'text', text }, ...images];
}

type Result = Execution['results'][number];

/** What says most in the fewest characters. */
function textOf({ markdown, text, html, json, png, jpeg, omitted }: Result): string {
  const left = (omitted ?? [])
    .map(({ format, bytes }) => `[${format} of ${bytes} bytes left out]`)
    .join('\n');
  // Beside a picture it is the name of its class.
  if (png !== undefined || jpeg !== undefined) return left;
  const shown = markdown ?? text ?? html ?? (json === undefined ? '' : JSON.stringify(json));
  return [shown, left].filter((each) => each !== '').join('\n');
}

function imagesOf({ png, jpeg }: Result): readonly Block[] {
  const image =
    png === undefined ? { data: jpeg, mimeType: 'image/jpeg' } : { data: png, mimeType: 'image/png' };
  const { data, mimeType } = image;
  if (data === undefined || (data.length / 4) * 3 > mcpLimits.imageBytes) return [];
  // A cell can call anything a picture: what is none is refused by the client with the whole answer, or by its model ever after.
  const isImage =
    z.base64().safeParse(data).success && imageType(Buffer.from(data, 'base64')) === image.mimeType;
  if (!isImage) return [];
  return [{ type: 'image', data, mimeType }];
}
