/**
 * What a sandbox says, between two marks that it can not know: the number in them is another one in each answer. Everything between
 * them is data; what is outside of them is said by Squash.
 */
import { randomBytes } from 'node:crypto';
import { cleanFile, cleanOutput } from './clean.ts';
import { HeadTail, type Kept } from './head-tail.ts';

export type Kind = 'output' | 'file' | 'stdout' | 'stderr' | 'result' | 'error';

export interface Framed {
  readonly text: string;
  readonly isCut: boolean;
}

/** @param howToReadOn what the model can do about a cut, with the position of the first byte that is not there */
export function frameOutput(kept: Kept, charsMax: number, howToReadOn: (from: number) => string): Framed {
  const mark = newMark();
  if (isBinary(kept.head)) {
    const bytes = kept.head.length + kept.tail.length + kept.leftOut;
    return {
      text: `[binary output, ${count(bytes)} bytes, not shown: have it written to a file]`,
      isCut: true,
    };
  }
  const [head, tail] = [kept.head, kept.tail].map((bytes) => cleanOutput(decoded(bytes)));
  if (!kept.isCut) return between('output', mark, bounded(head ?? '', charsMax, mark));
  const gap = `[cut ${mark}: ${count(kept.leftOut)} bytes left out here. ${howToReadOn(kept.leftOutFrom)}]`;
  const half = Math.floor(charsMax / 2);
  const parts = [bounded(head ?? '', half, mark).text, gap, bounded(tail ?? '', half, mark).text];
  return between('output', mark, { text: parts.map(withoutLastNewline).join('\n'), isCut: true });
}

/** A part of what a cell of an interpreter did; nothing where there is none of it. */
export function frameText(kind: Kind, text: string, charsMax: number): string {
  if (text === '') return '';
  const mark = newMark();
  const kept = new HeadTail(charsMax, 0);
  kept.add(Buffer.from(cleanOutput(text)));
  const { head, tail, isCut, leftOut } = kept.kept();
  const [begin, end] = [head, tail].map((bytes) => withoutLastNewline(decoded(bytes)));
  const gap = `[cut ${mark}: ${count(leftOut)} bytes left out here. Print less, or write it to a file and read that]`;
  const shown = isCut ? [begin, gap, end].join('\n') : (begin ?? '');
  return between(kind, mark, { text: shown, isCut }).text;
}

/** Lines of a file, as they are. */
export function frameFile(text: string, charsMax: number): Framed {
  const mark = newMark();
  return between('file', mark, bounded(cleanFile(text), charsMax, mark));
}

/** Neither text of any encoding that models read, nor anything that a terminal shows. */
export function isBinary(bytes: Uint8Array): boolean {
  return bytes.subarray(0, 8_192).includes(0);
}

export function decoded(bytes: Uint8Array): string {
  // A character that was cut in two at either end is none.
  return new TextDecoder().decode(bytes).replace(/^\ufffd{1,3}|\ufffd$/g, '');
}

export function count(number: number): string {
  return number.toLocaleString('en-US');
}

function newMark(): string {
  return randomBytes(4).toString('hex');
}

/** What is written out can be longer than it was. */
function bounded(text: string, charsMax: number, mark: string): Framed {
  if (text.length <= charsMax) return { text, isCut: false };
  const rest = count(text.length - charsMax);
  return {
    text: `${text.slice(0, charsMax).toWellFormed()}\n[cut ${mark}: ${rest} more characters]`,
    isCut: true,
  };
}

function between(kind: Kind, mark: string, { text, isCut }: Framed): Framed {
  if (text === '') return { text: `[no ${kind === 'file' ? 'content' : 'output'}]`, isCut };
  return { text: `[${kind} ${mark}]\n${withoutLastNewline(text)}\n[end ${mark}]`, isCut };
}

function withoutLastNewline(text: string): string {
  return text.endsWith('\n') ? text.slice(0, -1) : text;
}
