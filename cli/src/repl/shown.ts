/** What a cell has shown, as text, and kept until the next cell shows something so that it can be saved. */
import { writeFileSync } from 'node:fs';
import { extname } from 'node:path';
import type { CellEvent } from '@squash/sdk';
import { CliFailure, fileProblem, usageFailure } from '../failure.ts';
import { formatBytes, visible } from '../output/print.ts';
import { ownPath } from './own-path.ts';

type Result = Extract<CellEvent, { type: 'result' }>;

/** Of one value on a terminal; the rest can be saved. */
const textCharsMax = 20_000;
/** Of one cell, to be saved: as many as a kernel of ours has. One that a sandbox put in its place may go on and on. */
const resultsMax = 256;
const resultsCharsMax = 16_777_216;

const formats = {
  png: { media: 'image/png', ends: ['.png'] },
  jpeg: { media: 'image/jpeg', ends: ['.jpg', '.jpeg'] },
  svg: { media: 'image/svg+xml', ends: ['.svg'] },
  html: { media: 'text/html', ends: ['.html', '.htm'] },
  markdown: { media: 'text/markdown', ends: ['.md'] },
  latex: { media: 'text/latex', ends: ['.tex'] },
  json: { media: 'application/json', ends: ['.json'] },
  text: { media: 'text/plain', ends: ['.txt'] },
} as const;
type Format = keyof typeof formats;
const pictures: readonly Format[] = ['png', 'jpeg', 'svg'];
/** What can be read as it is, the best first. */
const readable = ['markdown', 'text', 'latex'] as const;

export class Shown {
  readonly #results: Result[] = [];
  #chars = 0;

  /** @returns its lines. @param hasHints somebody is there who can save it: then they say how, and a long text is cut */
  add(result: Result, hasHints: boolean): readonly string[] {
    this.#chars += JSON.stringify(result).length;
    const isKept = this.#results.length < resultsMax && this.#chars <= resultsCharsMax;
    if (isKept) this.#results.push(result);
    const hint = (format: Format): string => (hasHints && isKept ? `; ${this.#hint(format)}` : '');
    const images = pictures.filter((format) => result[format] !== undefined);
    // Beside a picture the text is the name of its class.
    const format = images.length > 0 ? undefined : readable.find((each) => result[each] !== undefined);
    const others = images.length > 0 ? images : format === undefined ? known(result) : [];
    const omitted = (result.omitted ?? []).map(
      (each) => `[${each.format}, ${formatBytes(each.bytes)}: too large to be kept]`,
    );
    const text = format === undefined ? '' : (result[format] ?? '');
    const rest = hasHints ? text.length - textCharsMax : 0;
    return [
      ...(format === undefined ? [] : [rest > 0 ? text.slice(0, textCharsMax) : text]),
      ...(format === undefined || rest <= 0 ? [] : [`[${rest} more characters${hint(format)}]`]),
      ...others.map(
        (each) => `[${formats[each].media}, ${formatBytes(bytesOf(result, each).length)}${hint(each)}]`,
      ),
      ...omitted,
    ];
  }

  /** @param words a file, and which of several results */
  save(words: string): string {
    const [, name = '', digits] = /^(.*?)(?:\s+(\d{1,3}))?$/.exec(words.trim()) ?? [];
    if (name === '') throw usageFailure('.save needs a file: .save plot.png');
    const path = ownPath(name);
    const end = extname(path).toLowerCase();
    const wanted = Object.entries(formats).find(([, { ends }]) =>
      ends.some((each) => each === end),
    )?.[0] as Format;
    const results =
      digits === undefined ? this.#results : this.#results.slice(Number(digits) - 1, Number(digits));
    const result = results.find((each) => each[wanted] !== undefined);
    if (wanted === undefined || result === undefined) throw usageFailure(this.#offer(name));
    const bytes = bytesOf(result, wanted);
    try {
      writeFileSync(path, bytes);
    } catch (cause) {
      throw new CliFailure('file_unwritable', `can't write "${name}": ${fileProblem(cause, true)}`);
    }
    return `${visible(path)}: ${formats[wanted].media}, ${formatBytes(bytes.length)}`;
  }

  #hint(format: Format): string {
    const number = this.#results.length;
    const name = pictures.includes(format) ? 'plot' : 'result';
    return `.save ${name}${formats[format].ends[0]}${number > 1 ? ` ${number}` : ''}`;
  }

  #offer(name: string): string {
    const there = [...new Set(this.#results.flatMap(known))];
    if (there.length === 0) return 'the last cells have shown nothing that could be saved';
    const ends = there.map((format) => formats[format].ends[0]).join(', ');
    return `nothing to be saved as "${name}"; the name's end says what: ${ends}`;
  }
}

function known(result: Result): readonly Format[] {
  return (Object.keys(formats) as Format[]).filter((format) => result[format] !== undefined);
}

function bytesOf(result: Result, format: Format): Buffer {
  const value = result[format];
  if (format === 'json') return Buffer.from(JSON.stringify(value, undefined, 2));
  return Buffer.from(String(value), format === 'png' || format === 'jpeg' ? 'base64' : 'utf8');
}
