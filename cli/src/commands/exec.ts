/** `squash exec`: a command in a sandbox, as if it ran here. With `--detach` it runs in the background. */
import type { ExecRecord } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import type { ProcessInfo } from '@squash/contract/process';
import { type Client, sandboxPath } from '../client/client.ts';
import { processPath } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { type ExecWish, streamExec } from '../terminal/exec-stream.ts';
import { readExecWish } from './exec-options.ts';

export async function run(call: Call): Promise<number> {
  const id = call.positionals[0] ?? '';
  const wish = readExecWish(call);
  if (call.flags.isSet('detach')) return await startProcess(call, id, wish);
  if (call.flags.isSet('tag')) throw usageFailure('--tag belongs to --detach');
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

/** In the background, by its words: no shell stands between. */
async function startProcess(call: Call, id: string, wish: ExecWish): Promise<number> {
  if (wish.tty || call.flags.isSet('interactive')) {
    throw usageFailure('a command in the background has no terminal and no input');
  }
  const process = await call.client.post<ProcessInfo>(processPath(id), {
    argv: wish.argv,
    env: wish.env,
    timeout_ms: wish.timeoutMs ?? limits.jobTimeoutSDefault * 1_000,
    output_bytes_max: limits.processOutputBytesMax,
    tag: call.flags.text('tag'),
    cwd: wish.cwd,
    user: wish.user,
  });
  if (call.json) printJson(process);
  else printLine(`${process.process}`);
  return exitCodes.ok;
}
