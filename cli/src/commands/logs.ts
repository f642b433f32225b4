/**
 * `squash logs`: the commands of a sandbox as a table, or one command's output on the streams it was written to.
 * `--follow` prints a job's lines as they come and ends with the job's exit code.
 */
import type { ExecRecord } from '@squash/contract/exec';
import type { ProcessInfo } from '@squash/contract/process';
import { sandboxPath } from '../client/client.ts';
import { followEvents } from '../client/follow.ts';
import { processPath, readProcess } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import {
  jsonText,
  printJson,
  printLine,
  printNote,
  printText,
  standardError,
  standardOutput,
} from '../output/print.ts';
import { printTable } from '../output/table.ts';
import { openOutputSink } from '../terminal/output-sink.ts';
import { printOutput } from '../terminal/follow-output.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', word] = call.positionals;
  if (call.flags.isSet('follow')) {
    if (word === undefined)
      throw usageFailure('--follow needs a command’s number or tag; see: squash ps --all');
    return await follow(call, id, await processOf(call, id, word));
  }
  if (word !== undefined) return await showOne(call, id, await numberOf(call, id, word));
  const records = await call.client.get<readonly ExecRecord[]>(sandboxPath(id, ['logs'], readPage(call)));
  if (call.json) printJson(records);
  else printRecords(records);
  return exitCodes.ok;
}

function readPage({ flags }: Call): {
  readonly after: number | undefined;
  readonly limit: number | undefined;
} {
  return {
    after: flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    limit: flags.integer('limit', { min: 1, max: 1_000_000 }),
  };
}

function printRecords(records: readonly ExecRecord[]): void {
  printTable<ExecRecord>(
    [
      { title: 'SEQ', text: (each) => `${each.seq}`, align: 'right' },
      { title: 'STARTED', text: (each) => each.started },
      { title: 'MS', text: (each) => `${each.duration_ms}`, align: 'right' },
      {
        title: 'EXIT',
        text: (each) => `${each.exit_code}`,
        align: 'right',
        style: (each) => (each.exit_code === 0 ? undefined : 'red'),
      },
      { title: 'REASON', text: (each) => each.reason },
      { title: 'COMMAND', text: (each) => each.cmd, fits: true },
    ],
    records,
  );
}

/** The streams go where they belong, byte for byte as the API keeps them. */
async function showOne(call: Call, id: string, seq: number): Promise<number> {
  const records = await call.client.get<readonly ExecRecord[]>(
    sandboxPath(id, ['logs'], { after: seq - 1, limit: 1 }),
  );
  const record = records.find((each) => each.seq === seq);
  if (record === undefined)
    throw new CliFailure(
      'exec_not_found',
      `the log of "${id}" has no finished command ${seq}; it may still run`,
    );
  if (call.json) {
    printJson(record);
    return exitCodes.ok;
  }
  printText(standardOutput, record.stdout);
  printText(standardError, record.stderr);
  if (record.truncated) printNote('squash: the output was longer than the log’s answer (truncated)');
  return exitCodes.ok;
}

async function processOf({ client }: Call, id: string, word: string): Promise<ProcessInfo> {
  return await client.get<ProcessInfo>(processPath(id, [readProcess(word)]));
}

/** The log has older commands than the list of processes. */
async function numberOf(call: Call, id: string, word: string): Promise<number> {
  const wanted = readProcess(word);
  return wanted.startsWith('tag:') ? (await processOf(call, id, wanted)).process : Number(wanted);
}

async function follow(call: Call, id: string, { process: job, kind }: ProcessInfo): Promise<number> {
  if (kind === 'job') return await followJob(call, id, job);
  const after = call.flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
  return await printOutput(call, { id, process: job, after });
}

async function followJob(call: Call, id: string, job: number): Promise<number> {
  const sinks = { stdout: openOutputSink(standardOutput), stderr: openOutputSink(standardError) };
  let after = call.flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
  return await followEvents<number>(call.client, {
    what: 'lines',
    request: () => ({
      path: sandboxPath(id, ['jobs', job, 'logs'], { streams: 'true' }),
      headers: { 'last-event-id': `${after}` },
    }),
    onEvent: async (event) => {
      if (event.name === 'done') return endOfJob(call, event.data);
      after = event.id === undefined ? after + 1 : Number(event.id);
      const stream = event.name === 'stderr' ? 'stderr' : 'stdout';
      const line = call.json ? jsonText({ number: after, stream, text: event.data }) : event.data;
      await (call.json ? sinks.stdout : sinks[stream]).write(Buffer.from(`${line}\n`));
      return undefined;
    },
  });
}

function endOfJob(call: Call, data: string): number {
  const end = JSON.parse(data) as { readonly exit_code: number | null };
  if (call.json) printLine(JSON.stringify({ done: true, exit_code: end.exit_code }));
  return end.exit_code ?? exitCodes.failed;
}
