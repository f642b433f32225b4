/**
 * `squash box learn`: runs a command in a box that notes what it is refused, and proposes the smallest policy for that. Nothing is granted: what
 * is proposed is a file, for whoever reads it and gives it with `--policy`.
 */
import { writeFileSync } from 'node:fs';
import type { PolicyLearnAnswer } from '@squash/contract/egress';
import type { Refusal } from '@squash/box/refused-paths';
import { findBox } from '../box/boxes.ts';
import { type BoxDaemon, ownUser } from '../box/daemon.ts';
import { whenEgressAnswers } from '../box/egress-begins.ts';
import type { BoxRecord } from '../box/record.ts';
import { RefusedPaths } from '../box/refused.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { jsonText, printJson, printNote, visible } from '../output/print.ts';
import { policyPath } from './policy-show.ts';

export async function run(call: Call): Promise<number> {
  const [word] = call.positionals;
  if (word === undefined && call.rest.length === 0)
    throw usageFailure('a command or a box is missing: squash box learn -- make test');
  if (word !== undefined && call.rest.length > 0)
    throw usageFailure(`a command stands behind "--": squash box learn -- ${[word, ...call.rest].join(' ')}`);
  if (word !== undefined) {
    const { daemon, box } = await findBox(call, word);
    tell(call, await learnt(daemon, box));
    return exitCodes.ok;
  }
  return await learnFromRun(call);
}

async function learnFromRun(call: Call): Promise<number> {
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
  tell(call, outcome.learnt);
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

function tell({ json, flags }: Call, { policy, refused, left_out: leftOut, truncated }: Learnt): void {
  const file = flags.text('output');
  if (file !== undefined) writeFileSync(file, `${jsonText(policy, 2)}\n`);
  if (json) printJson({ policy, refused, left_out: leftOut, truncated });
  else {
    if (file === undefined) printJson(policy);
    for (const { what, why } of leftOut) printNote(`squash: not proposed: ${visible(what)}: ${visible(why)}`);
    if (truncated) printNote('squash: it asked for more paths than are kept; these are the first');
  }
}
