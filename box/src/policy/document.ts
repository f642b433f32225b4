/**
 * The text of a policy file as a value, and where in the text each key stands.
 *
 * Stricter than the formats' own readers where two readings are possible: a key that stands twice is an error in JSONC as it
 * is in TOML, and `__proto__` is no key.
 */
import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import { parse as parseToml, TomlError } from 'smol-toml';
import { PolicyProblem, placeIn } from '../policy-problem.ts';

export type PolicyFormat = 'jsonc' | 'toml';
type KeyPath = readonly PropertyKey[];

export interface PolicyDocument {
  readonly value: unknown;
  /** From 1; undefined where the text does not say it cheaply. */
  readonly lineOf: (path: KeyPath) => number | undefined;
}

/** Deeper than any policy, and less than what a recursive reader's stack holds. */
const depthMax = 32;

/** @throws PolicyProblem */
export function parseDocument(text: string, format: PolicyFormat, file: string): PolicyDocument {
  return format === 'toml' ? tomlDocument(text, file) : jsoncDocument(text, file);
}

function jsoncDocument(text: string, file: string): PolicyDocument {
  const lineAt = lineCounter(text);
  const fail = (offset: number, what: string): never => {
    throw new PolicyProblem([`${placeIn(file, lineAt(offset))}: ${what}`]);
  };
  // The library descends by recursion: what is too deep is refused before it is read.
  const deep = tooDeepAt(text);
  if (deep !== undefined) fail(deep, `more than ${depthMax} brackets within each other`);
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (first !== undefined)
    fail(first.offset, `this is no JSON: ${inWords(printParseErrorCode(first.error))}`);
  if (root === undefined) return fail(0, 'the file is empty: write {"version": 1}');
  const lines = new Map<string, number>();
  const value = valueOf(root, [], (node, path) => {
    const name = JSON.stringify(path.map(String));
    if (lines.has(name)) fail(node.offset, `${JSON.stringify(path.at(-1))} stands twice`);
    if (path.at(-1) === '__proto__') fail(node.offset, '"__proto__" is no key');
    lines.set(name, lineAt(node.offset));
  });
  return { value, lineOf: (path) => nearestLine(path, (name) => lines.get(name)) };
}

function valueOf(node: Node, path: KeyPath, meet: (node: Node, path: KeyPath) => void): unknown {
  if (node.type === 'array') {
    return (node.children ?? []).map((child, at) => {
      meet(child, [...path, at]);
      return valueOf(child, [...path, at], meet);
    });
  }
  if (node.type !== 'object') return node.value;
  return Object.fromEntries(
    (node.children ?? []).flatMap(({ children: [key, value] = [] }) => {
      if (key === undefined || value === undefined) return [];
      const place = [...path, String(key.value)];
      meet(key, place);
      return [[String(key.value), valueOf(value, place, meet)]];
    }),
  );
}

/** Brackets in strings and comments count too: text that has 32 of them open is no policy either. */
function tooDeepAt(text: string): number | undefined {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (letter === '[' || letter === '{') depth += 1;
    else if ((letter === ']' || letter === '}') && depth > 0) depth -= 1;
    if (depth > depthMax) return at;
  }
  return undefined;
}

function tomlDocument(text: string, file: string): PolicyDocument {
  try {
    const value = parseToml(text, { maxDepth: depthMax });
    if (isTooDeep(value)) throw new PolicyProblem([`${file}: more than ${depthMax} names within each other`]);
    if (hasProto(value)) throw new PolicyProblem([`${file}: "__proto__" is no key`]);
    const lines = tomlLines(text);
    return { value, lineOf: (path) => nearestLine(path, (name) => lines.get(name)) };
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    const [what = ''] = cause.message.split('\n');
    throw new PolicyProblem([`${placeIn(file, cause.line)}: ${what}`]);
  }
}

/** The schema library passes such a key over in silence. */
function hasProto(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(hasProto);
}

/** Of tables within each other: names with dots between them have no brackets that the parser counts. */
function isTooDeep(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return depth > depthMax || Object.values(value).some((each) => isTooDeep(each, depth + 1));
}

/** Keys that begin a line, below the last header: what people write. Others are told by the line of what holds them. */
function tomlLines(text: string): ReadonlyMap<string, number> {
  const lines = new Map<string, number>();
  let table: readonly string[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    const header = /^\[\[?([^\]]*)\]/.exec(line.trimStart())?.[1];
    const key =
      header ??
      /^\s*((?:"(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+))*)\s*=/.exec(
        line,
      )?.[1];
    if (key === undefined) continue;
    const names = keyNames(key);
    if (header !== undefined) table = names;
    const name = JSON.stringify(header === undefined ? [...table, ...names] : names);
    if (!lines.has(name)) lines.set(name, at + 1);
  }
  return lines;
}

function keyNames(text: string): readonly string[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|([\w-]+)/g)].map(
    ([, quoted, literal, bare]) => quoted ?? literal ?? bare ?? '',
  );
}

function nearestLine(path: KeyPath, lineOf: (name: string) => number | undefined): number | undefined {
  for (let length = path.length; length > 0; length -= 1) {
    const line = lineOf(JSON.stringify(path.slice(0, length).map(String)));
    if (line !== undefined) return line;
  }
  return undefined;
}

/** A search of its own for each key would read a long file once for each. */
function lineCounter(text: string): (offset: number) => number {
  const ends = [...text.matchAll(/\n/g)].map(({ index }) => index);
  return (offset) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ends[middle] ?? 0) < offset) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  };
}

/** `CloseBraceExpected` */
function inWords(code: string): string {
  return code.replace(/(?<!^)[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
}
