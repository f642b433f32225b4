/** `squash box why`: the rule that decides about a path or a host. Exits with 1 where a host would not be reached. */
import type { Source } from '@squash/box/policy/layers';
import type { HostReason, PathReason } from '@squash/box/policy/why';
import { boxPlace, currentPolicy, noWords } from '../box/policy.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { styled } from '../output/table.ts';

const examples = 'squash box why path ~/.ssh, squash box why host api.github.com:443';

export async function run(call: Call): Promise<number> {
  const [kind = '', what] = call.positionals;
  if (kind !== 'path' && kind !== 'host')
    throw usageFailure(`box why takes "path" or "host" and which, not "${kind}"; such as: ${examples}`);
  if (what === undefined) throw usageFailure(`which ${kind}? Such as: ${examples}`);
  const { policy } = await currentPolicy({ ...noWords, files: call.flags.list('policy') });
  const { readQuestion, whyPath, whyHost } = await import('@squash/box/policy/why');
  if (kind === 'path') {
    const { existing } = await import('@squash/box/policy/expand');
    const { absolutePath } = await import('@squash/box/host-paths');
    const { home, repository, cwd } = boxPlace();
    const path = existing(absolutePath(what, { cwd, home }));
    const reason = whyPath(policy, path, { home, repository });
    if (call.json) printJson(reason);
    else printPath(reason);
    return exitCodes.ok;
  }
  const asked = readQuestion(what);
  if (typeof asked === 'string') throw usageFailure(asked);
  const reason = whyHost(policy, asked);
  if (call.json) printJson(reason);
  else printHost(what, reason);
  return reason.answer.allowed ? exitCodes.ok : exitCodes.failed;
}

function printPath({ path, level, rule, at, source, inside }: PathReason): void {
  printLine(
    `${visible(path)}: ${styled(level === 'rw' || level === 'cow' || level === 'ro' ? 'green' : 'red', level)}`,
  );
  printLine(`  inside: ${visible(inside)}`);
  if (rule === null || source === null) return;
  printLine(
    `  rule:   ${visible(JSON.stringify(rule))}${at === path || at === null ? '' : `, about ${visible(at)}`}`,
  );
  printLine(`  from:   ${placeText(source)}`);
}

function printHost(what: string, { answer, sources, secrets }: HostReason): void {
  printLine(`${visible(what)}: ${answer.allowed ? styled('green', 'allowed') : styled('red', 'refused')}`);
  for (const { step, rule, remedy } of answer.steps) {
    printLine(`  ${step}: ${visible(rule)}`);
    if (remedy !== undefined) printLine(`    ${visible(remedy)}`);
  }
  if (answer.steps.some(({ rule, allowed }) => !allowed && /^(?:not_allowed|allow\[\d+\] none)$/.test(rule)))
    printLine(`  nothing allows it: --net ${visible(what)}, or "allow" in [net] of a policy file`);
  for (const { rule, source } of sources) printLine(`  ${rule} from: ${placeText(source)}`);
  if (secrets.length > 0)
    printLine(`  secrets that it gets: ${secrets.map((each) => visible(each)).join(', ')}`);
}

export function placeText({ origin, file, line }: Source): string {
  return visible(`${origin}, ${file}${line === undefined ? '' : `:${line}`}`);
}
