/**
 * The last look at a program before it is handed to an engine: it is exactly one function expression (so that it can't
 * break out of what the engine puts around it), and it names nothing that reaches outside its realm.
 */
import type { Node } from 'acorn';
import { CodemodeError } from '../errors.ts';
import { nodesOf, parseBody } from './parse.ts';

/**
 * What stands for `import` in `import(…)`: a global of the kernel that rejects. As long as the word itself, and a name where that is a word, so
 * that nothing of the program moves or is read differently.
 */
const importStandIn = '$mport';

/** The program with a call that rejects for each `import()`: a program may ask for a module and go on without it. */
export function withoutImports(text: string): string {
  if (!text.includes('import')) return text;
  const starts = [...nodesOf(parseWrapped(text))].flatMap(({ type, start }) =>
    // A parenthesis stands before the text.
    type === 'ImportExpression' ? [start - 1] : [],
  );
  let changed = '';
  let done = 0;
  for (const start of starts.sort((one, other) => one - other)) {
    changed += `${text.slice(done, start)}${importStandIn}`;
    done = start + importStandIn.length;
  }
  return changed + text.slice(done);
}

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

/** node:vm answers a rejected `import()` with an error of the outer realm, so this check is what holds there: none is left by now. */
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
