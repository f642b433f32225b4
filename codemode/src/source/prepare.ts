/**
 * From what a model sent to what an engine runs: length, fence, types, one function expression, guard. Pure, on the host,
 * before any engine is asked for.
 */
import { CodemodeError } from '../errors.ts';
import { stripFence } from './fence.ts';
import { guard, withoutImports } from './guard.ts';
import { type Normalized, normalize } from './normalize.ts';
import { isUnsupported, stripTypes } from './typescript.ts';

export interface Prepared {
  /** One function expression, checked. */
  readonly text: string;
  /** Subtract it from a line in `text` to get the line in the code as it was given. */
  readonly linesBefore: number;
}

export interface PrepareOptions {
  readonly language: 'auto' | 'javascript' | 'typescript';
  readonly codeBytes: number;
}

/** @throws CodemodeError of kind `code-limit` or `syntax` */
export function prepare(code: string, options: PrepareOptions): Prepared {
  const bytes = Buffer.byteLength(code);
  if (bytes > options.codeBytes) {
    throw new CodemodeError('code-limit', `the code is ${bytes} bytes long, ${options.codeBytes} at most`);
  }
  if (!code.isWellFormed()) throw new CodemodeError('syntax', 'the code is not well-formed Unicode');
  const fenced = stripFence(code);
  const normalized = withoutStackOverflow(() => toFunction(fenced.code, options.language));
  const text = withoutStackOverflow(() => withoutImports(normalized.text));
  withoutStackOverflow(() => guard(text));
  return { text, linesBefore: normalized.linesBefore - fenced.linesBefore };
}

/** JavaScript first: stripping types from JavaScript could change it (`a < b > (c)`). */
function toFunction(code: string, language: PrepareOptions['language']): Normalized {
  if (language === 'typescript') return fromTypeScript(code);
  try {
    return normalize(code);
  } catch (failure) {
    if (!(failure instanceof SyntaxError)) throw failure;
    if (language === 'javascript') throw asSyntax(failure);
    try {
      return fromTypeScript(code);
    } catch (second) {
      throw second instanceof CodemodeError && isSecondRight(second, failure, code)
        ? second
        : asSyntax(failure);
    }
  }
}

/** What JavaScript's parser stumbles over where there are types: a mark, or the word after `interface`, `type`, `declare` and the like. */
const typeBeginning = /^[:?<!\p{L}_$]/u;

/** The parser of JavaScript stops at the first type; the stripper, where it comes further, at the mistake. */
function isSecondRight(second: CodemodeError, first: SyntaxError, code: string): boolean {
  if (isUnsupported(second)) return true;
  // Where acorn stopped.
  const { pos = code.length } = first as { readonly pos?: number };
  if (!typeBeginning.test(code.slice(pos, pos + 2))) return false;
  const [line, column] = placeIn(second.message);
  const [firstLine, firstColumn] = placeIn(first.message);
  return line > firstLine || (line === firstLine && column > firstColumn);
}

/** Of a sentence that ends in `(line:column)`. */
function placeIn(message: string): readonly [number, number] {
  const found = /\((\d+):(\d+)\)$/.exec(message);
  return [Number(found?.[1] ?? 0), Number(found?.[2] ?? 0)];
}

function fromTypeScript(code: string): Normalized {
  const stripped = stripTypes(code);
  try {
    return normalize(stripped);
  } catch (failure) {
    throw asSyntax(failure);
  }
}

function asSyntax(failure: unknown): CodemodeError {
  if (failure instanceof CodemodeError) return failure;
  return new CodemodeError('syntax', failure instanceof Error ? failure.message : String(failure), {
    cause: failure,
  });
}

/** The parser is recursive; a program nested ten thousand deep is refused, not a fault. */
function withoutStackOverflow<T>(work: () => T): T {
  try {
    return work();
  } catch (failure) {
    if (failure instanceof RangeError)
      throw new CodemodeError('syntax', 'the code is nested too deeply', { cause: failure });
    throw failure;
  }
}
