/**
 * `squash box run`: a command on this machine, in a sandbox whose root is this machine seen through rules. Where no daemon runs that can
 * have it one is started; where there is none nothing is run.
 */
import { takeCopies } from '@squash/box/copies';
import { withoutOwnPlaces } from '@squash/box/own-places';
import { policyPlaces } from '@squash/box/policy-places';
import { limits } from '@squash/contract/limits';
import type { ProcessInfo } from '@squash/contract/process';
import { endBox, stopBox, tellKept } from '../box/boxes.ts';
import { hasWork } from '../box/changes.ts';
import type { BoxRecord } from '../box/record.ts';
import { asCliFailure, type BoxDaemon, withBoxDaemon } from '../box/daemon.ts';
import type { AgentFilter } from '../box/agent-filter.ts';
import { Interruption } from '../box/interruption.ts';
import { Published } from '../box/published.ts';
import type { BoxSecrets } from '../box/policy.ts';
import { lookForMadeNames } from '../box/made-names.ts';
import { putCopies } from '../box/put-copies.ts';
import { type BoxWish, workPlaces } from '../box/box-wish.ts';
import { startStandby } from '../box/standby.ts';
import { readBoxWish } from '../box/wish.ts';
import { isatty } from 'node:tty';
import { nativeSandboxesPath, sandboxRecordPath } from '../client/client.ts';
import { processPath } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine, printNote } from '../output/print.ts';
import { noteWarnings } from '../output/warnings.ts';
import type { QuestionSource } from '../terminal/run-questions.ts';
import { terminalSize } from '../terminal/terminal-size.ts';
import { execInSandbox } from './exec.ts';

export async function run(call: Call): Promise<number> {
  return await runInNewBox(call, call.rest);
}

export interface BoxOptions {
  /** What goes in as placeholders, as policy files say it. */
  readonly secrets?: BoxSecrets;
  /** Told of a box that is kept; undefined: the user is. */
  readonly keeps?: (box: BoxRecord) => void;
  /** It notes which paths it is refused, whether that was asked for or not. */
  readonly tracesPaths?: boolean;
  /** Nothing of the command's is printed, nor how it ended. */
  readonly isSilent?: boolean;
  /** While the box is still there. */
  readonly afterwards?: (daemon: BoxDaemon, box: BoxRecord) => Promise<void>;
}

/** Shared with `box shell`, `box agent` and `box learn`. */
export async function runInNewBox(
  call: Call,
  argv: readonly string[],
  { secrets, keeps, tracesPaths, isSilent, afterwards }: BoxOptions = {},
): Promise<number> {
  const asked = await readBoxWish(call.flags, argv, secrets);
  const wish = tracesPaths === true ? tracing(asked) : asked;
  const { host: root } = wish.create.from;
  if (root.trace_paths === true && root.nesting === true)
    throw usageFailure(
      'paths are not noted in a box with nesting: leave one of the two out, or close it by --policy with a file that says nesting = false',
    );
  if (call.flags.isSet('print-policy') || call.flags.isSet('dry-run')) {
    const { showPolicy } = await import('../box/policy-view.ts');
    return await showPolicy(call, wish);
  }
  if (argv.length === 0) throw usageFailure('<command> is missing; try: squash help box run');
  if (wish.detach && call.flags.isSet('publish'))
    throw usageFailure('--publish lasts as long as the command line: with --detach, give it to box attach');
  if (wish.detach && wish.publish.length > 0)
    printNote(
      'squash: ports of the policy that are published are so while a command line runs: with --detach none is',
    );
  using published = await Published.listen(wish.detach ? [] : wish.publish);
  if (wish.detach && wish.sockets.agent !== undefined)
    throw usageFailure('the ssh-agent is had while the command line runs: not with --detach');
  using agent = await listenAgent(wish);
  using interruption = new Interruption();
  const { daemon, box } = await withBoxDaemon(call, 'start', async (found) => ({
    daemon: found,
    box: await createBox(found, wish, agent?.path),
  }));
  agent?.forgetPath();
  if (!call.json) noteWarnings(box.warnings.filter(({ code }) => isOfWish(call.flags, code)));
  const isWork = await begin(daemon, box, wish);
  published.reach(call, { client: daemon.client, id: box.id });
  try {
    return wish.detach
      ? await startDetached(call, daemon, { box, wish })
      : await runAttached(call, {
          daemon,
          box,
          wish: withAgent(wish, agent?.path),
          interruption,
          isWork,
          ...(keeps !== undefined && { keeps }),
          isSilent: isSilent === true,
          questions: await questionsIn(daemon, { box, wish }),
          afterwards: async () => await afterwards?.(daemon, box),
        });
  } finally {
    await startStandby(daemon.client);
  }
}

