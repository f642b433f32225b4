/** A result as text for a model's context: bounded while it is written, and cut where a reader can tell that it was. */
import type { ContentBlock, ExecuteResult } from '../types.ts';

/** About six thousand tokens. */
const charsMax = 24_000;
const mark = '--- TRUNCATED ---';

export function resultText(result: ExecuteResult): string {
  const parts = [
    result.errorInfo === undefined
      ? rendered(result.result)
      : cut(`${result.errorInfo.kind} error: ${result.errorInfo.stack ?? result.error}`),
    ...(result.logs === undefined ? [] : [`Console output:\n${cut(result.logs.join('\n'))}`]),
    ...(result.warnings ?? []).map((warning) => `Warning: ${cut(warning)}`),
  ];
  return parts.join('\n\n');
}

/** What the program showed: its texts together are as long as any other part. Images are whole or nothing. */
export function cutOutput(blocks: readonly ContentBlock[]): readonly ContentBlock[] {
  let left = charsMax;
  let isCut = false;
  return blocks.flatMap((block): readonly ContentBlock[] => {
    if (block.type !== 'text') return [block];
    if (isCut) return [];
    isCut = block.text.length > left;
    const text = isCut ? `${block.text.slice(0, left)}\n${mark} the program showed more` : block.text;
    left -= block.text.length;
    return [{ type: 'text', text }];
  });
}

function cut(text: string): string {
  if (text.length <= charsMax) return text;
  return `${text.slice(0, charsMax)}\n${mark} ${text.length - charsMax} more characters`;
}

interface Rendering {
  text: string;
  readonly above: Set<object>;
}

/** As `JSON.stringify(value, null, 1)`, and no further than is shown: a megabyte of brackets would be gigabytes of blanks. */
function rendered(value: unknown): string {
  if (value === undefined) return 'undefined';
  const state: Rendering = { text: '', above: new Set() };
  write(state, value);
  if (state.text.length <= charsMax) return state.text;
  return `${state.text.slice(0, charsMax)}\n${mark} the result is longer`;
}

function write(state: Rendering, given: unknown): void {
  const value = withoutToJson(given);
  if (typeof value === 'string') state.text += JSON.stringify(value.slice(0, charsMax + 1));
  else if (typeof value === 'bigint')
    state.text += value.toString(16).length > 300 ? '"a BigInt"' : `${value}`;
  else if (typeof value !== 'object' || value === null) state.text += JSON.stringify(value) ?? 'null';
  else if (state.above.has(value)) state.text += '"[Circular]"';
  else {
    state.above.add(value);
    if (Array.isArray(value)) writeList(state, value);
    else writeObject(state, value);
    state.above.delete(value);
  }
}

/** A Date is a text; what else has such a method is no value of a program. */
function withoutToJson(value: unknown): unknown {
  if (!(value instanceof Date)) return value;
  return Number.isNaN(value.getTime()) ? null : value.toISOString();
}

function writeList(state: Rendering, items: readonly unknown[]): void {
  const indent = `\n${' '.repeat(state.above.size)}`;
  state.text += '[';
  for (let at = 0; at < items.length && state.text.length <= charsMax; at += 1) {
    state.text += at === 0 ? indent : `,${indent}`;
    write(state, items[at]);
  }
  state.text += items.length === 0 ? ']' : `${indent.slice(0, -1)}]`;
}

function writeObject(state: Rendering, value: object): void {
  const indent = `\n${' '.repeat(state.above.size)}`;
  let isEmpty = true;
  state.text += '{';
  for (const [key, member] of Object.entries(value)) {
    if (state.text.length > charsMax) break;
    if (member === undefined) continue;
    state.text += `${isEmpty ? '' : ','}${indent}${JSON.stringify(key.slice(0, charsMax))}: `;
    isEmpty = false;
    write(state, member);
  }
  state.text += isEmpty ? '}' : `${indent.slice(0, -1)}}`;
}
