/**
 * `squash box run`: a command on this machine, in a sandbox whose root is this machine seen through rules. Where no daemon runs that can
 * have it one is started; where there is none nothing is run.
 */
import type { BoxRules } from '@squash/box/base-rules';
import { takeCopies } from '@squash/box/copies';
import { limits } from '@squash/contract/limits';
import type { ProcessInfo } from '@squash/contract/process';
import { endBox, stopBox, tellKept } from '../box/boxes.ts';
import type { BoxRecord } from '../box/record.ts';
import { type BoxDaemon, withBoxDaemon } from '../box/daemon.ts';
import { Interruption } from '../box/interruption.ts';
import { Published } from '../box/published.ts';
import { putCopies } from '../box/put-copies.ts';
import type { BoxWish } from '../box/box-wish.ts';
import { readBoxWish } from '../box/wish.ts';
import { isatty } from 'node:tty';
import { nativeSandboxesPath, sandboxRecordPath } from '../client/client.ts';
import { processPath } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine, printNote } from '../output/print.ts';
import { noteWarnings } from '../output/warnings.ts';
import { terminalSize } from '../terminal/terminal-size.ts';
import { execInSandbox } from './exec.ts';

export async function run(call: Call): Promise<number> {
  return await runInNewBox(call, call.rest);
}

/** Shared with `box shell`. */
export async function runInNewBox(call: Call, argv: readonly string[]): Promise<number> {
  const wish = await readBoxWish(call.flags, argv);
  if (call.flags.isSet('print-policy') || call.flags.isSet('dry-run')) {
    const { showPolicy } = await import('../box/policy-view.ts');
    return await showPolicy(call, wish);
  }
  if (argv.length === 0) throw usageFailure('<command> is missing; try: squash help box run');
  if (wish.detach && call.flags.isSet('publish'))
    throw usageFailure('--publish lasts as long as the command line: with --detach, give it to box attach');
  using published = await Published.listen(call.flags);
  using interruption = new Interruption();
  const { daemon, box } = await withBoxDaemon(call, async (found) => ({
    daemon: found,
    box: await createBox(found, wish),
  }));
  if (!call.json) noteWarnings(box.warnings.filter(({ code }) => isOfWish(call.flags, code)));
  published.reach(call, { client: daemon.client, id: box.id });
  return wish.detach
    ? await startDetached(call, daemon, { box, wish })
    : await runAttached(call, { daemon, box, wish, interruption });
}

/** Limits that were not asked for, and that hold as well as they do here: `squash doctor` tells of them, not every command. */
const limitsByCode: Readonly<Record<string, string | undefined>> = {
  memory_limit: 'memory',
  cpu_limit: 'cpu',
  pids_limit: undefined,
  upper_limit: undefined,
};

function isOfWish(flags: Call['flags'], code: string): boolean {
  if (!Object.hasOwn(limitsByCode, code)) return true;
  const flag = limitsByCode[code];
  return flag !== undefined && flags.isSet(flag);
}

/** Codes by which the daemon says that the rules may not be had. */
const refusals = new Set(['host_path_refused', 'host_root_unsupported', 'forbidden']);

async function createBox({ client }: BoxDaemon, { create }: BoxWish): Promise<BoxRecord> {
  const { host } = create.from;
  const { paths, copies } = takeCopies(host.paths, host.user.home);
  try {
    const asked = { ...create, from: { host: { ...host, paths } } };
    const box = await client.post<BoxRecord>(nativeSandboxesPath, asked);
    await putCopies(client, box.id, copies);
    return box;
  } catch (failure) {
    if (!(failure instanceof CliFailure) || !refusals.has(failure.code)) throw failure;
    throw new CliFailure(failure.code, failure.message, exitCodes.notRunnable);
  }
}

interface Attached {
  readonly daemon: BoxDaemon;
  readonly box: BoxRecord;
  readonly wish: BoxWish;
  readonly interruption: Interruption;
}

async function runAttached(call: Call, { daemon, box, wish, interruption }: Attached): Promise<number> {
  const end = { repository: copiedRepository(wish.rules), keep: wish.keep, remove: wish.remove };
  try {
    interruption.runs(() => {
      stopBox(daemon, box.id).catch(() => {
        // The daemon is gone as well: the stream breaks off and tells.
      });
    });
    return await execInSandbox({ client: daemon.client, json: call.json }, box.id, {
      argv: wish.argv,
      env: wish.env,
      cwd: wish.rules.workdir,
      user: undefined,
      timeoutMs: wish.timeoutMs,
      tty: wish.tty,
      stdin: wish.tty || !isatty(0),
      output: call.json ? 'discard' : 'print',
    });
  } finally {
    await finish(daemon, box, end);
  }
}

/** What went wrong here changes nothing about how the command ended. */
async function finish(daemon: BoxDaemon, box: BoxRecord, end: Parameters<typeof endBox>[2]): Promise<void> {
  try {
    const kept = await endBox(daemon, box, end);
    if (kept !== undefined) tellKept(kept);
  } catch (failure) {
    if (!(failure instanceof CliFailure)) throw failure;
    if (failure.code === 'sandbox_not_found') return;
    printNote(`squash: the box ${box.id} could not be ended: ${failure.message} (${failure.code})`);
  }
}

function copiedRepository({ paths, repository }: BoxRules): string | undefined {
  return repository !== undefined && paths[repository] === 'cow' ? repository : undefined;
}

interface Detached {
  readonly box: BoxRecord;
  readonly wish: BoxWish;
}

async function startDetached(call: Call, { client }: BoxDaemon, { box, wish }: Detached): Promise<number> {
  try {
    const process = await client.post<ProcessInfo>(processPath(box.id), {
      argv: wish.argv,
      env: wish.env,
      cwd: wish.rules.workdir,
      output_bytes_max: limits.processOutputBytesMax,
      ...(wish.timeoutMs !== undefined && { timeout_ms: wish.timeoutMs }),
      ...(wish.tty && {
        stdin: true,
        pty: { ...terminalSize(), term: wish.env['TERM'] ?? 'xterm-256color' },
      }),
    });
    if (call.json) printJson({ box: box.id, process: process.process });
    else printLine(box.id);
    return exitCodes.ok;
  } catch (failure) {
    await client.delete(sandboxRecordPath(box.id));
    throw failure;
  }
}
