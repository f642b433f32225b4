/**
 * Text as its reader will see it, with escapes undone, so that a placeholder can not be hidden by writing one of its
 * letters as `%73` or `\u0073`.
 *
 * What a newcomer would get wrong: no encoder escapes a placeholder's characters by itself, so one found only here
 * was hidden on purpose. It is refused and never replaced: nobody can say what the reader makes of it.
 */
import type { ByteFilter } from '../flow/pump.ts';

export type EscapeSyntax = 'percent' | 'json';

/** Escapes inside escapes: a server that decodes more often than this is not known. */
const depthMax = 3;

const percents = /%([0-7][0-9a-f])/gi;
const escapes: Readonly<
  Record<EscapeSyntax, { readonly pattern: RegExp; readonly unfinished: RegExp; readonly mark: string }>
> = {
  percent: { pattern: percents, unfinished: /%[0-7]?$/, mark: '%' },
  json: {
    pattern: /\\u00([0-7][0-9a-f])/gi,
    unfinished: /\\(?:u(?:0(?:0[0-7]?)?)?)?$/,
    mark: '\\u',
  },
};

/** What short text becomes when percent escapes are undone once, twice, … Only what differs is given. */
export function unescapedViews(text: string): string[] {
  const views: string[] = [];
  let view = text;
  for (let depth = 0; depth < depthMax && view.includes('%'); depth += 1) {
    view = unescape(view, percents);
    views.push(view);
  }
  return views;
}

/** Shows a stream to a watcher with its escapes undone, and passes it on as it is. */
export class UnescapedWatcher implements ByteFilter {
  readonly #syntax: EscapeSyntax;
  readonly #watcher: ByteFilter;
  /** The beginning of an escape at the last piece's end: six bytes at most. */
  #unfinished = '';

  constructor(syntax: EscapeSyntax, watcher: ByteFilter) {
    this.#syntax = syntax;
    this.#watcher = watcher;
  }

  push(piece: Buffer): Buffer {
    const { pattern, unfinished, mark } = escapes[this.#syntax];
    const isPlain = this.#unfinished === '' && !piece.includes(mark) && piece.at(-1) !== 0x5c;
    if (isPlain) {
      this.#watcher.push(piece);
      return piece;
    }
    const text = this.#unfinished + piece.toString('latin1');
    this.#unfinished = unfinished.exec(text)?.[0] ?? '';
    const whole = text.slice(0, text.length - this.#unfinished.length);
    this.#watcher.push(Buffer.from(unescape(whole, pattern), 'latin1'));
    return piece;
  }

  end(): Buffer {
    this.#watcher.push(Buffer.from(this.#unfinished, 'latin1'));
    this.#unfinished = '';
    return this.#watcher.end();
  }
}

function unescape(text: string, pattern: RegExp): string {
  return text.replaceAll(pattern, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
