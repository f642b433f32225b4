/**
 * `squash doctor`: what this host offers and what Squash makes of it. Asks the daemon where one runs, because
 * what it found at its start is what holds; else looks itself.
 */
import { release } from 'node:os';
import { type BoxNeed, boxNeeds, readSetting } from '@squash/box/needs';
import type { Capability } from '@squash/contract/capability';
import type { DaemonInfo } from '@squash/contract/daemon';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { askOffline, launchProgram } from '../local-host.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { printTable, styled } from '../output/table.ts';
import { ownDaemon } from './daemon-info.ts';

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
  const info = await ownDaemon(call.client);
  if (config) return await showConfiguration(call, info);
  const host = info?.host ?? (await askOffline<{ readonly host: readonly Capability[] }>('probe')).host;
  return await showHost(call, host, info);
}

const noDaemon = 'No daemon runs; this is what one would find.';

function headOf({ version, pid, data_dir }: DaemonInfo): string {
  return `Daemon ${version}, pid ${pid}, data ${data_dir}`;
}

async function showHost(
  call: Call,
  host: readonly Capability[],
  info: DaemonInfo | undefined,
): Promise<number> {
  const lacking = host.filter((each) => each.required && each.state === 'missing');
  const problems = info?.problems ?? [];
  const { availableExecutors, confinementState } = await import('@squash/codemode/availability');
  const memory = host.find((each) => each.name === 'cgroup_memory' && each.state !== 'ok');
  const executors = availableExecutors(info?.version, memory?.found);
  const { usable: confined, detail } = await confinementState();
  const needs = boxNeeds(host, { release: release(), read: readSetting, launcher: launchProgram });
  if (call.json)
    printJson({
      running: info !== undefined,
      problems,
      room: info?.room ?? null,
      host,
      boxes: needs,
      codemode: executors,
      codemode_processes: { confined, detail },
    });
  else {
    printLine(info === undefined ? noDaemon : headOf(info));
    for (const { code, message } of problems) printLine(`${styled('red', code)}: ${visible(message)}`);
    // A daemon of an earlier version says nothing of it.
    const room: DaemonInfo['room'] | undefined = info?.room;
    if (room !== undefined) printRoom(room);
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
    printNeeds(needs);
    const usable = executors.filter((each) => each.usable).map((each) => each.name);
    const missing = executors.filter((each) => !each.usable).map((each) => `${each.name}: ${each.detail}`);
    printLine(`\ncodemode: ${usable.join(', ') || 'no executor'}`);
    for (const each of missing) printLine(`    ${visible(each)}`);
    printLine(
      visible(
        confined
          ? `    processes of quickjs, isolated-vm and vm2: in namespaces, by ${detail}`
          : `    processes of quickjs, isolated-vm and vm2: without namespaces of their own: ${detail}`,
      ),
    );
  }
  return lacking.length > 0 || problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}

/** What creates are admitted against. */
function printRoom({ memory, cpu, disk }: DaemonInfo['room']): void {
  const gib = (bytes: number): string => (bytes / 1_073_741_824).toFixed(1);
  const most = (max: number | null, shown: (value: number) => string): string =>
    max === null ? '' : ` of ${shown(max)} at most`;
  for (const [name, { total, available, kept, promised, promised_max: max }] of [
    ['memory', memory],
    ['disk', disk],
  ] as const) {
    printLine(
      `${name}: ${gib(available)} of ${gib(total)} GiB available, ${gib(kept)} kept; ${gib(promised)} GiB promised to sandboxes${most(max, gib)}`,
    );
  }
  const processors = most(cpu.promised_max, String);
  printLine(
    `processors: ${cpu.total}; ${Math.round(cpu.promised * 100) / 100} promised to sandboxes${processors}`,
  );
}

const styles = { ok: 'green', weaker: 'yellow', missing: 'red' } as const satisfies Record<
  Capability['state'],
  string
>;

function word(each: Capability): string {
  return each.state === 'missing' && each.required ? 'MISSING' : each.state;
}

/** What is weaker, each with the command that mends it. What is missing and costs nothing needs no mending. */
function printRemedies(host: readonly Capability[]): void {
  const weak = host.flatMap((each) =>
    each.state === 'ok' || each.weaker === null ? [] : [{ ...each, weaker: each.weaker }],
  );
  if (weak.length === 0) {
    printLine(`\n${styled('green', 'Nothing is weaker than it can be.')}`);
    return;
  }
  printLine('');
  for (const each of weak) {
    printLine(`${styled(styles[each.state], each.name)}: ${visible(each.weaker)}`);
    for (const line of each.remedy?.split('\n') ?? []) printLine(`    ${visible(line)}`);
  }
}

/** What `squash box` needs: in one line where all is there. */
function printNeeds(needs: readonly BoxNeed[]): void {
  const lacking = needs.filter(({ state }) => state !== 'ok');
  const isMissing = lacking.some(({ state }) => state === 'missing');
  printLine(
    `\nboxes (squash box): ${isMissing ? styled('red', 'do not start here') : styled('green', 'work')}`,
  );
  for (const { name, state, found, remedy } of lacking) {
    printLine(`    ${styled(styles[state], name)}: ${visible(found)}`);
    for (const line of remedy.flatMap((command) => command.split('\n')))
      printLine(`        ${visible(line)}`);
  }
}

async function localConfiguration(): Promise<Configuration> {
  return (await askOffline<{ readonly config: Configuration }>('config')).config;
}

/** Of the running daemon: what it was started with, not what a variable of this shell would change. */
async function showConfiguration(call: Call, info: DaemonInfo | undefined): Promise<number> {
  const config = info?.config ?? (await localConfiguration());
  if (call.json) printJson(config);
  else {
    printLine(`${info === undefined ? noDaemon : `${headOf(info)}: what it was started with`}\n`);
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
  const info = await ownDaemon(call.client);
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
