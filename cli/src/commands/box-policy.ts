/** `squash box policy`: shows what boxes here get and from which file, checks files, compares policies, takes over other systems' settings. */
import { isPolicyProblem } from '@squash/box/policy-problem';
import type { PolicyChange } from '@squash/box/policy/diff';
import type { Resolution } from '@squash/box/policy/resolve';
import { currentPolicy, noWords } from '../box/policy.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { printTable, type Style, styled } from '../output/table.ts';
import { placeText } from './box-why.ts';

export async function run(call: Call): Promise<number> {
  const [action = '', ...files] = call.positionals;
  if (action === 'import') {
    const { importPolicy } = await import('./box-policy-import.ts');
    return await importPolicy(call, files);
  }
  const words = { ...noWords, files: [...call.flags.list('policy'), ...(action === 'diff' ? [] : files)] };
  switch (action) {
    case 'show':
      return await show(call, await currentPolicy(words));
    case 'check':
      return await check(call, words.files);
    case 'diff':
      return await diff(call, files);
    default:
      throw usageFailure(`box policy takes show, check, diff or import, not "${action}"`);
  }
}

async function show({ json }: Call, resolution: Resolution): Promise<number> {
  const { policyText } = await import('@squash/box/policy/policy-text');
  const { policy, notes, loaded } = resolution;
  if (json) {
    printJson({
      policy: policyText(policy),
      files: loaded.files.map(({ origin, path, sha256 }) => ({ origin, path, sha256 })),
      project_trusted: loaded.project?.isTrusted ?? null,
      sources: {
        fs: Object.fromEntries(
          [...policy.paths].map(([path, { written, source }]) => [path, { rule: written, ...source }]),
        ),
        net: Object.fromEntries(policy.netSources),
      },
      dropped: policy.dropped,
      notes: notes.map(({ text }) => text),
    });
    return exitCodes.ok;
  }
  printTable(
    [
      { title: 'LEVEL', text: ([, { level }]) => level },
      { title: 'PATH', text: ([path]) => path },
      { title: 'FROM', text: ([, { source }]) => placeText(source) },
    ],
    [...policy.paths],
  );
  printLine('What no rule names is hidden.\n');
  printRest(resolution);
  return exitCodes.ok;
}

function printRest({ policy, notes }: Resolution): void {
  const lines = (name: string, entries: readonly string[]): void => {
    printLine(`${name}: ${entries.length === 0 ? 'none' : visible(entries.join(', '))}`);
  };
  const word = (rule: unknown): string => (typeof rule === 'string' ? rule : JSON.stringify(rule));
  lines('Network', policy.net.allow.map(word));
  if (policy.net.deny.length > 0) lines('  never', policy.net.deny.map(word));
  if (policy.net.ask !== undefined) lines('  asked for', policy.net.ask.map(word));
  lines(
    'Variables passed beside the usual ones',
    policy.env.pass.map(({ value }) => value),
  );
  lines('Variables set', [...policy.env.set.keys()]);
  lines(
    'Secrets',
    [...policy.secrets].map(([name, { hosts }]) => `${name} for ${hosts.join(' ')}`),
  );
  for (const [name, words] of [
    ['Ports of the box on this machine', policy.ports.publish],
    ['Sockets', policy.sockets],
    ['Devices', policy.devices],
  ] as const)
    if (words.length > 0)
      lines(
        name,
        words.map(({ value }) => value),
      );
  if (policy.nesting !== undefined) printLine('Nesting: programs may make user namespaces');
  lines(
    'Limits',
    Object.entries(policy.limits).map(([name, { value }]) => `${name} ${value}`),
  );
  for (const { rule, why, source } of policy.dropped)
    printLine(
      `${styled('yellow', 'does not count')}: ${visible(rule)} of ${placeText(source)}: ${visible(why)}`,
    );
  for (const { text, isError } of notes)
    printLine(`${styled(isError ? 'red' : 'yellow', isError ? 'error' : 'note')}: ${visible(text)}`);
}

async function check({ json }: Call, files: readonly string[]): Promise<number> {
  const { hostPlaces } = await import('@squash/box/policy/resolve');
  const problems: string[] = [];
  const notes: string[] = [];
  try {
    const resolution = await currentPolicy({ ...noWords, files });
    for (const { text, isError } of resolution.notes) (isError ? problems : notes).push(text);
    for (const { rule, why, source } of resolution.policy.dropped)
      notes.push(`${placeText(source)}: ${rule} does not count: ${why}`);
    hostPlaces(resolution.policy);
    const read = resolution.loaded.files.map(({ path }) => path);
    notes.push(read.length === 0 ? 'there is no policy file here' : `read: ${read.join(', ')}`);
  } catch (failure) {
    const told = failure instanceof CliFailure && failure.code === 'policy_refused';
    if (!told && !isPolicyProblem(failure)) throw failure;
    problems.push(...failure.message.split('\n'));
  }
  if (json) printJson({ ok: problems.length === 0, problems, notes });
  else {
    for (const each of problems) printLine(`${styled('red', 'error')}: ${visible(each)}`);
    for (const each of notes) printLine(`note: ${visible(each)}`);
    if (problems.length === 0) printLine(styled('green', 'ok'));
  }
  return problems.length === 0 ? exitCodes.ok : exitCodes.failed;
}

async function diff({ json }: Call, [one, other, ...more]: readonly string[]): Promise<number> {
  if (one === undefined || other === undefined || more.length > 0)
    throw usageFailure('box policy diff takes two: files, "default" or "current"');
  const { diffPolicies } = await import('@squash/box/policy/diff');
  const changes = diffPolicies(await named(one), await named(other));
  if (json) printJson(changes);
  else if (changes.length === 0) printLine('They say the same.');
  else
    printTable<PolicyChange>(
      [
        {
          title: '',
          text: ({ direction }) => direction,
          style: ({ direction }): Style | undefined => styles[direction],
        },
        { title: 'WHAT', text: ({ what }) => what },
        { title: 'BEFORE', text: ({ before }) => before ?? '-' },
        { title: 'AFTER', text: ({ after }) => after ?? '-' },
      ],
      changes,
    );
  return exitCodes.ok;
}

const styles = { opens: 'yellow', closes: 'green', changes: undefined } as const;

async function named(word: string): Promise<Resolution['policy']> {
  if (word === 'current') return (await currentPolicy()).policy;
  return (await currentPolicy({ ...noWords, files: word === 'default' ? [] : [word], isAlone: true })).policy;
}
