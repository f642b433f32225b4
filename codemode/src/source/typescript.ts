/**
 * TypeScript to JavaScript by blanking out the types: every other character stays where it is, so positions in
 * errors stay true. What needs a transformation (enum, namespace, parameter properties) is refused with a sentence.
 */
// Not by name, which an older Node would refuse before `node-version.ts` could say so.
import module from 'node:module';
import { CodemodeError } from '../errors.ts';

const head = 'async function body() {\n';
const tail = '\n}';
const linesOfHead = 1;

let isFit = true;

/** False once the stripper has failed by itself: its memory is what it was in the middle of the failure, and every later answer wrong. */
export function isStripperFit(): boolean {
  return isFit;
}

/** @throws CodemodeError of kind `syntax` */
export function stripTypes(code: string): string {
  // A program with a top-level return is no module: as a function's body it can be stripped.
  const attempts = [() => strip(`${head}${code}${tail}`).slice(head.length, -tail.length), () => strip(code)];
  let first: unknown;
  for (const attempt of attempts) {
    try {
      return attempt();
    } catch (failure) {
      first ??= failure;
      isFit &&= isVerdict(failure);
    }
  }
  throw explain(first);
}

function strip(code: string): string {
  // Node says once per process that the function is experimental; a library must not print for its user.
  const emitWarning: unknown = Reflect.get(process, 'emitWarning');
  Reflect.set(process, 'emitWarning', () => {});
  try {
    return module.stripTypeScriptTypes(code, { mode: 'strip' });
  } finally {
    Reflect.set(process, 'emitWarning', emitWarning);
  }
}

/** About the program, not about the stripper. */
function isVerdict(failure: unknown): boolean {
  const code = (failure as NodeJS.ErrnoException | undefined)?.code;
  return code === 'ERR_INVALID_TYPESCRIPT_SYNTAX' || code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX';
}

/** True where the program is TypeScript, and of a kind that can't be stripped. */
export function isUnsupported(failure: CodemodeError): boolean {
  return (failure.cause as NodeJS.ErrnoException | undefined)?.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX';
}

function explain(failure: unknown): CodemodeError {
  const message = failure instanceof Error ? (failure.message.split('\n')[0] ?? '') : String(failure);
  const unsupported = /not supported in strip-only mode/.test(message);
  const advice = unsupported ? '; write it without enum, namespace and parameter properties' : '';
  return new CodemodeError('syntax', `${message.trim()}${advice}${placeOf(failure)}`, { cause: failure });
}

/** In the first attempt, as the parser of JavaScript writes it. Node tells the place in the stack alone: the number of the line, some lines, marks below the last. */
function placeOf(failure: unknown): string {
  const stack = failure instanceof Error ? (failure.stack ?? '') : '';
  const line = Number(/^[^\n]*:(\d+)\n/.exec(stack)?.[1]);
  const marks = /^( *)\^+$/m.exec(stack)?.[1];
  return Number.isNaN(line) || marks === undefined ? '' : ` (${line - linesOfHead}:${marks.length})`;
}