function tracing(wish: BoxWish): BoxWish {
  const { host } = wish.create.from;
  return { ...wish, create: { ...wish.create, from: { host: { ...host, trace_paths: true } } } };
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

async function listenAgent({ sockets: { agent } }: BoxWish): Promise<AgentFilter | undefined> {
  if (agent === undefined) return undefined;
  const { AgentFilter: Filter } = await import('../box/agent-filter.ts');
  return await Filter.listen(agent);
}

/** Of this command alone: whoever comes later finds no filter. */
function withAgent(wish: BoxWish, path: string | undefined): BoxWish {
  return path === undefined ? wish : { ...wish, env: { ...wish.env, SSH_AUTH_SOCK: path } };
}

/** @throws host_path_refused and its like, with the exit code of what is forbidden */
export async function createBox(
  { client }: BoxDaemon,
  { create, sockets, devices }: BoxWish,
  agent?: string,
): Promise<BoxRecord> {
  const { host } = create.from;
  const places = policyPlaces(process.env, host.user.home, '/');
  const written = await asCliFailure(() => withoutOwnPlaces(host.paths, places));
  const { paths, copies } = takeCopies(written, host.user.home);
  try {
    const shown = [...sockets.paths, ...(agent === undefined ? [] : [agent])];
    const named = {
      ...(shown.length > 0 && { sockets: shown }),
      ...(devices.length > 0 && { devices }),
    };
    const asked = { ...create, from: { host: { ...host, paths, ...named } } };
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
  readonly isWork: HasWork;
  readonly keeps?: (box: BoxRecord) => void;
  readonly isSilent?: boolean;
  /** What it asks, where the terminal on which it runs is to ask. */
  readonly questions?: QuestionSource | undefined;
  /** While the box is still there. */
  readonly afterwards?: () => Promise<void>;
}

async function questionsIn(daemon: BoxDaemon, { box, wish }: Detached): Promise<QuestionSource | undefined> {
  if ((wish.create.policy?.ask ?? []).length === 0) return undefined;
  const { questionsOf } = await import('../box/box-questions.ts');
  return questionsOf(daemon, box.id);
}

/** The command in a new box, which is removed or kept behind it. */
export async function runAttached(
  call: Call,
  { daemon, box, wish, interruption, isWork, keeps, isSilent = false, questions, afterwards }: Attached,
): Promise<number> {
  const tellMade = await lookForMadeNames(wish.rules);
  try {
    interruption.runs(() => {
      stopBox(daemon, box.id).catch(() => {
        // The daemon is gone as well: the stream breaks off and tells.
      });
    });
    return await execInSandbox({ client: daemon.client, json: call.json && !isSilent }, box.id, {
      argv: wish.argv,
      env: wish.env,
      cwd: wish.rules.workdir,
      user: undefined,
      timeoutMs: wish.timeoutMs,
      tty: wish.tty,
      stdin: wish.tty || !isatty(0),
      output: call.json || isSilent ? 'discard' : 'print',
      questions,
    });
  } finally {
    await afterwards?.();
    tellMade();
    const kept = await finish(
      call,
      { daemon, box },
      { hasWork: isWork, keep: wish.keep, remove: wish.remove },
    );
    if (kept !== undefined) (keeps ?? tellKept)(kept, wish.keep);
  }
}

type HasWork = () => Promise<boolean>;

/** Before anything else runs in it. @returns whether it has come to hold more @throws git_failed, and then there is no box */
async function begin(daemon: BoxDaemon, { id }: BoxRecord, { branch, rules }: BoxWish): Promise<HasWork> {
  if (branch === undefined) return async () => await hasWork(daemon, id, workPlaces(rules));
  const { startBranch } = await import('../box/start-branch.ts');
  try {
    const { repository = rules.workdir, workdir } = rules;
    return await startBranch(daemon, { id, repository, workdir, branch });
  } catch (failure) {
    await daemon.client.delete(sandboxRecordPath(id));
    throw failure;
  }
}

/** What went wrong here changes nothing about how the command ended. */
async function finish(
  call: Call,
  { daemon, box }: Pick<Attached, 'daemon' | 'box'>,
  end: Parameters<typeof endBox>[2],
): Promise<BoxRecord | undefined> {
  try {
    return await endWith(call, daemon, async (found) => await endBox(found, box, end));
  } catch (failure) {
    if (!(failure instanceof CliFailure)) throw failure;
    if (failure.code !== 'sandbox_not_found')
      printNote(`squash: the box ${box.id} could not be ended: ${failure.message} (${failure.code})`);
    return undefined;
  }
}

/** What a daemon that was killed has left would run on until somebody starts the next one: it is done here. */
async function endWith<T>(
  call: Call,
  daemon: BoxDaemon,
  work: (daemon: BoxDaemon) => Promise<T>,
): Promise<T> {
  try {
    return await work(daemon);
  } catch (failure) {
    if (!(failure instanceof CliFailure) || failure.exitCode !== exitCodes.unreachable) throw failure;
    return await withBoxDaemon(call, 'start', work);
  }
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
