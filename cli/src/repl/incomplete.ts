/**
 * Whether more lines belong to what was typed, by a plain look at brackets, strings and blocks. The kernel is not asked: a line must
 * not wait for a cell that runs.
 *
 * Where it is wrong nothing is lost: Ctrl-C drops what was typed, and the kernel says what is wrong with half of something.
 */
import type { ContextLanguage } from '@squash/contract/context';

/** @param text all lines so far, without the last one's end */
export function isIncomplete(language: ContextLanguage, text: string): boolean {
  return language === 'python' ? isIncompletePython(text) : isIncompleteScript(text);
}

/** Comments, strings (an open one has no second group), brackets. */
const pythonTokens =
  /#.*|("""|''')(?:\\[^]|(?!\1)[^\\])*(\1)?|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?|[()[\]{}]/g;

/** A block goes on until an empty line, or one that stands at the beginning again. */
function isIncompletePython(text: string): boolean {
  let depth = 0;
  /** What stands outside of brackets, strings and comments. */
  let bare = '';
  let at = 0;
  for (const match of text.matchAll(pythonTokens)) {
    const [token, triple, end] = match;
    if (triple !== undefined && end === undefined) return true;
    if (depth === 0) bare += text.slice(at, match.index) + (/^["']/.test(token) ? '""' : '');
    at = match.index + token.length;
    if (/^[([{]/.test(token)) depth += 1;
    else if (/^[)\]}]/.test(token)) depth = Math.max(0, depth - 1);
  }
  if (depth > 0) return true;
  const lines = (bare + text.slice(at)).split('\n');
  const last = lines.at(-1) ?? '';
  if (last.endsWith('\\')) return true;
  if (/(?:^|\n)\s*$/.test(text)) return false;
  // A decorator has what it decorates below it, a cell's magic its cell.
  const isInside = lines.length > 1 && /^\s/.test(last);
  return isInside || /:\s*$|^@/.test(last) || text.startsWith('%%');
}

const blank = /(?:\s|\/\/.*|\/\*[^]*?\*\/)+/y;
const template = /(?:\\[^]|\$(?!\{)|[^`\\$])*/y;
const quoted = /"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?/y;
const pattern = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/y;
const word = /[\p{ID_Continue}$]+/uy;
/** Behind these a value begins, so that a slash begins a pattern. */
const beforeValue =
  /^(?:|[(,=:[!&|?{};+\-*%~^<>]|=>|return|typeof|case|in|of|delete|void|throw|new|do|else)$/;
/** Not `>` and `!`, with which types and assertions of TypeScript end. */
const openEnd = /^(?:[=+\-*/%&|^?:,.]|=>)$/;

function isIncompleteScript(text: string): boolean {
  const open: string[] = [];
  let at = 0;
  let previous = '';
  const take = (expression: RegExp): string => {
    expression.lastIndex = at;
    const found = expression.exec(text)?.[0] ?? '';
    at += found.length;
    return found;
  };
  while (at < text.length) {
    if (open.at(-1) === '`') {
      take(template);
      if (text[at] === '`') open.pop();
      if (text[at] === '$') open.push('${');
      at += text[at] === '$' ? 2 : 1;
      previous = '`';
      continue;
    }
    if (take(blank) !== '') continue;
    if (text.startsWith('/*', at)) return true;
    if (take(quoted) !== '') previous = '"';
    else if (text[at] === '/' && beforeValue.test(previous) && take(pattern) !== '') previous = '"';
    else previous = take(word) || next();
  }
  return open.length > 0 || openEnd.test(previous);

  function next(): string {
    const both = text.slice(at, at + 2);
    if (both === '++' || both === '--' || both === '=>') {
      at += 2;
      return both;
    }
    const character = text[at] ?? '';
    at += 1;
    if ('([{`'.includes(character)) open.push(character);
    else if (')]}'.includes(character)) open.pop();
    return character;
  }
}
