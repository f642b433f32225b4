/**
 * `squash sync`: makes a directory of a sandbox as one here is, or the other way round, and sends only what differs. Each file
 * takes its place when all of it is there, so a call that was interrupted is simply made again.
 */
import { watch } from 'node:fs';
import { SquashError } from '@squash/sdk/errors';
import { readEvents } from '@squash/sdk/event-stream';
import { filesPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, errorCode, exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { formatBytes, jsonText, printJson, printLine, printNote } from '../output/print.ts';
import { remoteOf } from '../remote-word.ts';
import { sameContents } from '../sync/contents.ts';
import {
  type Excludes,
  excludesOf,
  exclusionFile,
  ownExclusionLines,
  readExclusionLines,
} from '../sync/exclusions.ts';
import { LocalTree, localMode } from '../sync/local-tree.ts';
import { type Plan, planOf, sameSizeAndTime } from '../sync/plan.ts';
import { pull } from '../sync/pull.ts';
import { push } from '../sync/push.ts';
import { listRemote, type RemoteDirectory } from '../sync/remote-tree.ts';
import { shown, staysInside, type Tree, type TreeEntry } from '../sync/tree.ts';

/** What comes together, such as a build's output, is one round. */
const settleMs = 100;

interface Job {
  readonly call: Call;
  readonly directory: string;
  readonly remote: RemoteDirectory;
  readonly isPush: boolean;
}

export async function run(call: Call): Promise<number> {
  const [from = '', to = ''] = call.positionals;
  const source = remoteOf(from);
  const target = remoteOf(to);
  const place = source ?? target;
  if (place === undefined || (source !== undefined && target !== undefined)) {
    throw usageFailure('one of the two is ID:/PATH in a sandbox, the other a directory here');
  }
  const isPush = target !== undefined;
  const job: Job = { call, directory: isPush ? from : to, remote: { ...place, client: call.client }, isPush };
  if (call.flags.isSet('watch') && call.flags.isSet('dry-run')) {
    throw usageFailure('--watch and --dry-run exclude each other');
  }
  if (call.flags.isSet('watch')) await follow(job);
  else await once(job);
  return exitCodes.ok;
}

async function once(job: Job, isQuiet = false): Promise<void> {
  const { call, directory, isPush } = job;
  const began = performance.now();
  const isDry = call.flags.isSet('dry-run');
  using local = LocalTree.open(directory, !isPush && !isDry);
  if (local === undefined && isPush) {
    throw new CliFailure('file_unreadable', `can't read "${directory}": there is no such file`);
  }
  const stop = endCleanly(local);
  try {
    const { plan, changes, leftOut } = await compare(job, local);
    if (!isDry && local !== undefined) await carryOut(job, local, { plan, changes });
    const ms = Math.round(performance.now() - began);
    const count = plan.clear.length + plan.send.length + plan.remove.length;
    if (!isQuiet || count > 0) tell(call, { plan, to: changes.to, leftOut, ms });
  } catch (cause) {
    // What a sandbox sends as a tar may be none.
    if (cause instanceof SquashError) throw new CliFailure(cause.code, cause.message);
    if (cause instanceof CliFailure || errorCode(cause) === undefined) throw cause;
    throw new CliFailure('file_unwritable', `"${directory}" can't be synchronised: ${fileProblem(cause)}`);
  } finally {
    stop();
  }
}

interface Comparison {
  readonly plan: Plan;
  readonly changes: { readonly from: Tree; readonly to: Tree };
  /** Devices, sockets and links that lead out of the tree. */
  readonly leftOut: readonly string[];
}

async function compare(
  { call: { flags }, directory, remote, isPush }: Job,
  local: LocalTree | undefined,
): Promise<Comparison> {
  const excludes = readExcludes(flags, directory, isPush);
  const empty: Tree = { entries: new Map(), kept: new Set() };
  const there = await listRemote(remote, excludes);
  if (there === undefined && !isPush) {
    throw new CliFailure('file_not_found', `"${remote.path}" of ${remote.id} is not there`);
  }
  const here = local?.scan(excludes) ?? empty;
  const { tree: from, leftOut } = isPush ? withoutOdd(here, true) : withoutOdd(there ?? empty, false);
  const to = isPush ? (there ?? empty) : here;
  const same =
    flags.isSet('checksum') && local !== undefined && there !== undefined
      ? await sameContents({ local, tree: here }, { directory: remote, tree: there })
      : undefined;
  const modeOf = isPush ? (mode: number): number => mode : localMode;
  const isSame = (path: string, one: TreeEntry, other: TreeEntry): boolean =>
    modeOf(one.mode) === other.mode && (same?.has(path) ?? sameSizeAndTime(one, other));
  const plan = planOf(from, to, { isDeleting: flags.isSet('delete'), isSame });
  return { plan, changes: { from, to }, leftOut };
}

/** What is no file, directory or link has a place that nothing takes; so has a link of a sandbox's that leads elsewhere. */
function withoutOdd(
  tree: Tree,
  isOwn: boolean,
): { readonly tree: Tree; readonly leftOut: readonly string[] } {
  const leftOut: string[] = [];
  const entries = new Map<string, TreeEntry>();
  for (const [path, entry] of tree.entries) {
    const leads = entry.type === 'symlink' && !isOwn && !staysInside(path, entry.target);
    if (leads || entry.type === 'other') leftOut.push(path);
    entries.set(path, leads ? { ...entry, type: 'other' } : entry);
  }
  return { tree: { ...tree, entries }, leftOut };
}

function readExcludes(flags: Call['flags'], directory: string, isPush: boolean): Excludes {
  const named = flags.list('exclude-from').flatMap((file) => readExclusionLines(file));
  return excludesOf([
    ...ownExclusionLines(directory),
    ...named,
    ...flags.list('exclude'),
    ...(isPush ? [] : [`/${exclusionFile}`]),
  ]);
}

async function carryOut(
  { remote, isPush }: Job,
  local: LocalTree,
  { plan, changes }: Omit<Comparison, 'leftOut'>,
): Promise<void> {
  if (isPush) await push(plan, { local, from: changes.from, to: remote });
  else await pull(plan, { local, from: remote, tree: changes.from });
}

/** A half-written file has a temporary name, and even that goes when we are told to end. */
function endCleanly(local: LocalTree | undefined): () => void {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const end = (signal: NodeJS.Signals): void => {
    local?.dropUnfinished();
    stop();
    process.kill(process.pid, signal);
  };
  const stop = (): void => {
    for (const signal of signals) process.off(signal, end);
  };
  for (const signal of signals) process.on(signal, end);
  return stop;
}

interface Told {
  readonly plan: Plan;
  readonly to: Tree;
  readonly leftOut: readonly string[];
  readonly ms: number;
}

function tell({ flags, json }: Call, { plan, to, leftOut, ms }: Told): void {
  const isDry = flags.isSet('dry-run');
  const changes = [
    ...plan.send.map((path) => ({ change: to.entries.has(path) ? 'changed' : 'added', path: text(path) })),
    ...plan.remove.map((path) => ({ change: 'removed', path: text(path) })),
  ];
  if (json) {
    const { bytes, unchanged } = plan;
    const counts = { sent: plan.send.length, removed: plan.remove.length, unchanged, bytes, ms };
    const answer = { ...counts, left_out: leftOut.map(text), ...(isDry && { changes }) };
    if (flags.isSet('watch')) printLine(jsonText(answer));
    else printJson(answer);
    return;
  }
  const marks: Readonly<Record<string, string>> = { added: '+', changed: '!', removed: '-' };
  if (isDry) {
    for (const path of plan.send)
      printLine(`${to.entries.has(path) ? marks['changed'] : marks['added']} ${shown(path)}`);
    for (const path of plan.remove) printLine(`${marks['removed']} ${shown(path)}`);
  }
  for (const path of leftOut)
    printNote(`squash: left out: "${shown(path)}" is a device or leads out of the directory`);
  const verb = isDry ? 'would be sent' : 'sent';
  const removed = plan.remove.length > 0 ? `, ${plan.remove.length} removed` : '';
  printNote(
    `${plan.send.length} ${verb} (${formatBytes(plan.bytes)})${removed}, ${plan.unchanged} the same, ${(ms / 1_000).toFixed(1)} s`,
  );
}

const text = (path: string): string => Buffer.from(path, 'latin1').toString('utf8');

/** After each change all is compared again: what a watch did not tell is found with what it did. */
async function follow(job: Job): Promise<void> {
  let wake = Promise.withResolvers<'changed'>();
  const changed = (): void => wake.resolve('changed');
  const ended = job.isPush
    ? watchLocal(job.directory, changed)
    : watchRemote(job.remote, changed).then(() => 'ended' as const);
  for (let round = 0; ; round += 1) {
    if ((await Promise.race([wake.promise, ended])) === 'ended') return;
    if (round > 0) await new Promise((resolve) => setTimeout(resolve, settleMs));
    wake = Promise.withResolvers();
    await once(job, round > 0);
  }
}

/** Calls back at its start, too. Never ends by itself. */
function watchLocal(directory: string, changed: () => void): Promise<never> {
  return new Promise((_, reject) => {
    const failed = (cause: unknown): void =>
      reject(new CliFailure('file_unreadable', `can't watch "${directory}": ${fileProblem(cause)}`));
    try {
      watch(directory, { recursive: true }, changed).on('error', failed);
    } catch (cause) {
      return failed(cause);
    }
    changed();
  });
}

/** Calls back when nothing is missed any more, and with each change. Ends when the directory is gone. */
async function watchRemote({ client, id, path }: RemoteDirectory, changed: () => void): Promise<void> {
  const address = filesPath(id, ['watch'], { path, recursive: 'true' });
  const response = await client.open(address, { accept: 'text/event-stream' });
  for await (const { name } of readEvents(response.body())) {
    if (name === 'end') return;
    changed();
  }
  throw new CliFailure('unreachable', 'the daemon ended the watch', exitCodes.unreachable);
}
