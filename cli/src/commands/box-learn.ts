/**
 * `squash box learn`: runs a command in a box that notes what it is refused, and proposes the smallest policy for that. Nothing is granted: what
 * is proposed is a file, for whoever reads it and gives it with `--policy`.
 */
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { PolicyLearnAnswer } from '@squash/contract/egress';
import type { Refusal } from '@squash/box/refused-paths';
import { findBox } from '../box/boxes.ts';
import { type BoxDaemon, ownUser } from '../box/daemon.ts';
import { whenEgressAnswers } from '../box/egress-begins.ts';
import type { BoxRecord } from '../box/record.ts';
import { RefusedPaths } from '../box/refused.ts';
import type { Call } from '../command.ts';
import { CliFailure, errorCode, exitCodes, usageFailure } from '../failure.ts';
import { jsonText, printJson, printNote, visible } from '../output/print.ts';
import { policyPath } from './policy-show.ts';

export async function run(call: Call): Promise<number> {
  const [word] = call.positionals;
  if (word === undefined && call.rest.length === 0)
    throw usageFailure('a command or a box is missing: squash box learn -- make test');
  if (word !== undefined && call.rest.length > 0)
    throw usageFailure(`a command stands behind "--": squash box learn -- ${[word, ...call.rest].join(' ')}`);
  const file = call.flags.text('output');
  const output = file === undefined ? undefined : await openOutput(file);
  try {
    if (word === undefined) return await learnFromRun(call, output?.file);
    const { daemon, box } = await findBox(call, word);
    tell(call, await learnt(daemon, box), output?.file);
    return exitCodes.ok;
  } finally {
    if (output !== undefined) closeOutput(output);
  }
}

/** O_PATH, which Node has no name for: it takes no right to list the directory. */
const pathOnly = 0o10_000_000;

interface Output {
  readonly file: number;
  /** Its name as the directory's descriptor has it, where it was made for this: what leads there by name a box may have replaced. */
  readonly made?: { readonly directory: number; readonly name: string };
}

/** An empty file that was made for what did not come goes again, if it is still the one of that name. */
function closeOutput({ file, made }: Output): void {
  if (made !== undefined) {
    const { size, dev, ino } = fstatSync(file);
    const name = `/proc/self/fd/${made.directory}/${made.name}`;
    const there = size > 0 ? undefined : lstatSync(name, { throwIfNoEntry: false });
    if (there?.dev === dev && there.ino === ino) unlinkSync(name);
    closeSync(made.directory);
  }
  closeSync(file);
}

/**
 * Before anything runs: a box that writes the directory itself would put a link to another file there. One that lies there already
 * is the repository's word, and refused as well.
 */
async function openOutput(word: string): Promise<Output> {
  const { canonical } = await import('@squash/box/host-paths');
  const { isWithin } = await import('@squash/box/levels');
  const cwd = process.cwd();
  const directory = dirname(resolve(word));
  const place = join(canonical(directory) ?? directory, basename(resolve(word)));
  if (isWithin(directory, cwd) && place !== resolve(word)) throw noOutput(word);
  const { O_WRONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
  const isNew = lstatSync(place, { throwIfNoEntry: false }) === undefined;
  let file: number;
  try {
    file = openSync(place, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o666);
  } catch (cause) {
    if (errorCode(cause) === 'ELOOP') throw noOutput(word);
    const code = errorCode(cause) ?? String(cause);
    throw usageFailure(
      `--output "${word}" can't be written: ${code === 'ENOENT' ? 'there is no such directory' : code}`,
    );
  }
  if (fstatSync(file).isFile() && readlinkSync(`/proc/self/fd/${file}`) === place)
    return { file, ...(isNew && { made: madeIn(dirname(place), basename(place)) }) };
  closeSync(file);
  throw noOutput(word);
}

function madeIn(place: string, name: string): Required<Output>['made'] {
  const { O_DIRECTORY, O_NOFOLLOW } = constants;
  return { directory: openSync(place, pathOnly | O_DIRECTORY | O_NOFOLLOW), name };
}

function noOutput(word: string): CliFailure {
  return usageFailure(`--output "${word}" is no file, or a link leads there: name the file itself`);
}

async function learnFromRun(call: Call, output: number | undefined): Promise<number> {
  const { boxCommands } = await import('../command-table-box.ts');
  const { runInNewBox } = await import('./box-run.ts');
  const flags = call.flags.and(boxCommands.find(({ name }) => name === 'box run')?.flags ?? []);
  const outcome: { learnt?: Learnt; failure?: unknown } = {};
  const code = await runInNewBox({ ...call, flags }, call.rest, {
    tracesPaths: true,
    isSilent: call.json,
    // Whatever comes of it, the box has to be ended.
    afterwards: async (daemon, box) => {
      try {
        outcome.learnt = await learnt(daemon, box);
      } catch (failure) {
        outcome.failure = failure;
      }
    },
  });
  if (outcome.learnt === undefined) throw outcome.failure;
  tell(call, outcome.learnt, output);
  return code;
}

interface Learnt {
  readonly policy: object;
  readonly refused: readonly Refusal[];
  readonly left_out: readonly { readonly what: string; readonly why: string }[];
  /** There were more paths than a box keeps. */
  readonly truncated: boolean;
}

async function learnt({ client }: BoxDaemon, { id, host_paths: paths }: BoxRecord): Promise<Learnt> {
  const { refusalOf } = await import('@squash/box/refused-paths');
  const { propose } = await import('@squash/box/propose');
  const { canonical } = await import('@squash/box/host-paths');
  const trace = new RefusedPaths(client, id);
  const asked = await trace.next();
  if (!trace.isTraced)
    throw new CliFailure(
      'not_traced',
      `box "${id}" was not asked to note paths; run it with --trace-paths, or by squash box learn -- COMMAND`,
      exitCodes.failed,
    );
  const network = await whenEgressAnswers(() => client.get<PolicyLearnAnswer>(policyPath(id, ['learn'])));
  const rules = new Map(Object.entries(paths ?? {}));
  const refused = asked.flatMap((path) => refusalOf(path, rules) ?? []);
  const { home } = ownUser();
  const { fs, leftOut } = propose(refused, { rules, home: canonical(home) ?? home });
  return {
    policy: {
      version: 1,
      fs,
      ...(network.seen.length > 0 && { net: { allow: network.policy.allow } }),
    },
    refused,
    left_out: [...leftOut, ...network.left_out],
    truncated: trace.isTruncated,
  };
}

function tell(
  { json }: Call,
  { policy, refused, left_out: leftOut, truncated }: Learnt,
  output: number | undefined,
): void {
  if (output !== undefined) {
    ftruncateSync(output);
    writeFileSync(output, `${jsonText(policy, 2)}\n`);
  }
  if (json) printJson({ policy, refused, left_out: leftOut, truncated });
  else {
    if (output === undefined) printJson(policy);
    for (const { what, why } of leftOut) printNote(`squash: not proposed: ${visible(what)}: ${visible(why)}`);
    if (truncated) printNote('squash: it asked for more paths than are kept; these are the first');
  }
}
