/**
 * `squash doctor`: what this host offers and what Squash makes of it. Asks the daemon where one runs, because
 * what it found at its start is what holds; else looks itself.
 */
import type { Capability } from '@squash/contract/capability';
import type { DaemonInfo } from '@squash/contract/daemon';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { askOffline } from '../local-host.ts';
import { printJson, printLine, printTable, styled, visible } from '../output/print.ts';
import { daemonInfo } from './daemon-info.ts';

type Configuration = DaemonInfo['config'];

interface RepairAnswer {
  readonly sandboxes: number;
  readonly kept: string | null;
  readonly problems: readonly string[];
}

export async function run(call: Call): Promise<number> {
  const config = call.flags.isSet('config');
  const repair = call.flags.isSet('repair');
  if (config && repair) throw usageFailure('--config and --repair exclude each other');
  if (repair) return await repairState(call);
  const info = await daemonInfo(call.client);
  if (config) return showConfiguration(call, info?.config ?? (await localConfiguration()));
  const host = info?.host ?? (await askOffline<{ readonly host: readonly Capability[] }>('probe')).host;
  return await showHost(call, host, info);
}

async function showHost(
  call: Call,
  host: readonly Capability[],
  info: DaemonInfo | undefined,
): Promise<number> {
  const lacking = host.filter((each) => each.required && each.state === 'missing');
  const { availableExecutors } = await import('@squash/codemode/availability');
  const executors = availableExecutors();
  if (call.json) printJson({ running: info !== undefined, host, codemode: executors });
  else {
    printLine(
      info === undefined
        ? 'No daemon runs; this is what one would find.'
        : `Daemon ${info.version}, pid ${info.pid}, data ${info.data_dir}`,
    );
    printLine('');
    printTable<Capability>(
      [
        { title: 'CAPABILITY', text: (each) => each.name },
        { title: 'STATE', text: word, style: (each) => styles[each.state] },
        { title: 'FOUND', text: (each) => each.found },
        { title: 'CHOICE', text: (each) => each.choice },
      ],
      host,
    );
    printRemedies(host);
    const usable = executors.filter((each) => each.usable).map((each) => each.name);
    const missing = executors.filter((each) => !each.usable).map((each) => `${each.name}: ${each.detail}`);
    printLine(`\ncodemode: ${usable.join(', ') || 'no executor'}`);
    for (const each of missing) printLine(`    ${visible(each)}`);
  }
  return lacking.length > 0 ? exitCodes.failed : exitCodes.ok;
}

const styles = { ok: 'green', weaker: 'yellow', missing: 'red' } as const satisfies Record<
  Capability['state'],
  string
>;

function word(each: Capability): string {
  return each.state === 'missing' && each.required ? 'MISSING' : each.state;
}

/** What is weaker, each with the command that mends it. */
function printRemedies(host: readonly Capability[]): void {
  const weak = host.filter((each) => each.state !== 'ok');
  if (weak.length === 0) {
    printLine(`\n${styled('green', 'Everything is there.')}`);
    return;
  }
  printLine('');
  for (const each of weak) {
    printLine(`${styled(styles[each.state], each.name)}: ${visible(each.weaker ?? 'nothing is lost by it')}`);
    if (each.remedy !== null) printLine(`    ${visible(each.remedy)}`);
  }
}

async function localConfiguration(): Promise<Configuration> {
  return (await askOffline<{ readonly config: Configuration }>('config')).config;
}

function showConfiguration(call: Call, config: Configuration): number {
  if (call.json) printJson(config);
  else {
    printTable<Configuration[number]>(
      [
        { title: 'VARIABLE', text: (each) => each.name },
        { title: 'VALUE', text: (each) => (each.value === '' ? '-' : each.value) },
        { title: 'SOURCE', text: (each) => each.source },
      ],
      config,
    );
  }
  return exitCodes.ok;
}

async function repairState(call: Call): Promise<number> {
  const info = await daemonInfo(call.client);
  if (info !== undefined) {
    throw new CliFailure('data_locked', `the daemon runs, with pid ${info.pid}; stop it first: squash stop`);
  }
  const answer = await askOffline<RepairAnswer>('repair');
  if (call.json) printJson(answer);
  else {
    printLine(`Rebuilt the database: ${answer.sandboxes} sandboxes. No upper was touched.`);
    if (answer.kept !== null) printLine(`The old database is kept as "${answer.kept}".`);
    for (const problem of answer.problems) printLine(`  ${visible(problem)}`);
  }
  return answer.problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}
