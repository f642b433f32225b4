/** `squash snapshots diff`: what was added, changed and removed, a line for each. */
import { limits } from '@squash/contract/limits';
import type { Difference, DiffPage } from '@squash/contract/native-snapshot';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';

const marks = { added: '+', changed: '!', removed: '-' } as const;
/** As `ls -F` ends them. */
const ends = { file: '', directory: '/', symlink: '@', fifo: '|', socket: '=', device: '' } as const;

export async function run({ client, flags, positionals, json }: Call): Promise<number> {
  const [id = '', label = ''] = positionals;
  const against = flags.text('against');
  const items: Difference[] = [];
  let cursor: string | null = null;
  do {
    const query = { against, limit: limits.diffItemsMax, cursor: cursor ?? undefined };
    const path = apiPath(['v1', 'sandboxes', id, 'snapshots', label, 'diff'], query);
    const page: DiffPage = await whileTold(`comparing ${id}`, { json }, () => client.get<DiffPage>(path));
    cursor = page.next;
    if (json) items.push(...page.items);
    // A page at a time: millions of lines are shown as they come.
    else for (const each of page.items) printLine(lineOf(each));
  } while (cursor !== null);
  if (json) printJson(items);
  return exitCodes.ok;
}

function lineOf({ change, path, type, mode }: Difference): string {
  return `${marks[change]} ${mode} ${visible(path)}${ends[type]}`;
}
