/**
 * Whatever a model sends (an arrow function, a declaration, statements, a bare expression, an ES module's default export)
 * becomes the text of one function expression. The rules are those of `@cloudflare/codemode`'s normalizeCode.
 */
import type { ExpressionStatement, FunctionDeclaration, Node, Program } from 'acorn';
import { CodemodeError } from '../errors.ts';
import { parseBody, parseModule } from './parse.ts';

export interface Normalized {
  /** One function expression. */
  readonly text: string;
  /** Lines that stand before the code's first. */
  readonly linesBefore: number;
}

/** @throws SyntaxError of the parser where the code is no JavaScript, CodemodeError where it imports or exports */
export function normalize(code: string): Normalized {
  if (code.trim() === '') return { text: 'async () => {}', linesBefore: 0 };
  const program = parseEither(code);
  const only = program.body.length === 1 ? program.body[0] : undefined;
  if (only?.type === 'ExpressionStatement') {
    const { expression } = only;
    if (isFunction(expression))
      return {
        text: code.slice(expression.start, expression.end),
        linesBefore: 0 - linesAbove(code, expression.start),
      };
  }
  if (only?.type === 'ExportDefaultDeclaration') return normalizeDefault(code, only.declaration);
  refuseModule(code, program);
  if (only?.type === 'FunctionDeclaration' && only.id !== null) return callAfter(code, only);
  const last = program.body.at(-1);
  if (last?.type === 'ExpressionStatement') return wrap(returnLast(code, last));
  return wrap(code);
}

/** A script first: modules are strict, and `await` means something else there. */
function parseEither(code: string): Program {
  try {
    return parseBody(code);
  } catch (failure) {
    try {
      return parseModule(code);
    } catch {
      throw failure;
    }
  }
}

/** Within a function's body it would be refused for standing there. */
function refuseModule(code: string, program: Program): void {
  const found = program.body.find(({ type }) => /^(Import|Export).*Declaration$/.test(type));
  if (found === undefined) return;
  const line = linesAbove(code, found.start) + 1;
  const column = found.start - (code.lastIndexOf('\n', found.start - 1) + 1);
  throw new CodemodeError('syntax', `import and export are not available: use the tools (${line}:${column})`);
}

/** Arrow functions and `async function`, also in parentheses. Others (an immediately called one) are expressions. */
function isFunction(node: Node): boolean {
  return node.type === 'ArrowFunctionExpression' || node.type === 'FunctionExpression';
}

function normalizeDefault(code: string, declaration: Node): Normalized {
  const text = code.slice(declaration.start, declaration.end);
  const shift = 0 - linesAbove(code, declaration.start);
  if (declaration.type === 'FunctionDeclaration')
    return { text: `async () => {\nreturn (${text})();\n}`, linesBefore: 1 + shift };
  if (declaration.type === 'ClassDeclaration')
    return { text: `async () => {\nreturn (${text});\n}`, linesBefore: 1 + shift };
  const inner = normalize(text);
  return { text: inner.text, linesBefore: inner.linesBefore + shift };
}

function callAfter(code: string, declaration: FunctionDeclaration): Normalized {
  const name = code.slice(declaration.id.start, declaration.id.end);
  return wrap(`${code}\nreturn ${name}();`);
}

function returnLast(code: string, last: ExpressionStatement): string {
  const { start, end } = last.expression;
  // The statement's own start is outside any parentheses around the expression.
  return `${code.slice(0, last.start)}return (${code.slice(last.start, start)}${code.slice(start, end)}\n${closing(code, last)})`;
}

/** What stands between the expression and the statement's end, without its semicolon: closing parentheses, comments. */
function closing(code: string, last: ExpressionStatement): string {
  const rest = code.slice(last.expression.end, last.end);
  return rest.endsWith(';') ? rest.slice(0, -1) : rest;
}

function wrap(body: string): Normalized {
  return { text: `async () => {\n${body}\n}`, linesBefore: 1 };
}

function linesAbove(code: string, offset: number): number {
  return code.slice(0, offset).split('\n').length - 1;
}
