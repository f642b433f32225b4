/**
 * JavaScript to a syntax tree, by one fixed edition of the language, so that every engine is given the same programs.
 */
import { type Node, type Options, parse, type Program } from 'acorn';

/** What V8 and QuickJS both have. A later edition here would mean programs that only some engines take. */
const ecmaVersion = 2025;

/** As a script's body that may return and await, which is what models write. */
export function parseBody(code: string): Program {
  return parse(code, options('script'));
}

/** With `import` and `export`. */
export function parseModule(code: string): Program {
  return parse(code, options('module'));
}

function options(sourceType: 'script' | 'module'): Options {
  return {
    ecmaVersion,
    sourceType,
    allowReturnOutsideFunction: true,
    allowAwaitOutsideFunction: true,
    allowHashBang: true,
  };
}

/** Every node, each before what it contains. Without recursion: the code chooses how deep its tree is. */
export function* nodesOf(root: Node): Generator<Node> {
  const stack: Node[] = [root];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    yield node;
    for (const value of Object.values(node)) {
      if (Array.isArray(value)) stack.push(...value.filter(isNode));
      else if (isNode(value)) stack.push(value);
    }
  }
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === 'object' &&
    value !== null &&
    'type' in value &&
    typeof value.type === 'string' &&
    'start' in value
  );
}
