/**
 * `squash repl`: a session with an interpreter's context. In a sandbox that is named the context stays, with what it knows; without one
 * the sandbox is made for the session and destroyed at its end. What comes by a pipe is one cell.
 */
import { isatty } from 'node:tty';
import type { Context as ContextRecord, ContextLanguage } from '@squash/contract/context';
import { limits } from '@squash/contract/limits';
import { type Context, NotFound, type Sandbox, Squash } from '@squash/sdk';
import type { Flags } from '../arguments.ts';
import { sandboxPath, sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { replLanguages } from '../command-table-repl.ts';
import { createFlags } from '../command-table-sandbox.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { interpreterLayers } from '../interpreter-layers.ts';
import {
  formatAge,
  jsonText,
  printJson,
  printNote,
  printText,
  standardInput,
  standardOutput,
} from '../output/print.ts';
import { printTable } from '../output/table.ts';
import { CellPrinter } from '../repl/cell-printer.ts';
import { asFailure, Cells, type CellStatus } from '../repl/cells.ts';
import { converse } from '../repl/session.ts';
import { checkTaken, takeAlong, taken } from '../taken-files.ts';
import { signalNumbers } from '../terminal/forward-signals.ts';
import { openInputSource } from '../terminal/input-source.ts';
import { openOutputSink } from '../terminal/output-sink.ts';
import { createSandbox } from './create.ts';

/** Where a session starts in a sandbox of its own. */
const homeDirectory = '/root';

interface Wish {
  readonly language: ContextLanguage | undefined;
  readonly name: string | undefined;
  readonly isNew: boolean;
  readonly timeoutMs: number;
}

export async function run(call: Call): Promise<number> {
  const { flags } = call;
  const [id] = call.positionals;
  // Read first: a wrong option must not leave a sandbox behind.
  const wish = readWish(flags, id);
  if (flags.isSet('list')) return await listContexts(call, id ?? '');
  await checkTaken(flags.list('file').map(taken));
  const isTyped = !call.json && isatty(standardInput) && isatty(standardOutput);
  const code = isTyped ? undefined : await readCode();
  const squash = new Squash(call.client.forSdk);
  const leaving = new Leaving();
  try {
    const session = { wish, code, leaving };
    if (id === undefined) return await inNewSandbox(call, squash, session);
    return await inSandbox(call, await squash.sandboxes.get(id), session);
  } catch (cause) {
    if (leaving.exitCode !== undefined) return leaving.exitCode;
    throw asFailure(cause);
  } finally {
    leaving[Symbol.dispose]();
    squash.close();
  }
}

function readWish(flags: Flags, id: string | undefined): Wish {
  const unfit =
    id === undefined ? ['context', 'new', 'list'] : [...createFlags.map(({ name }) => name), 'keep'];
  const given = unfit.find((name) => flags.isSet(name));
  if (given !== undefined && id === undefined)
    throw usageFailure(`--${given} is of a sandbox that is there: name it`);
  if (given !== undefined) throw usageFailure(`--${given} is of a new sandbox, and "${id}" is there`);
  const word = flags.text('language');
  const language = replLanguages.find((each) => each === word);
  if (word !== undefined && language === undefined)
    throw usageFailure(`--language takes ${replLanguages.join(', ')}, not "${word}"`);
  const timeoutS = flags.number('timeout', { min: 0.001, max: limits.execTimeoutSMax });
  return {
    language,
    name: flags.text('context'),
    isNew: flags.isSet('new'),
    timeoutMs: Math.round((timeoutS ?? limits.execTimeoutSMax) * 1_000),
  };
}

async function readCode(): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of openInputSource().chunks) {
    bytes += part.length;
    if (bytes > limits.cellCodeBytesMax)
      throw usageFailure(`a cell has ${limits.cellCodeBytesMax} bytes at most, and standard input has more`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

interface Session {
  readonly wish: Wish;
  /** Undefined: somebody types. */
  readonly code: string | undefined;
  readonly leaving: Leaving;
}

async function inNewSandbox(call: Call, squash: Squash, session: Session): Promise<number> {
  const given = call.flags.list('layers');
  const made = await createSandbox(call, undefined, given.length > 0 ? given : await layersOf(squash));
  try {
    return await inSandbox(call, await squash.sandboxes.get(made.id), session);
  } finally {
    if (call.flags.isSet('keep')) printNote(`squash: kept the sandbox ${made.id}`);
    else await call.client.delete(sandboxPath(made.id));
  }
}

async function layersOf(squash: Squash): Promise<readonly string[]> {
  const layers = await interpreterLayers(squash);
  if (layers !== undefined) return layers;
  throw new CliFailure('interpreter_missing', 'no layer here brings an interpreter');
}

async function inSandbox(call: Call, box: Sandbox, { wish, code, leaving }: Session): Promise<number> {
  const isOwn = call.positionals.length === 0;
  const context = await openContext(box, wish, isOwn ? homeDirectory : undefined);
  await takeAlong(call, call.flags.list('file').map(taken), { id: box.id, workdir: context.info.cwd });
  const printer = new CellPrinter(code === undefined);
  const take = call.json ? linesOfJson() : printer.take.bind(printer);
  const { signal } = leaving;
  const cells = new Cells(context, { timeoutMs: wish.timeoutMs, take, signal });
  leaving.onInterrupt = () => {
    // Behind the ^C that the terminal shows.
    if (code === undefined) printText(standardOutput, '\n');
    cells.interrupt();
  };
  if (code !== undefined) return exitCodeOf(await cells.run(code));
  const { language } = context.info;
  const end = isOwn ? 'destroyed at the end' : `where context ${context.name} stays`;
  printNote(`squash: ${language} in sandbox ${box.id}, ${end}; .help says what there is, Ctrl-D leaves`);
  const exitCode = await converse({ cells, printer, language, signal });
  return leaving.exitCode ?? exitCode;
}

/** The one of that name, with a kernel that lives; made where there is none. */
async function openContext(
  box: Sandbox,
  { language, name = `default-${language ?? 'python'}`, isNew }: Wish,
  cwd: string | undefined,
): Promise<Context> {
  const found = await box.contexts.get(name).catch((error: unknown) => {
    if (error instanceof NotFound && error.code === 'context_not_found') return undefined;
    throw error;
  });
  if (found === undefined || found.info.state === 'ended') {
    const wanted = language ?? replLanguages.find((each) => name === `default-${each}`) ?? 'python';
    return await box.contexts.create({ context: name, language: wanted, ...(cwd !== undefined && { cwd }) });
  }
  if (language !== undefined && found.info.language !== language)
    throw usageFailure(`context ${name} is of ${found.info.language}`);
  if (isNew || found.info.state === 'dead') await found.restart();
  return found;
}

function linesOfJson(): (event: object) => Promise<void> {
  const sink = openOutputSink(standardOutput);
  return async (event) => await sink.write(Buffer.from(`${jsonText(event)}\n`));
}

function exitCodeOf(status: CellStatus): number {
  if (status === 'timeout') return exitCodes.timedOut;
  return status === 'ok' ? exitCodes.ok : exitCodes.failed;
}

async function listContexts({ client, json }: Call, id: string): Promise<number> {
  const list = await client.get<{ readonly items: readonly ContextRecord[] }>(
    sandboxRecordPath(id, 'contexts'),
  );
  if (json) printJson(list);
  else {
    printTable<ContextRecord>(
      [
        { title: 'CONTEXT', text: (each) => each.context },
        { title: 'LANGUAGE', text: (each) => each.language },
        { title: 'STATE', text: (each) => each.state },
        { title: 'PROCESS', text: (each) => `${each.process}`, align: 'right' },
        { title: 'AGE', text: (each) => formatAge(each.started_at), align: 'right' },
      ],
      list.items,
    );
  }
  return exitCodes.ok;
}

/** Signals that we get: one interrupts the cell, the others end the session, with what was made for it. */
class Leaving implements Disposable {
  readonly #stop = new AbortController();
  readonly #listeners: readonly (readonly [NodeJS.Signals, () => void])[];
  /** Until there is a cell. */
  onInterrupt: () => void = () => this.#leave('SIGINT');
  /** Undefined: nobody has told us to leave. */
  exitCode: number | undefined;

  constructor() {
    this.#listeners = [
      ['SIGINT', () => this.onInterrupt()],
      ...(['SIGTERM', 'SIGHUP', 'SIGQUIT'] as const).map((name) => [name, () => this.#leave(name)] as const),
    ];
    for (const [name, listener] of this.#listeners) process.on(name, listener);
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  #leave(name: NodeJS.Signals): void {
    this.exitCode = 128 + (signalNumbers[name] ?? 0);
    this.#stop.abort();
  }

  [Symbol.dispose](): void {
    for (const [name, listener] of this.#listeners) process.off(name, listener);
  }
}
