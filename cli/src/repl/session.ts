/** A person at a terminal with a context: prompts, cells of several lines, and commands that begin with a dot. */
import { readFile } from 'node:fs/promises';
import type { ContextLanguage } from '@squash/contract/context';
import { CliFailure, exitCodes, fileProblem } from '../failure.ts';
import { printFailure, printNote } from '../output/print.ts';
import type { CellPrinter } from './cell-printer.ts';
import { asFailure, type Cells } from './cells.ts';
import { History } from './history.ts';
import { isIncomplete } from './incomplete.ts';
import { ownPath } from './own-path.ts';
import { TypedLines } from './typed-lines.ts';

const commands = {
  '.exit': 'leave; so does Ctrl-D',
  '.help': 'show this',
  '.load': 'FILE: run a file of this machine as one cell',
  '.remove': 'leave, and end the context with all that it knows',
  '.restart': 'forget everything: another kernel',
  '.save':
    'FILE [N]: write what the last cell has shown, or the Nth of it; the name’s end says what: .png, .html, .json, …',
} as const;
type DotCommand = keyof typeof commands;
const names = Object.keys(commands) as readonly DotCommand[];

const help = `${names.map((name) => `${name.padEnd(9)} ${commands[name]}`).join('\n')}
Brackets, blocks and what is pasted go on over several lines; an empty line ends a block.
Ctrl-C interrupts the cell that runs, or drops what is typed.`;

export interface Scene {
  readonly cells: Cells;
  readonly printer: CellPrinter;
  readonly language: ContextLanguage;
  /** Whoever gives it has gone. */
  readonly signal: AbortSignal;
}

export async function converse(scene: Scene): Promise<number> {
  const { language, signal } = scene;
  const history = new History(language);
  using typed = new TypedLines({ history: history.lines, complete, signal });
  for (;;) {
    const text = await readCell(typed, { language, history });
    if (text === undefined || signal.aborted) return exitCodes.ok;
    if (text.trim() === '') continue;
    typed.rest();
    try {
      if (await act(scene, text)) return exitCodes.ok;
    } catch (cause) {
      // What is refused ends no session; who is gone does.
      const failure = asFailure(cause);
      if (!(failure instanceof CliFailure) || failure.exitCode > exitCodes.usage) throw failure;
      printFailure(failure, false);
      if (failure.code === 'kernel_died') printNote('squash: .restart starts another kernel');
    }
  }
}

/** Undefined at the end. */
async function readCell(
  typed: TypedLines,
  { language, history }: { readonly language: ContextLanguage; readonly history: History },
): Promise<string | undefined> {
  const first = language === 'python' ? '>>> ' : '> ';
  let text: string | undefined;
  for (;;) {
    const next = await typed.next(text === undefined ? first : '... ');
    if (next.type === 'end') return undefined;
    if (next.type === 'dropped') {
      if (text === undefined && next.isEmpty) printNote('(.help says what there is, Ctrl-D leaves)');
      text = undefined;
      continue;
    }
    history.add(next.text);
    text = text === undefined ? next.text : `${text}\n${next.text}`;
    if (isCommand(text)) return text;
    if (!next.isPasted && !isIncomplete(language, text)) return text;
  }
}

const isCommand = (text: string): boolean => /^\.[a-z]+(?:\s.*)?$/.test(text);

/** True: that was all. */
async function act({ cells, printer }: Scene, text: string): Promise<boolean> {
  if (!isCommand(text)) {
    await cells.run(text);
    return false;
  }
  const [, name = '', rest = ''] = /^(\S+)\s*(.*)$/.exec(text) ?? [];
  switch (name as DotCommand) {
    case '.exit':
      return true;
    case '.help':
      printNote(help);
      return false;
    case '.load':
      await cells.run(await readCode(rest));
      return false;
    case '.remove':
      await cells.context.remove();
      return true;
    case '.restart':
      await cells.context.restart();
      printNote('squash: another kernel, which knows nothing');
      return false;
    case '.save':
      printNote(printer.shown.save(rest));
      return false;
    default:
      throw new CliFailure('usage', `there is no ${name}; try: .help`, exitCodes.usage);
  }
}

async function readCode(name: string): Promise<string> {
  return await readFile(ownPath(name), 'utf8').catch((cause: unknown) => {
    throw new CliFailure('file_unreadable', `can't read "${name}": ${fileProblem(cause)}`);
  });
}

/** A tab indents, or ends the name of a command. */
function complete(line: string): readonly string[] {
  if (line.trim() === '') return [`${line}    `];
  return names.filter((name) => name.startsWith(line));
}
