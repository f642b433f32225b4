/** `run_command`: one shell line to its end. It is a process like any other, so that its output can be read again, and a cancelled call ends it. */
import { Conflict, type Process } from '@squash/sdk';
import { z } from 'zod';
import { mcpLimits } from '../options.ts';
import { boxOf, defineTool, home, pathSchema, sandboxShape, textAnswer, type ToolCall } from '../tool.ts';
import { questionsSince } from './approvals.ts';
import { framedOutput, lastLine, metaOf, progressMs, readOutput, seconds, stateOf } from './output.ts';

/** A command that was faster waited for nobody. */
const askedMsLeast = 900;

export const commandShape = {
  ...sandboxShape,
  command: z.string().min(1).max(65_536).describe('a shell line, run by /bin/sh -c'),
  cwd: pathSchema.default(home).describe('directory to start in'),
  env: z.record(z.string(), z.string()).optional().describe('variables of this command'),
};

export const runCommand = defineTool({
  name: 'run_command',
  title: 'Run a command',
  description:
    'Runs a shell command in the sandbox as root and waits for its end. Answers how it ended and what it wrote, standard output and ' +
    'standard error in the order in which they came. Each command is a new shell: directories and variables do not carry over. For servers and ' +
    'whatever shall go on running use start_process.',
  kind: 'runs',
  input: z.object({
    ...commandShape,
    stdin: z.string().max(1_048_576).optional().describe('standard input; without it, it is empty'),
    timeout_seconds: z.number().min(0.1).max(3_600).default(120).describe('then it is killed'),
  }),
  run: async ({ command, cwd, env, stdin, timeout_seconds, ...where }, call) => {
    const box = await boxOf(where, call);
    call.signal.throwIfAborted();
    const begun = performance.now();
    const process = await box.start(command, {
      cwd,
      ...(env !== undefined && { env }),
      stdin: stdin !== undefined,
      timeout_ms: Math.round(timeout_seconds * 1_000),
      output_bytes_max: mcpLimits.processOutputBytes,
    });
    await using _ended = endWhenCancelled(process, call.signal);
    if (stdin !== undefined) await sendAll(process, stdin);
    const read = await follow(process, { begun, call });
    call.signal.throwIfAborted();
    const { text, isCut } = framedOutput(read, call.chars);
    const notes =
      performance.now() - begun < askedMsLeast
        ? []
        : await questionsSince(call.session, box, process.info.started_at);
    return textAnswer([stateOf(read.info), text, ...notes].join('\n'), {
      meta: metaOf(read.info, read.kept, isCut),
    });
  },
});

/** With a word now and then to a client that asked for it. */
async function follow(
  process: Process,
  { begun, call }: { readonly begun: number; readonly call: ToolCall },
) {
  let line = '';
  const tell = () => call.progress(`${seconds(performance.now() - begun)}${line === '' ? '' : `: ${line}`}`);
  const timer = setInterval(tell, progressMs);
  try {
    return await readOutput(process, {
      from: 0,
      bytesMax: call.chars,
      signal: call.signal,
      onOutput: (_kept, bytes) => {
        line = lastLine(bytes) || line;
      },
    });
  } finally {
    clearInterval(timer);
  }
}

/** A command that ends, or reads no further, has what it wants. */
async function sendAll(process: Process, text: string): Promise<void> {
  try {
    if (text !== '') await process.write(text);
    await process.closeStdin();
  } catch (error) {
    if (!(error instanceof Conflict)) throw error;
  }
}

/** At the end of the call nobody waits for it any more: if that is because it was cancelled, the command ends. */
function endWhenCancelled(process: Process, signal: AbortSignal): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      if (!signal.aborted) return;
      try {
        await process.signal('KILL', { signal: AbortSignal.timeout(5_000) });
      } catch {
        // It has ended, or no daemon is there: then its time-out ends it.
      }
    },
  };
}
