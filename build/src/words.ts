/**
 * Words of a Dockerfile: quotes, escapes and variables, as Docker reads them. What a variable's value holds is not read again.
 */

export interface Reading {
  /** Undefined: there is none of this name. */
  readonly valueOf: (name: string) => string | undefined;
  readonly escape: string;
}

/** A mistake in a word; whoever knows the line says it. */
export class WordProblem extends Error {}

/** Split at blanks outside of quotes; quotes and escapes are gone, variables replaced. */
export function readWords(text: string, reading: Reading): string[] {
  return split(text, reading.escape).map((word) => readWord(word, reading));
}

/** As it stands, blanks included: what `USER`, `WORKDIR` and the old form of `ENV` take. */
export function readWord(text: string, reading: Reading): string {
  return new WordReader(text, reading).read();
}

/** Split at blanks outside of quotes, and nothing else. */
export function split(text: string, escape: string): string[] {
  const words: string[] = [];
  let word = '';
  let quote = '';
  let braces = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at] ?? '';
    if (quote === '' && braces === 0 && /\s/.test(char)) {
      if (word !== '') words.push(word);
      word = '';
      continue;
    }
    word += char;
    if (char === escape && quote !== "'" && at + 1 < text.length) word += text[(at += 1)];
    else if (quote !== '') quote = char === quote ? '' : quote;
    else if (char === '{' && word.at(-2) === '$') braces += 1;
    else if (char === '}' && braces > 0) braces -= 1;
    else if (char === '"' || char === "'") quote = char;
  }
  if (word !== '') words.push(word);
  return words;
}

class WordReader {
  readonly #text: string;
  readonly #reading: Reading;
  #at = 0;

  constructor(text: string, reading: Reading) {
    this.#text = text;
    this.#reading = reading;
  }

  read(): string {
    const { escape } = this.#reading;
    let found = '';
    let isQuoted = false;
    while (this.#at < this.#text.length) {
      const char = this.#next();
      if (char === "'" && !isQuoted) found += this.#upTo("'");
      else if (char === '"') isQuoted = !isQuoted;
      else if (char === escape) found += this.#escaped(isQuoted);
      else if (char === '$') found += this.#variable();
      else found += char;
    }
    if (isQuoted) throw new WordProblem('a " is not closed');
    return found;
  }

  #next(): string {
    const char = this.#text[this.#at] ?? '';
    this.#at += 1;
    return char;
  }

  #upTo(end: string): string {
    const found = this.#text.indexOf(end, this.#at);
    if (found < 0) throw new WordProblem(`a ${end} is missing`);
    const text = this.#text.slice(this.#at, found);
    this.#at = found + end.length;
    return text;
  }

  /** Inside of double quotes only what has a meaning there is escaped. */
  #escaped(isQuoted: boolean): string {
    const { escape } = this.#reading;
    if (this.#at >= this.#text.length) return escape;
    const char = this.#next();
    return isQuoted && char !== '"' && char !== '$' && char !== escape ? escape + char : char;
  }

  #variable(): string {
    if (this.#text[this.#at] !== '{') {
      const [name = ''] = /^(?:[A-Za-z_]\w*|\d|[@*#?$!-])/.exec(this.#text.slice(this.#at)) ?? [];
      this.#at += name.length;
      return name === '' ? '$' : (this.#reading.valueOf(name) ?? '');
    }
    this.#at += 1;
    const inside = this.#braced();
    const [, name = '', colon = '', operator = '', word = ''] =
      /^([A-Za-z_]\w*)(?:(:?)([-+?])([^]*))?$/.exec(inside) ?? [];
    if (name === '')
      throw new WordProblem(
        `\${${inside}} is not a form that is known here: NAME, NAME:-word, NAME:+word, NAME:?word`,
      );
    const value = this.#reading.valueOf(name);
    const isThere = value !== undefined && (colon === '' || value !== '');
    const other = (): string => readWord(word, this.#reading);
    if (operator === '+') return isThere ? other() : '';
    if (isThere || operator === '') return value ?? '';
    if (operator === '-') return other();
    throw new WordProblem(`${name} is not set${word === '' ? '' : `: ${other()}`}`);
  }

  /** Up to the brace that closes it. */
  #braced(): string {
    const from = this.#at;
    for (let depth = 1; this.#at < this.#text.length; ) {
      const char = this.#next();
      if (char === this.#reading.escape) this.#at += 1;
      else if (char === '{') depth += 1;
      else if (char === '}' && (depth -= 1) === 0) return this.#text.slice(from, this.#at - 1);
    }
    throw new WordProblem('a } is missing');
  }
}
