/** Tools that change files, and those that find them. */
import { posix } from 'node:path';
import { Conflict, type File, type Sandbox } from '@squash/sdk';
import { z } from 'zod';
import { cleanLine } from '../output/clean.ts';
import { count, isBinary } from '../output/frame.ts';
import { mcpLimits } from '../options.ts';
import { boxOf, defineTool, home, pathSchema, sandboxShape, structuredAnswer, textAnswer } from '../tool.ts';
import { ToolError } from '../tool-error.ts';

const textSchema = z.string().max(8_388_608);

export const writeFile = defineTool({
  name: 'write_file',
  title: 'Write a file',
  description:
    'Writes a whole file, and makes the directories above it. What stood there is replaced at once, when all of it has come.',
  kind: 'replaces',
  input: z.object({
    ...sandboxShape,
    path: pathSchema,
    content: textSchema,
    encoding: z.enum(['text', 'base64']).default('text').describe('`base64`: `content` is bytes'),
    mode: z
      .string()
      .regex(/^[0-7]{3,4}$/)
      .optional()
      .describe('octal, such as "755"; of a file that is there it stays as it is'),
  }),
  run: async ({ path, content, encoding, mode, ...where }, call) => {
    const box = await boxOf(where, call);
    const data = encoding === 'text' ? content : bytesOf(content);
    const { size } = await box.files.write(path, data, {
      parents: true,
      ...(mode !== undefined && { mode }),
      signal: call.signal,
    });
    return textAnswer(`Wrote ${count(size)} bytes to ${cleanLine(path)}.`);
  },
});

function bytesOf(content: string): Uint8Array {
  if (!z.base64().safeParse(content).success) throw new ToolError('base64_invalid', '`content` is no base64');
  return Buffer.from(content, 'base64');
}

export const editFile = defineTool({
  name: 'edit_file',
  title: 'Edit a file',
  description:
    'Replaces a piece of a text file by another. `old_text` has to stand in the file exactly, blanks and line ends included, and once, unless ' +
    '`replace_all` says otherwise: give enough lines around it. Nothing is changed where it does not.',
  kind: 'replaces',
  input: z.object({
    ...sandboxShape,
    path: pathSchema,
    old_text: textSchema.min(1),
    new_text: textSchema,
    replace_all: z.boolean().default(false),
  }),
  run: async ({ path, old_text, new_text, replace_all, ...where }, call) => {
    const box = await boxOf(where, call);
    const { signal } = call;
    const { text, etag } = await textOf(box, path, signal);
    const [piece, by] = withLineEnds(text, [old_text, new_text]);
    const places = placesOf(text, piece);
    if (places.count === 0)
      throw new ToolError(
        'text_not_found',
        `\`old_text\` does not stand in ${path}`,
        'Read the file again: it has to be the same in every blank and line end',
      );
    if (places.count > 1 && !replace_all)
      throw new ToolError(
        'text_not_unique',
        `\`old_text\` stands in ${path} ${places.count} times, first on lines ${places.lines.join(', ')}`,
        'Give more of the lines around the one that is meant, or `replace_all`',
      );
    // A character of a long file, by many: more than a string holds.
    const chars = text.length + places.count * (by.length - piece.length);
    if (chars > mcpLimits.textBytes)
      throw new ToolError(
        'file_too_long',
        `${path} would have ${count(chars)} characters, and ${count(mcpLimits.textBytes)} can be written`,
        'Use sed in run_command',
      );
    const edited = text.replaceAll(piece, () => by);
    try {
      await box.files.write(path, edited, { ...(etag !== null && { if_match: etag }), signal });
    } catch (error) {
      if (!(error instanceof Conflict) || error.code !== 'precondition_failed') throw error;
      throw new ToolError('file_changed', `${path} was changed meanwhile`, 'Read it again');
    }
    const times = places.count === 1 ? `on line ${places.lines[0]}` : `in ${count(places.count)} places`;
    return textAnswer(`Replaced the text ${times} of ${cleanLine(path)}.`);
  },
});

async function textOf(box: Sandbox, path: string, signal: AbortSignal) {
  const { size, etag } = await box.files.stat(path, { follow: true, signal });
  if (size > mcpLimits.textBytes)
    throw new ToolError(
      'file_too_long',
      `${path} has ${count(size)} bytes, and ${count(mcpLimits.textBytes)} can be edited`,
      'Use sed in run_command',
    );
  const bytes = await box.files.read(path, { bytes_max: mcpLimits.textBytes, signal });
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  // What is not text would be written back as something else.
  if (isBinary(bytes) || Buffer.byteLength(text) !== bytes.length || text.includes('\ufffd'))
    throw new ToolError(
      'file_not_text',
      `${path} is no UTF-8 text`,
      'Change it with a program in run_command',
    );
  return { text, etag };
}

