/**
 * The last look at a program before it is handed to an engine: it is exactly one function expression (so that it can't
 * break out of what the engine puts around it), and it names nothing that reaches outside its realm.
 */
import type { Node } from 'acorn';
import { CodemodeError } from '../errors.ts';
import { nodesOf, parseBody } from './parse.ts';

/** @throws CodemodeError of kind `syntax` */
export function guard(text: string): void {
  const program = parseWrapped(text);
  const statement = program.body[0];
  const expression = statement?.type === 'ExpressionStatement' ? statement.expression : undefined;
  const isFunction =
    expression?.type === 'ArrowFunctionExpression' || expression?.type === 'FunctionExpression';
  // The parentheses are ours: a function that begins after the first and ends before the last is all there is.
  if (program.body.length !== 1 || !isFunction || expression.end > text.length + 1) {
    throw new CodemodeError('syntax', 'the code is not one program');
  }
  for (const node of nodesOf(program)) refuse(node);
}

function parseWrapped(text: string) {
  try {
    return parseBody(`(${text}\n)`);
  } catch (cause) {
    throw new CodemodeError('syntax', cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** node:vm answers a rejected `import()` with an error of the outer realm, so this check is what holds there. */
function refuse(node: Node): void {
  if (node.type === 'ImportExpression') throw refusal('import() is not available: use the tools');
  if (node.type === 'MetaProperty' && 'meta' in node && (node.meta as { name?: string }).name === 'import') {
    throw refusal('import.meta is not available');
  }
  if (/^(Import|Export).*Declaration$/.test(node.type))
    throw refusal('import and export are not available: use the tools');
}

function refusal(message: string): CodemodeError {
  return new CodemodeError('syntax', message);
}
