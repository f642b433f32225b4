/** Processes that run on: to start one, to read what it wrote since the last look, to write to it, to end it. */
import { Conflict, type Process, type Sandbox, TimedOut } from '@squash/sdk';
import { z } from 'zod';
import { mcpLimits } from '../options.ts';
import { boxOf, defineTool, sandboxShape, textAnswer, type ToolAnswer, type ToolCall } from '../tool.ts';
import { framedOutput, metaOf, progressMs, readForAWhile, stateOf } from './output.ts';
import { commandShape } from './run-command.ts';

const processShape = {
  ...sandboxShape,
  process: z
    .union([z.int().min(1), z.string().min(1).max(64)])
    .describe('its number, or the name it was given'),
};

const waitSchema = (standard: number) =>
  z.number().min(0).max(600).default(standard).describe('how long to wait for output where there is none');

export const startProcess = defineTool({
  name: 'start_process',
  title: 'Start a process',
  description:
    'Starts a shell command that runs on in the background, a server say, and answers its number and what it wrote so far. It ends with ' +
    'stop_process or with the sandbox.',
  kind: 'runs',
  input: z.object({
    ...commandShape,
    name: z.string().min(1).max(64).optional().describe('a name to find it by'),
    stdin: z.boolean().default(false).describe('keep its standard input open for write_process'),
    terminal: z.boolean().default(false).describe('give it a terminal, as programs that ask for one need'),
    wait_seconds: waitSchema(1),
  }),
  run: async ({ command, cwd, env, name, stdin, terminal, wait_seconds, ...where }, call) => {
    const box = await boxOf(where, call);
    call.signal.throwIfAborted();
    const process = await box.start(command, {
      cwd,
      ...(env !== undefined && { env }),
      ...(name !== undefined && { tag: name }),
      ...(terminal ? { pty: { rows: 40, columns: 120 } } : { stdin }),
      output_bytes_max: mcpLimits.processOutputBytes,
    });
    return await tell(process, { box, call, from: 0, wait: wait_seconds });
  },
});

export const readProcess = defineTool({
  name: 'read_process',
  title: 'Read what a process wrote',
  description:
    'Answers whether a process runs and what it wrote since this session read it last, or from a position on. Works for commands of run_command as well.',
  kind: 'reads',
  input: z.object({
    ...processShape,
    from: z
      .int()
      .min(0)
      .optional()
      .describe('position in its output, in bytes; without it behind what was read last'),
    wait_seconds: waitSchema(0),
  }),
  run: async ({ process: name, from, wait_seconds, ...where }, call) => {
    const box = await boxOf(where, call);
    const process = await box.processes.get(name, { signal: call.signal });
    const begin = from ?? call.session.position(box, process.number);
    return await tell(process, { box, call, from: begin, wait: wait_seconds });
  },
});

export const writeProcess = defineTool({
  name: 'write_process',
  title: 'Write to a process',
  description:
    'Sends input to a process that was started with `stdin` or `terminal`, and answers what it wrote then. A line ends with \\n, which is not added.',
  kind: 'runs',
  input: z.object({
    ...processShape,
    input: z.string().max(1_048_576),
    close: z.boolean().default(false).describe('nothing comes behind it'),
    wait_seconds: waitSchema(1),
  }),
  run: async ({ process: name, input, close, wait_seconds, ...where }, call) => {
    const box = await boxOf(where, call);
    const process = await box.processes.get(name, { signal: call.signal });
    if (input !== '') await process.write(input);
    if (close) await process.closeStdin();
    const from = call.session.position(box, process.number);
    return await tell(process, { box, call, from, wait: wait_seconds });
  },
});

export const stopProcess = defineTool({
  name: 'stop_process',
  title: 'Stop a process',
  description:
    'Ends a process and its children: asks with TERM, and kills after the grace time. One that has ended stays as it is.',
  kind: 'destroys',
  input: z.object({
    ...processShape,
    grace_seconds: z.number().min(0).max(60).default(5),
  }),
  run: async ({ process: name, grace_seconds, ...where }, call) => {
    const box = await boxOf(where, call);
    const process = await box.processes.get(name, { signal: call.signal });
    if (!(await endsBy(process, 'TERM', grace_seconds * 1_000))) await endsBy(process, 'KILL', 10_000);
    const from = call.session.position(box, process.number);
    return await tell(process, { box, call, from, wait: 0 });
  },
});

async function endsBy(process: Process, signal: 'TERM' | 'KILL', ms: number): Promise<boolean> {
  try {
    await process.signal(signal);
    await process.wait({ timeout_ms: ms });
    return true;
  } catch (error) {
    // Nobody can signal one that has ended.
    if (error instanceof Conflict && error.code === 'process_ended') return true;
    if (error instanceof TimedOut) return false;
    throw error;
  }
}

interface Telling {
  readonly box: Sandbox;
  readonly call: ToolCall;
  readonly from: number;
  /** Seconds. */
  readonly wait: number;
}

async function tell(process: Process, { box, call, from, wait }: Telling): Promise<ToolAnswer> {
  const { signal, chars } = call;
  const timer = setInterval(() => call.progress(`${stateOf(process.info)}, no output yet`), progressMs);
  const read = await readForAWhile(process, { from, bytesMax: chars, signal, waitMs: wait * 1_000 }).finally(
    () => clearInterval(timer),
  );
  const { kept, info } = read;
  call.session.notePosition(box, process.number, kept.next);
  const { text, isCut } = framedOutput(read, chars);
  const next = info.state === 'running' ? [`next position: ${kept.next}`] : [];
  return textAnswer([stateOf(info), text, ...next].join('\n'), { meta: metaOf(info, kept, isCut) });
}
