/** `squash box ps`: the boxes, with what each runs. */
import { isatty } from 'node:tty';
import type { ProcessInfo } from '@squash/contract/process';
import { listBoxes } from '../box/boxes.ts';
import { isOwnGit } from '../box/git-words.ts';
import { type BoxRecord, branchOf, repositoryOf } from '../box/record.ts';
import { type BoxDaemon, withBoxDaemon } from '../box/daemon.ts';
import { listProcesses } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import {
  formatAge,
  formatBytes,
  jsonText,
  printJson,
  printLine,
  printText,
  standardOutput,
} from '../output/print.ts';
import { printTable } from '../output/table.ts';

interface Row {
  readonly box: BoxRecord;
  readonly command: string;
}

/** Often enough to look on; each time costs a request for each box. */
const watchMs = 2_000;
/** To the top left, and everything behind it away. */
const clearScreen = '\u001b[H\u001b[J';

export async function run(call: Call): Promise<number> {
  const isWatching = call.flags.isSet('watch');
  for (;;) {
    await list(call, isWatching && isatty(standardOutput) ? clearScreen : '');
    if (!isWatching) return exitCodes.ok;
    await new Promise((resolve) => setTimeout(resolve, watchMs));
  }
}

/** @param before what takes the last list away, in the moment when the next one is there */
async function list(call: Call, before: string): Promise<void> {
  const found = await withBoxDaemon(call, 'list', async (daemon) => ({
    daemon,
    boxes: await listBoxes(daemon),
  }));
  const boxes = found?.boxes ?? [];
  if (call.json && call.flags.isSet('watch')) printLine(jsonText(boxes));
  else if (call.json) printJson(boxes);
  else if (call.flags.isSet('quiet')) for (const { id } of boxes) printLine(id);
  else {
    const rows = await Promise.all(
      boxes.map(async (box) => ({
        box,
        command: found === undefined ? '-' : await commandOf(found.daemon, box),
      })),
    );
    printText(standardOutput, before);
    printBoxes(rows);
  }
}

/** What it runs, else what it ran last. */
async function commandOf({ client }: BoxDaemon, { id }: BoxRecord): Promise<string> {
  try {
    const processes = (await listProcesses(client, id)).filter(({ command }) => !isOwnGit(command));
    const shown: ProcessInfo | undefined =
      processes.findLast(({ state }) => state === 'running') ?? processes.at(-1);
    if (shown === undefined) return '-';
    return shown.state === 'running' ? shown.command : `(${shown.exit_code ?? '?'}) ${shown.command}`;
  } catch (failure) {
    // Removed since it was listed.
    if (failure instanceof CliFailure) return '-';
    throw failure;
  }
}

function printBoxes(rows: readonly Row[]): void {
  printTable<Row>(
    [
      { title: 'BOX', text: ({ box }) => box.id },
      { title: 'NAME', text: ({ box }) => box.name ?? '-' },
      {
        title: 'STATE',
        text: ({ box }) => box.state,
        style: ({ box }) => (box.state === 'ready' ? 'green' : 'yellow'),
      },
      { title: 'AGE', text: ({ box }) => formatAge(box.created_at), align: 'right' },
      { title: 'WROTE', text: ({ box }) => formatBytes(box.disk_bytes), align: 'right' },
      { title: 'REPOSITORY', text: ({ box }) => repositoryOf(box) ?? '-' },
      { title: 'BRANCH', text: ({ box }) => branchOf(box) ?? '-' },
      { title: 'COMMAND', text: ({ command }) => command, fits: true },
    ],
    rows,
  );
}
