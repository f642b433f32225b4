/** `read_file`: lines of a text, an image as one, and of anything else what it is. */
import type { Sandbox } from '@squash/sdk';
import { z } from 'zod';
import { cleanLine } from '../output/clean.ts';
import { count, frameFile, isBinary } from '../output/frame.ts';
import { mcpLimits } from '../options.ts';
import { boxOf, defineTool, pathSchema, sandboxShape, textAnswer, type ToolAnswer } from '../tool.ts';
import { ToolError } from '../tool-error.ts';

const linesDefault = 2_000;
const headBytes = 8_192;

/** What they begin with; a dot is any byte. */
const images: readonly { readonly type: string; readonly magic: string }[] = [
  { type: 'image/png', magic: '\x89PNG\r\n\x1a\n' },
  { type: 'image/jpeg', magic: '\xff\xd8\xff' },
  { type: 'image/gif', magic: 'GIF8' },
  { type: 'image/webp', magic: 'RIFF....WEBP' },
];

export const readFile = defineTool({
  name: 'read_file',
  title: 'Read a file',
  description:
    'Reads a text file, whole or some lines of it. PNG, JPEG, GIF and WebP are answered as images. Characters that can not be seen are written as \\u{1b}.',
  kind: 'reads',
  input: z.object({
    ...sandboxShape,
    path: pathSchema,
    start_line: z.int().min(1).default(1),
    lines: z.int().min(1).max(100_000).default(linesDefault).describe('at most so many'),
  }),
  run: async ({ path, start_line, lines, ...where }, call) => {
    const box = await boxOf(where, call);
    const { signal, chars } = call;
    const parts = box.files.readParts(path, { signal })[Symbol.asyncIterator]();
    await using _released = { [Symbol.asyncDispose]: async () => void (await parts.return(undefined)) };
    const first = await parts.next();
    const head = first.done === true ? new Uint8Array() : first.value.subarray(0, headBytes);
    const image = imageType(head);
    if (image !== undefined) return await imageAnswer(box, { path, type: image, signal });
    if (isBinary(head)) return textAnswer(`${cleanLine(path)}: ${await binarySentence(box, path)}`);
    const begin = first.done === true ? [] : [first.value];
    return linesAnswer(await readLines({ begin, parts }, { start: start_line, lines, chars }), chars);
  },
});

interface Lines {
  readonly text: string;
  readonly start: number;
  readonly count: number;
  /** Something stands behind them. */
  readonly hasMore: boolean;
  /** Of the file, where it was read to its end. */
  readonly total: number | undefined;
}

interface Wanted {
  readonly start: number;
  readonly lines: number;
  readonly chars: number;
}

/** Reads no further than what is answered, and holds no more than that. */
async function readLines(
  {
    begin,
    parts,
  }: { readonly begin: readonly Uint8Array[]; readonly parts: AsyncIterator<Uint8Array, void> },
  { start, lines, chars }: Wanted,
): Promise<Lines> {
  const decoder = new TextDecoder();
  let [text, line, bytes] = ['', 1, 0];
  const take = (piece: string): boolean => {
    let at = 0;
    while (line < start && at < piece.length) {
      const end = piece.indexOf('\n', at);
      if (end < 0) return true;
      at = end + 1;
      line += 1;
    }
    text += piece.slice(at);
    return text.length <= chars && newlines(text) < lines;
  };
  const queue = [...begin];
  for (;;) {
    const part = queue.shift() ?? (await parts.next()).value;
    if (part === undefined) break;
    bytes += part.length;
    if (bytes > 8 * mcpLimits.textBytes)
      throw new ToolError(
        'file_too_long',
        `line ${start} is more than ${count(8 * mcpLimits.textBytes)} bytes into the file`,
        'Use run_command with sed or tail',
      );
    if (!take(decoder.decode(part, { stream: true }))) return cutLines(text, { start, lines, chars });
  }
  const whole = text + decoder.decode();
  const isCut = whole.length > chars;
  if (isCut) return cutLines(whole, { start, lines, chars });
  const number = newlines(whole) + (whole === '' || whole.endsWith('\n') ? 0 : 1);
  return {
    text: whole,
    start,
    count: number,
    hasMore: false,
    total: whole === '' ? line - 1 : line + number - 1,
  };
}

/** Whole lines, unless the first alone is too long. */
function cutLines(text: string, { start, lines, chars }: Wanted): Lines {
  let [end, number] = [0, 0];
  while (number < lines) {
    const next = text.indexOf('\n', end) + 1;
    if (next === 0 || next > chars) break;
    end = next;
    number += 1;
  }
  const cut = end === 0 ? text.slice(0, chars) : text.slice(0, end);
  return {
    text: cut,
    start,
    count: Math.max(1, number),
    hasMore: end < text.length || end === 0,
    total: undefined,
  };
}

function linesAnswer({ text, start, count: number, hasMore, total }: Lines, chars: number): ToolAnswer {
  if (text === '' && start > 1)
    return textAnswer(`The file has ${count(total ?? 0)} lines: line ${start} is behind its end.`);
  const { text: framed } = frameFile(text, chars);
  const last = start + number - 1;
  const rest = hasMore ? `; there is more: read on with "start_line": ${last + 1}` : ', to its end';
  const isPart = hasMore && !text.endsWith('\n');
  const note =
    text === '' ? 'The file is empty.' : `Lines ${start} to ${last}${isPart ? ' (cut)' : ''}${rest}.`;
  return textAnswer(`${note}\n${framed}`, { meta: { 'squash/more': hasMore, 'squash/last_line': last } });
}

function newlines(text: string): number {
  let number = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) number += 1;
  return number;
}

export function imageType(head: Uint8Array): string | undefined {
  const begins = (magic: string): boolean =>
    magic.split('').every((character, at) => character === '.' || head[at] === character.charCodeAt(0));
  return images.find(({ magic }) => begins(magic))?.type;
}

async function imageAnswer(
  box: Sandbox,
  { path, type, signal }: { readonly path: string; readonly type: string; readonly signal: AbortSignal },
): Promise<ToolAnswer> {
  const { size } = await box.files.stat(path, { follow: true, signal });
  if (size > mcpLimits.imageBytes)
    throw new ToolError(
      'image_too_large',
      `the image has ${count(size)} bytes, and models take ${count(mcpLimits.imageBytes)} at most`,
      'Make it smaller in the sandbox',
    );
  const bytes = await box.files.read(path, { range: [0, mcpLimits.imageBytes], signal });
  const data = Buffer.from(bytes).toString('base64');
  return {
    blocks: [
      { type: 'image', data, mimeType: type },
      { type: 'text', text: `${type}, ${count(bytes.length)} bytes. What it shows was made in the sandbox.` },
    ],
  };
}

async function binarySentence(box: Sandbox, path: string): Promise<string> {
  const { size } = await box.files.stat(path, { follow: true });
  return `binary, ${count(size)} bytes, not shown. \`file\`, \`xxd\` or \`strings\` in run_command tell more.`;
}
