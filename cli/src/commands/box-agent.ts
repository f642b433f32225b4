/** `squash box agent`: a coding agent, or any command, in a box with a branch of its own; at the end it is asked what becomes of it. */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isatty } from 'node:tty';
import { findProgram } from '@squash/box/program';
import { gitDirectories } from '@squash/box/worktree';
import { parseArguments } from '../arguments.ts';
import { type Agent, agents, agentWords } from '../box/agents.ts';
import { ownUser } from '../box/daemon.ts';
import { boxPlace } from '../box/policy.ts';
import type { BoxRecord } from '../box/record.ts';
import { boxCommands } from '../command-table-box.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';
import { type BoxOptions, runInNewBox } from './box-run.ts';

/** What goes on to `box run` as it stands. */
const passed = ['base', 'policy', 'net', 'env', 'name', 'memory', 'cpu', 'processes', 'time'] as const;

export async function run(call: Call): Promise<number> {
  const [word, ...prompt] = call.positionals;
  if (word === undefined && call.rest.length === 0) return listAgents(call);
  const agent = agents.find(({ name }) => name === word);
  if (word !== undefined && agent === undefined)
    throw usageFailure(
      `"${word}" is unknown: there are ${agents.map(({ name }) => name).join(', ')}; another command: squash box agent -- COMMAND`,
    );
  const { flags, rest } = call;
  if (agent === undefined && flags.isSet('model')) throw usageFailure('--model is of an agent that is named');
  if (agent !== undefined && findProgram(agent.name, process.env['PATH'] ?? '') === undefined)
    throw new CliFailure(
      'exec_failed',
      `there is no program "${agent.name}" in your PATH: install it here, and a box sees it; squash box agent lists those that are there`,
      exitCodes.notFound,
    );
  const text = prompt.length === 0 ? undefined : prompt.join(' ');
  const hasTerminal = !flags.isSet('detach') && isatty(0) && isatty(1);
  const argv =
    agent === undefined
      ? rest
      : [...agentWords(agent, { prompt: text, model: flags.text('model'), hasTerminal }), ...rest];
  const variables = Object.entries(agent?.env ?? {}).map(([name, value]) => `--env=${name}=${value}`);
  const branch = branchWords(call, text ?? basename(argv[0] ?? ''));
  const words = [...branch, ...variables, ...passedWords(call)];
  const kept: BoxRecord[] = [];
  const options: BoxOptions = { keeps: (box) => kept.push(box), ...(agent && keyOf(agent, words)) };
  const specs = boxCommands.find(({ name }) => name === 'box run')?.flags ?? [];
  const parsed = parseArguments({ flags: specs }, words);
  const code = await runInNewBox({ ...call, flags: parsed.flags, rest: argv }, argv, options);
  const [box] = kept;
  if (box === undefined) return code;
  const { finishAgent } = await import('../box/agent-end.ts');
  await finishAgent(call, box);
  return code;
}

function branchWords({ flags }: Call, what: string): readonly string[] {
  const given = flags.text('branch');
  if (given !== undefined) return [`--branch=${given}`];
  // A directory that git does not know has no branches: there it is files that come home.
  if (gitDirectories(boxPlace().repository, ownUser().uid) === undefined) return [];
  const slug = what
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replaceAll(/^-+|-+$/g, '');
  return [`--branch=box/${slug === '' ? 'task' : slug}-${randomBytes(2).toString('hex')}`];
}

function passedWords({ flags }: Call): string[] {
  const words: string[] = passed.flatMap((name) => flags.list(name).map((value) => `--${name}=${value}`));
  const set = ['detach', 'nesting'].filter((name) => flags.isSet(name)).map((name) => `--${name}`);
  return [...words, ...set];
}

/** A key of ours goes in as a placeholder, and a login that lies beside it stays out. @param words of `box run`, which are added to */
function keyOf({ keys, logins, state }: Agent, words: string[]): Pick<BoxOptions, 'secrets'> {
  const { home } = ownUser();
  const key = keys.find(({ variable }) => (process.env[variable] ?? '') !== '');
  words.push(`--net=${(key ?? keys[0]).preset}`);
  for (const name of state) if (existsSync(join(home, name))) words.push(`--cow=${join(home, name)}`);
  if (key === undefined) return {};
  for (const name of logins) if (existsSync(join(home, name))) words.push(`--hide=${join(home, name)}`);
  return { secrets: { [key.variable]: { from: `env:${key.variable}`, hosts: [key.host] } } };
}

function listAgents({ json }: Call): number {
  const { PATH: path = '' } = process.env;
  const rows = agents.map(({ name, keys }) => ({
    agent: name,
    installed: findProgram(name, path) ?? null,
    keys: keys.map(({ variable }) => variable),
  }));
  if (json) printJson(rows);
  else
    printTable(
      [
        { title: 'AGENT', text: ({ agent }) => agent },
        { title: 'INSTALLED', text: ({ installed }) => installed ?? '-' },
        { title: 'KEY', text: ({ keys }) => keys.join(', ') },
      ],
      rows,
    );
  return exitCodes.ok;
}