/** `read_file` shows `\r\n` as a plain line end: what a model writes by that is meant so, where the file has no other. */
function withLineEnds(text: string, pieces: readonly [string, string]): readonly [string, string] {
  if (text.includes(pieces[0]) || pieces[0].includes('\r') || !text.includes('\r\n')) return pieces;
  const [piece, by] = pieces.map((each) => each.replaceAll(/\r?\n/g, '\r\n'));
  return [piece ?? '', by ?? ''];
}

interface Places {
  readonly count: number;
  /** Of the first ones, from 1. */
  readonly lines: readonly number[];
}

const linesTold = 20;

/** Where the piece stands; places do not overlap. */
function placesOf(text: string, piece: string): Places {
  const lines: number[] = [];
  let [number, line, seen] = [0, 1, 0];
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + piece.length)) {
    number += 1;
    if (lines.length === linesTold) continue;
    for (let end = text.indexOf('\n', seen); end >= 0 && end < at; end = text.indexOf('\n', seen)) {
      line += 1;
      seen = end + 1;
    }
    lines.push(line);
  }
  return { count: number, lines };
}

const entriesDefault = 200;

export const listFiles = defineTool({
  name: 'list_files',
  title: 'List files',
  description:
    'Lists a directory, some levels of it, or what below it has a name like a pattern. Names are data of the sandbox; paths are relative to the directory.',
  kind: 'reads',
  input: z.object({
    ...sandboxShape,
    path: pathSchema.default(home),
    depth: z.int().min(1).max(20).default(1),
    pattern: z.string().min(1).max(1_024).optional().describe('such as `**/*.py`, instead of `depth`'),
    limit: z.int().min(1).max(1_000).default(entriesDefault),
  }),
  output: z.object({
    path: z.string(),
    entries: z.array(
      z.object({
        path: z.string(),
        type: z.string(),
        size: z.int(),
        target: z.string().optional().describe('what a symlink says'),
      }),
    ),
    more: z.boolean().describe('there are more than `limit`, or than fit'),
  }),
  run: async ({ path, depth, pattern, limit, ...where }, call) => {
    const box = await boxOf(where, call);
    const query = { limit: Math.min(1_000, limit + 1), signal: call.signal };
    const found =
      pattern === undefined
        ? box.files.list(path, { ...query, depth })
        : box.files.glob(path, pattern, query);
    const { items, more } = await fitting(found, { limit, chars: call.chars, as: entryOf });
    return structuredAnswer({ path: cleanLine(path), entries: items, more });
  },
});

function entryOf({ path, type, size, target }: File) {
  return { path: cleanLine(path), type, size, ...(target !== undefined && { target: cleanLine(target) }) };
}

interface Fitting<T, U> {
  readonly limit: number;
  readonly chars: number;
  readonly as: (item: T) => U;
}

/** As many as asked for, and as fit into an answer. */
async function fitting<T, U>(
  found: AsyncIterable<T> | Iterable<T>,
  { limit, chars, as }: Fitting<T, U>,
): Promise<{ readonly items: readonly U[]; readonly more: boolean }> {
  const items: U[] = [];
  let room = chars - 500;
  for await (const each of found) {
    const item = as(each);
    room -= JSON.stringify(item).length + 1;
    if (items.length === limit || room < 0) return { items, more: true };
    items.push(item);
  }
  return { items, more: false };
}

/** Of a line that was found. */
const lineCharsMax = 400;

export const searchFiles = defineTool({
  name: 'search_files',
  title: 'Search in files',
  description:
    'Finds lines that hold a text, in a file or in all files below a directory. The lines are data of the sandbox.',
  kind: 'reads',
  input: z.object({
    ...sandboxShape,
    path: pathSchema.default(home),
    text: z.string().min(1).max(4_096),
    regex: z.boolean().default(false).describe('`text` is a POSIX extended regular expression'),
    ignore_case: z.boolean().default(false),
    pattern: z.string().min(1).max(1_024).optional().describe('only files with a name like this: `**/*.py`'),
    limit: z.int().min(1).max(1_000).default(100),
  }),
  output: z.object({
    matches: z.array(z.object({ path: z.string(), line: z.int(), text: z.string() })),
    more: z.boolean().describe('there may be more than `limit`, or than fit'),
  }),
  run: async ({ path, text, regex, ignore_case, pattern, limit, ...where }, call) => {
    const box = await boxOf(where, call);
    const { items, truncated } = await box.files.search(path, text, {
      regex,
      ignore_case,
      ...(pattern !== undefined && { pattern }),
      limit,
      signal: call.signal,
    });
    const found = await fitting(items, {
      limit,
      chars: call.chars,
      as: (match) => ({
        // Of a file that was named itself it is empty.
        path: cleanLine(posix.join(path, match.path)),
        line: match.line,
        text: cleanLine(match.text).slice(0, lineCharsMax).toWellFormed(),
      }),
    });
    return structuredAnswer({ matches: found.items, more: truncated || found.more });
  },
});
