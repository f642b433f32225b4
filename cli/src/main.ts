/**
 * The `squash` command line. It speaks only to the API: what it can do, `curl` can do. `serve`, `stop`, `quickstart`,
 * `certificate` and `doctor` also look at this machine, because they work where no daemon runs.
 *
 * Start-up time is part of the design: this file and what it imports load in a few milliseconds; each
 * command's module, and Node's slow modules, load when they are needed.
 */
import { checkPositionals, globalFlags, parseArguments } from './arguments.ts';
import type { standBy as StandBy } from './box/standby.ts';
import { Client } from './client/client.ts';
import type { CommandSpec } from './command.ts';
import { findCommand, knownCommands } from './command-table.ts';
import { CliFailure, exitCodes, usageFailure } from './failure.ts';
import { printFailure, printLine, printNote, visibleLines } from './output/print.ts';
import { unknownCommand, unknownOption } from './unknown-words.ts';

/** Runs one call and sets the process's exit code. */
export async function start(words: readonly string[]): Promise<void> {
  const found = findCommand(words);
  try {
    process.exitCode = await dispatch(found, words);
  } catch (failure) {
    process.exitCode = report(failure, found?.spec, words);
  }
}

/** As it stands in `box/standby.ts`. @public for `cli/bin/standby.cjs` */
export async function standBy(...words: Parameters<typeof StandBy>): ReturnType<typeof StandBy> {
  const standby = await import('./box/standby.ts');
  return await standby.standBy(...words);
}

type Found = ReturnType<typeof findCommand>;

async function dispatch(found: Found, words: readonly string[]): Promise<number> {
  if (found === undefined) return await withoutCommand(words);
  const { spec, words: own } = found;
  const parsed = parseArguments(spec, own);
  if (parsed.flags.isSet('help')) {
    const { commandHelp } = await import('./help.ts');
    printLine(commandHelp(spec));
    return exitCodes.ok;
  }
  checkPositionals(spec, parsed);
  const client = new Client({
    url: parsed.flags.text('url'),
    socket: parsed.flags.text('socket'),
    token: parsed.flags.text('token') ?? process.env['SQUASH_AUTH_TOKEN'],
  });
  const module = await spec.load();
  return await module.run({ ...parsed, json: parsed.flags.isSet('json'), client });
}

/** What may stand where no command does; the options of every command change nothing there. */
const known = new Set(['--', ...globalFlags.map(({ name }) => `--${name}`)]);

async function withoutCommand(words: readonly string[]): Promise<number> {
  const asked = words.includes('--help') || words.includes('-h');
  const named = words.filter((word) => !word.startsWith('-'));
  if (named.length > 0 && asked) return await dispatch(findCommand(['help', ...named]), named);
  if (named.length > 0) throw unknownCommand(words, knownCommands());
  if (words.includes('--version')) return await runVersion();
  const { generalHelp } = await import('./help.ts');
  const unknown = asked ? undefined : words.find((word) => !known.has(word.replace(/=.*/s, '')));
  if (unknown !== undefined) throw unknownOption(unknown, globalFlags);
  if (asked) printLine(generalHelp());
  else printNote(generalHelp());
  return asked ? exitCodes.ok : exitCodes.usage;
}

async function runVersion(): Promise<number> {
  return await dispatch(findCommand(['version', '--offline']), []);
}

/** What `process.cwd()` throws where somebody has removed the directory. */
function isPlaceGone(failure: unknown): boolean {
  return failure instanceof Error && 'syscall' in failure && failure.syscall === 'uv_cwd';
}

/** One line on standard error; with `--json` one object, so that programs need not parse sentences. */
function report(failure: unknown, spec: CommandSpec | undefined, words: readonly string[]): number {
  if (isPlaceGone(failure))
    return report(usageFailure('the directory that this was started in is there no more'), spec, words);
  if (!(failure instanceof CliFailure)) {
    const detail = failure instanceof Error ? (failure.stack ?? failure.message) : String(failure);
    printNote(`squash: a fault in the command line itself (internal)\n${visibleLines(detail)}`);
    return spec?.passesExitCode === true ? (spec.failsWith ?? exitCodes.execFailed) : exitCodes.failed;
  }
  // Whoever read us has gone; so has, most often, whoever would read this.
  if (failure.exitCode === exitCodes.brokenPipe) return failure.exitCode;
  const end = words.indexOf('--');
  const json = (end < 0 ? words : words.slice(0, end)).includes('--json');
  printFailure(failure, json);
  const own: readonly number[] = [exitCodes.failed, exitCodes.usage, exitCodes.unreachable];
  return spec?.passesExitCode === true && own.includes(failure.exitCode)
    ? (spec.failsWith ?? exitCodes.execFailed)
    : failure.exitCode;
}
