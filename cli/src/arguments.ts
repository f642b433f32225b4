/**
 * Splits the words of a call into options, positionals and the rest that belongs to a command in a sandbox.
 *
 * Own code instead of a package because loading one costs a third of Node's own start, and because of `rest`:
 * in `squash exec -t box ls -l` the `-l` is not ours, in `squash exec box -t -- ls -l` the `-t` is.
 */
import type { CommandSpec, FlagSpec } from './command.ts';
import { usageFailure } from './failure.ts';
import { unknownOption } from './unknown-words.ts';

export const globalFlags: readonly FlagSpec[] = [
  { name: 'json', summary: 'print the API’s JSON instead of text' },
  { name: 'url', value: 'URL', summary: 'the daemon’s address (or SQUASH_API)' },
  {
    name: 'socket',
    value: 'PATH',
    kind: 'file',
    summary: 'the daemon’s Unix socket (or SQUASH_SOCKET)',
  },
  {
    name: 'token',
    value: 'TOKEN',
    summary: 'bearer token (better: SQUASH_AUTH_TOKEN, which ps does not show)',
  },
  { name: 'help', short: 'h', summary: 'show this help' },
];

/** The parsed options of one call. Asking for a flag that the command does not declare is a fault in the CLI. */
export class Flags {
  readonly #values: ReadonlyMap<string, readonly string[]>;
  readonly #known: ReadonlySet<string>;

  constructor(specs: readonly FlagSpec[], values: ReadonlyMap<string, readonly string[]>) {
    this.#known = new Set(specs.map((spec) => spec.name));
    this.#values = values;
  }

  #all(name: string): readonly string[] {
    if (!this.#known.has(name)) throw new TypeError(`flag --${name} is not declared`);
    return this.#values.get(name) ?? [];
  }

  /** For the code of a command that has these flags as well. */
  and(specs: readonly FlagSpec[]): Flags {
    return new Flags([...specs, ...[...this.#known].map((name) => ({ name, summary: '' }))], this.#values);
  }

  /** What stands elsewhere for options that were not given. */
  or(values: Readonly<Record<string, readonly string[]>>): Flags {
    const known = [...this.#known].map((name) => ({ name, summary: '' }));
    return new Flags(known, new Map([...Object.entries(values), ...this.#values]));
  }

  /** For code that several commands share, of which only some have the flag. */
  isDeclared(name: string): boolean {
    return this.#known.has(name);
  }

  isSet(name: string): boolean {
    return this.#all(name).length > 0;
  }

  text(name: string): string | undefined {
    return this.#all(name).at(-1);
  }

  list(name: string): readonly string[] {
    return this.#all(name);
  }

  number(name: string, range: { readonly min: number; readonly max: number }): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= range.min && value <= range.max)) {
      throw usageFailure(`--${name} takes a number from ${range.min} to ${range.max}, not "${text}"`);
    }
    return value;
  }

  integer(name: string, range: { readonly min: number; readonly max: number }): number | undefined {
    const value = this.number(name, range);
    if (value !== undefined && !Number.isInteger(value)) {
      throw usageFailure(`--${name} takes a whole number, not "${value}"`);
    }
    return value;
  }
}

export interface ParsedArguments {
  readonly positionals: readonly string[];
  readonly rest: readonly string[];
  readonly flags: Flags;
}

type ArgumentRules = Pick<CommandSpec, 'flags' | 'rest'>;

export function parseArguments(rules: ArgumentRules, words: readonly string[]): ParsedArguments {
  const specs = [...rules.flags, ...globalFlags];
  const values = new Map<string, string[]>();
  const positionals: string[] = [];
  let at = 0;
  while (at < words.length) {
    const word = words[at] ?? '';
    if (word === '--') {
      const tail = words.slice(at + 1);
      if (rules.rest !== undefined) return finish(tail);
      positionals.push(...tail);
      return finish([]);
    }
    if (!word.startsWith('-') || word === '-') {
      const isRest = positionals.length >= (rules.rest?.after ?? Infinity);
      const begins = positionals.length === 0 && rules.rest?.begins?.(word) === true;
      if (isRest || begins) return finish(words.slice(at));
      positionals.push(word);
      at += 1;
      continue;
    }
    at += word.startsWith('--') ? takeLong(word, words[at + 1]) : takeShort(word, words[at + 1]);
  }
  return finish([]);

  function finish(rest: readonly string[]): ParsedArguments {
    return { positionals, rest, flags: new Flags(specs, values) };
  }

  function takeLong(word: string, next: string | undefined): 1 | 2 {
    const equals = word.indexOf('=');
    const name = equals < 0 ? word.slice(2) : word.slice(2, equals);
    const spec = specs.find((each) => each.name === name);
    if (spec === undefined) throw unknownOption(`--${name}`, specs);
    return store(spec, equals < 0 ? undefined : word.slice(equals + 1), next);
  }

  /** `-it` is two switches, `-w/tmp` and `-w /tmp` an option with a value. */
  function takeShort(word: string, next: string | undefined): 1 | 2 {
    for (let index = 1; index < word.length; index += 1) {
      const spec = specs.find((each) => each.short === word[index]);
      if (spec === undefined) throw unknownOption(`-${word[index]}`, specs);
      if (spec.value !== undefined) return store(spec, word.slice(index + 1) || undefined, next);
      store(spec, undefined, undefined);
    }
    return 1;
  }

  function store(spec: FlagSpec, attached: string | undefined, next: string | undefined): 1 | 2 {
    if (spec.value === undefined) {
      if (attached !== undefined) throw usageFailure(`--${spec.name} takes no value`);
      values.set(spec.name, ['']);
      return 1;
    }
    const value = attached ?? next;
    if (value === undefined) throw usageFailure(`--${spec.name} needs a value: ${spec.value}`);
    const before = values.get(spec.name) ?? [];
    if (before.length > 0 && spec.repeats === undefined) throw usageFailure(`--${spec.name} is given twice`);
    values.set(spec.name, [...before, value]);
    return attached === undefined ? 2 : 1;
  }
}

/** Checks the number of positionals against the table. */
export function checkPositionals(spec: CommandSpec, parsed: ParsedArguments): void {
  const required = spec.positionals.filter((positional) => positional.optional === undefined);
  const missing = required[parsed.positionals.length];
  if (missing !== undefined)
    throw usageFailure(`<${missing.name}> is missing; try: squash help ${spec.name}`);
  const empty = parsed.positionals.indexOf('');
  if (empty >= 0) {
    const name = (spec.positionals[empty] ?? spec.positionals.at(-1))?.name ?? 'word';
    throw usageFailure(`<${name}> is an empty word; try: squash help ${spec.name}`);
  }
  const repeats = spec.positionals.some((positional) => positional.repeats);
  const surplus = parsed.positionals[spec.positionals.length];
  if (surplus !== undefined && !repeats) throw usageFailure(`"${surplus}" is one word too many`);
  const rest = spec.rest;
  if (rest !== undefined && rest.optional === undefined && parsed.rest.length === 0) {
    throw usageFailure(`<${rest.name}> is missing; try: squash help ${spec.name}`);
  }
}
