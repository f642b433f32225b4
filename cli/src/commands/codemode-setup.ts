/** What the `codemode` commands share: the executor their flags ask for, and the MCP servers of their configuration. */
import { CodemodeError, createExecutor, type ExecutorName, type Limits } from '@squash/codemode';
import { idleGlobs, McpServers, readServers } from '@squash/codemode/mcp';
import type { Call } from '../command.ts';
import { CliFailure, usageFailure } from '../failure.ts';
import { printNote, visible } from '../output/print.ts';
import { ownDaemon } from './daemon-info.ts';

const executorNames: readonly ExecutorName[] = [
  'sandbox',
  'quickjs',
  'isolated-vm',
  'deno',
  'container',
  'vm2',
];

/** @param spares engines to be kept waiting: none for a single run */
export async function openExecutor(call: Call, spares: number) {
  const name = await executorName(call);
  const allowWeakIsolation = call.flags.isSet('allow-weak-isolation');
  if (name === 'vm2' && !allowWeakIsolation)
    throw usageFailure(
      'vm2 is no security boundary: add --allow-weak-isolation to use it for code you trust',
    );
  try {
    const options = { limits: limitsOf(call), spares };
    if (name !== 'vm2') return createExecutor(name, { ...options, squash: ownCommand(call) });
    const { createVm2Executor } = await import('@squash/codemode/vm2');
    return createVm2Executor({ ...options, allowWeakIsolation });
  } catch (failure) {
    throw asFailure(failure);
  }
}

/** Unless one is asked for: a sandbox where a daemon answers, else what needs nothing else. */
async function executorName(call: Call): Promise<ExecutorName> {
  const asked = call.flags.text('executor');
  if (asked === undefined) return (await ownDaemon(call.client)) === undefined ? 'quickjs' : 'sandbox';
  const known = executorNames.find((each) => each === asked);
  if (known === undefined)
    throw usageFailure(`--executor is one of ${executorNames.join(', ')}, not "${asked}"`);
  return known;
}

/** This command line once more, speaking to the daemon that this call was told of. */
function ownCommand(call: Call): readonly [string, ...string[]] {
  const daemon = ['url', 'socket', 'token'].flatMap((name) => {
    const value = call.flags.text(name);
    return value === undefined ? [] : [`--${name}=${value}`];
  });
  return [process.execPath, ...process.execArgv, process.argv[1] ?? 'squash', ...daemon];
}

function limitsOf(call: Call): Partial<Limits> {
  const seconds = call.flags.number('timeout', { min: 0.1, max: 86_400 });
  const memoryMb = call.flags.integer('memory', { min: 8, max: 4096 });
  return {
    ...(seconds !== undefined && timesOf(Math.round(seconds * 1000))),
    ...(memoryMb !== undefined && { memoryMb }),
  };
}

/** A tool may take as long as the program it is called by. */
function timesOf(ms: number): Partial<Limits> {
  return { wallMs: ms, cpuMs: ms, toolMs: ms };
}

/** Without `--tools` there are none. A server that does not answer is told of and left out. */
export async function openServers(call: Call): Promise<McpServers> {
  const path = call.flags.text('tools');
  try {
    const servers = await McpServers.connect(path === undefined ? {} : readServers(path));
    for (const { server, message } of servers.failures)
      printNote(`squash: the MCP server "${server}" is left out: ${visible(message)}`);
    return servers;
  } catch (failure) {
    throw asFailure(failure);
  }
}

export function asFailure(failure: unknown): unknown {
  return failure instanceof CodemodeError ? new CliFailure(failure.kind, failure.message) : failure;
}

/** A pattern that matches nothing was meant to hold something back. The tools of a server that did not answer are not known. */
export function refuseIdle(flag: string, globs: readonly string[], servers: McpServers): void {
  const tools = servers.entries.map(({ path }) => path.join('.'));
  const [idle] = idleGlobs(globs, tools);
  if (idle === undefined) return;
  const example = tools[0] === undefined ? '' : `, which are called like ${tools[0]}`;
  const sentence = `--${flag} "${idle}" matches none of the tools${example}`;
  if (servers.failures.length === 0) throw usageFailure(sentence);
  printNote(`squash: ${sentence}`);
}
