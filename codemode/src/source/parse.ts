/**
 * JavaScript to a syntax tree, by one fixed edition of the language, so that every engine is given the same programs.
 */
import { type Node, type Options, Parser, type Program, type TokenType, tokTypes } from 'acorn';

/** What V8 and QuickJS both have. A later edition here would mean programs that only some engines take. */
const ecmaVersion = 2025;

/** The parts of acorn's parser that are used below; its types have none of them. */
interface Statements {
  readonly type: TokenType;
  readonly start: number;
  insertSemicolon(): boolean | undefined;
  raise(position: number, message: string): never;
}

/**
 * Acorn guesses by the tokens before it whether a slash divides or begins a regular expression, and can be led astray: of
 * `a?.of⏎/(import("x"))/g` it makes a property, a semicolon that nobody wrote, and an expression whose text is never looked at, where an engine
 * divides and imports. A wrong guess needs such a semicolon to be a program, so there is none before a regular expression.
 */
class BodyParser extends (Parser as unknown as new (options: Options, code: string) => Statements) {
  override insertSemicolon(): boolean | undefined {
    const inserted = super.insertSemicolon();
    if (inserted === true && this.type === tokTypes.regexp)
      this.raise(this.start, 'A line that begins with a regular expression needs a semicolon before it');
    return inserted;
  }

  static program(code: string, given: Options): Program {
    return (new BodyParser(given, code) as unknown as { parse(): Program }).parse();
  }
}

/** As a script's body that may return and await, which is what models write. */
export function parseBody(code: string): Program {
  return BodyParser.program(code, options('script'));
}

/** With `import` and `export`. */
export function parseModule(code: string): Program {
  return BodyParser.program(code, options('module'));
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
