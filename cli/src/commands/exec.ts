/** `squash exec`: a command in a sandbox, as if it ran here. With `--detach` it becomes a job. */
import type { ExecRecord, JobInfo } from '@squash/contract/exec';
import { type Client, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { type ExecWish, streamExec } from '../terminal/exec-stream.ts';
import { readExecWish } from './exec-options.ts';

export async function run(call: Call): Promise<number> {
  const id = call.positionals[0] ?? '';
  const wish = readExecWish(call);
  if (call.flags.isSet('detach')) return await startJob(call, id, wish);
  return await execInSandbox(call, id, wish);
}

/** Shared with `shell` and `run`. */
export async function execInSandbox(
  call: Pick<Call, 'client' | 'json'>,
  id: string,
  wish: ExecWish,
): Promise<number> {
  const end = await streamExec(call.client, id, wish);
  if (call.json) printJson(await readRecord(call.client, id, end.seq));
  return end.exitCode;
}

async function readRecord(client: Client, id: string, seq: number): Promise<ExecRecord | undefined> {
  const records = await client.get<readonly ExecRecord[]>(
    sandboxPath(id, ['logs'], { after: seq - 1, limit: 1 }),
  );
  return records.find((record) => record.seq === seq);
}

/** A job is a shell line in the API: the words are quoted so that the shell gives back exactly these. */
async function startJob(call: Call, id: string, wish: ExecWish): Promise<number> {
  if (wish.tty || call.flags.isSet('interactive')) throw usageFailure('a job has no terminal and no input');
  if (wish.user !== undefined) throw usageFailure('a job runs as user 0; use: su, or exec without --detach');
  const exports = Object.entries(wish.env).map(
    ([name, value]) => `export ${shellName(name)}=${quoteWord(value)}\n`,
  );
  const job = await call.client.post<JobInfo>(sandboxPath(id, ['exec-bg']), {
    cmd: `${exports.join('')}exec ${wish.argv.map(quoteWord).join(' ')}`,
    ...(wish.cwd !== undefined && { workdir: wish.cwd }),
    ...(wish.timeoutMs !== undefined && { timeout: Math.max(1, Math.ceil(wish.timeoutMs / 1000)) }),
  });
  if (call.json) printJson(job);
  else printLine(`${job.job_id}`);
  return exitCodes.ok;
}

export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

function shellName(name: string): string {
  if (!/^[A-Za-z_]\w*$/.test(name)) throw usageFailure(`"${name}" is no variable that a shell can set`);
  return name;
}
