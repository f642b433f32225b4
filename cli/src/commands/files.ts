/** `squash files …`: what a sandbox's files are called and hold. Every name in it was chosen by the sandbox. */
import type { FileInfo, FileMatches, FilePage } from '@squash/contract/file';
import { limits } from '@squash/contract/limits';
import { filesPath, type Query } from '../client/client.ts';
import { readEvents } from '@squash/sdk/event-stream';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import {
  formatAge,
  formatBytes,
  printJson,
  printLine,
  printNote,
  standardOutput,
  visible,
} from '../output/print.ts';
import { printTable } from '../output/table.ts';
import { openOutputSink } from '../terminal/output-sink.ts';

/** All pages. */
async function allOf(call: Call, more: string, query: Query): Promise<FileInfo[]> {
  const [id = ''] = call.positionals;
  const items: FileInfo[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const address = filesPath(id, [more], { ...query, cursor, limit: limits.pageItemsMax });
    const page: FilePage = await call.client.get<FilePage>(address);
    items.push(...page.items);
    cursor = page.next;
  }
  return items;
}

export async function list(call: Call): Promise<number> {
  const [, path = '/root'] = call.positionals;
  const depth = call.flags.number('depth', { min: 1, max: limits.fileDepthMax });
  const items = await allOf(call, 'list', { path, depth });
  if (call.json) printJson(items);
  else if (call.flags.isSet('quiet')) for (const each of items) printLine(visible(each.path));
  else printFiles(items);
  return exitCodes.ok;
}

export async function find(call: Call): Promise<number> {
  const [, path = '', pattern = ''] = call.positionals;
  const items = await allOf(call, 'glob', { path, pattern });
  if (call.json) printJson(items);
  else for (const each of items) printLine(visible(each.path));
  return exitCodes.ok;
}

export async function stat(call: Call): Promise<number> {
  const [id = '', path = ''] = call.positionals;
  const follow = call.flags.isSet('follow') ? 'true' : undefined;
  const found = await call.client.get<FileInfo>(filesPath(id, ['stat'], { path, follow }));
  if (call.json) printJson(found);
  else printFiles([found]);
  return exitCodes.ok;
}

function printFiles(items: readonly FileInfo[]): void {
  printTable<FileInfo>(
    [
      { title: 'TYPE', text: (each) => each.type },
      { title: 'MODE', text: (each) => each.mode },
      { title: 'OWNER', text: (each) => `${each.uid}:${each.gid}` },
      { title: 'SIZE', text: (each) => formatBytes(each.size), align: 'right' },
      { title: 'AGE', text: (each) => formatAge(each.modified_at), align: 'right' },
      {
        title: 'PATH',
        text: (each) => (each.target === undefined ? each.path : `${each.path} -> ${each.target}`),
      },
    ],
    items,
  );
}

export async function print(call: Call): Promise<number> {
  const [id = '', ...paths] = call.positionals;
  const sink = openOutputSink(standardOutput);
  try {
    for (const path of paths) {
      const response = await call.client.open(filesPath(id, [], { path }), {});
      for await (const part of response.body()) await sink.write(part);
    }
  } finally {
    sink.close();
  }
  return exitCodes.ok;
}

export async function makeDirectory(call: Call): Promise<number> {
  const [id = '', path = ''] = call.positionals;
  const mode = call.flags.text('mode');
  const body = { path, parents: call.flags.isSet('parents'), ...(mode === undefined ? {} : { mode }) };
  const made = await call.client.post<FileInfo>(filesPath(id, ['directory']), body);
  if (call.json) printJson(made);
  return exitCodes.ok;
}

export async function move(call: Call): Promise<number> {
  const [id = '', from = '', to = ''] = call.positionals;
  const body = { from, to, overwrite: !call.flags.isSet('no-clobber') };
  const moved = await call.client.post<FileInfo>(filesPath(id, ['move']), body);
  if (call.json) printJson(moved);
  return exitCodes.ok;
}

export async function remove(call: Call): Promise<number> {
  const [id = '', ...paths] = call.positionals;
  const recursive = call.flags.isSet('recursive') ? 'true' : undefined;
  for (const path of paths) {
    try {
      await call.client.delete(filesPath(id, [], { path, recursive }));
    } catch (cause) {
      const isMissing = cause instanceof CliFailure && cause.code === 'file_not_found';
      if (!isMissing || !call.flags.isSet('force')) throw cause;
    }
  }
  return exitCodes.ok;
}

export async function grep(call: Call): Promise<number> {
  const [id = '', path = '', text = ''] = call.positionals;
  const { flags } = call;
  const query = {
    path,
    text,
    pattern: flags.text('glob'),
    regex: flags.isSet('regex') ? 'true' : undefined,
    ignore_case: flags.isSet('ignore-case') ? 'true' : undefined,
    limit: flags.number('limit', { min: 1, max: limits.pageItemsMax }),
  };
  const found = await call.client.get<FileMatches>(filesPath(id, ['search'], query));
  if (call.json) {
    printJson(found);
  } else {
    for (const { path: name, line, column, text: matched } of found.items) {
      printLine(`${visible(name === '' ? path : name)}:${line}:${column}:${visible(matched)}`);
    }
    if (found.truncated) printNote('squash: there is more; --limit raises how much is told');
  }
  return found.items.length === 0 ? exitCodes.failed : exitCodes.ok;
}

interface Change {
  readonly change: string;
  readonly path: string;
}

export async function watch(call: Call): Promise<number> {
  const [id = '', path = ''] = call.positionals;
  const recursive = call.flags.isSet('recursive') ? 'true' : undefined;
  const response = await call.client.open(filesPath(id, ['watch'], { path, recursive }), {
    accept: 'text/event-stream',
  });
  for await (const { name, data } of readEvents(response.body())) {
    if (name === 'end') return exitCodes.ok;
    if (call.json) {
      printJson({ event: name, ...(JSON.parse(data) as object) });
    } else if (name === 'change') {
      const { change, path: changed } = JSON.parse(data) as Change;
      printLine(`${visible(change)}  ${visible(changed === '' ? path : changed)}`);
    } else if (name === 'overflow') {
      printNote('squash: changes were lost: look at everything again');
    }
  }
  throw new CliFailure('unreachable', 'the daemon ended the watch', exitCodes.unreachable);
}
