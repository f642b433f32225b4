/** Part of the guest kernel: `URL` and `URLSearchParams`. */
import { percentDecode, percentEncode } from './percent.ts';
import {
  defaultPort,
  isSpecialScheme,
  parsePath,
  parsePlace,
  parsePort,
  parseUrl,
  pathText,
  placeText,
  splitAt,
  type UrlRecord,
  urlText,
} from './url-record.ts';

type Pair = [name: string, value: string];

/** What `URL` may do with its parameters, and nobody else. */
export interface SearchParts {
  readonly make: (changed: (text: string) => void) => URLSearchParams;
  readonly read: (params: URLSearchParams, text: string) => void;
}

export function parseForm(text: string): Pair[] {
  return text
    .split('&')
    .filter((part) => part !== '')
    .map((part): Pair => {
      const [name, value = ''] = splitAt(part.replaceAll('+', ' '), '=');
      return [percentDecode(name), percentDecode(value)];
    });
}

export function writeForm(pairs: readonly Pair[]): string {
  const write = (text: string) => percentEncode(text.toWellFormed(), 'form').replaceAll('%20', '+');
  return pairs.map(([name, value]) => `${write(name)}=${write(value)}`).join('&');
}

export class URLSearchParams {
  #pairs: Pair[] = [];
  #changed: (text: string) => void = () => {};

  constructor(init: unknown = '') {
    if (typeof init !== 'object' || init === null) {
      const text = `${init}`;
      this.#pairs = parseForm(text.startsWith('?') ? text.slice(1) : text);
    } else if (typeof (init as Partial<Iterable<unknown>>)[Symbol.iterator] === 'function') {
      for (const entry of init as Iterable<Iterable<unknown>>) {
        const pair = [...entry];
        if (pair.length !== 2) throw new TypeError('Each query pair must be an iterable [name, value] tuple');
        this.#pairs.push([`${pair[0]}`, `${pair[1]}`]);
      }
    } else {
      const members = init as Readonly<Record<string, unknown>>;
      for (const name of Object.keys(members)) this.#pairs.push([name, `${members[name]}`]);
    }
  }

  /** Taken once, by the kernel, which then takes it away. */
  static parts(): SearchParts {
    return {
      make(changed) {
        const made = new URLSearchParams();
        made.#changed = changed;
        return made;
      },
      read(params, text) {
        params.#pairs = parseForm(text);
      },
    };
  }

  get size(): number {
    return this.#pairs.length;
  }

  append(name: unknown, value: unknown): void {
    this.#pairs.push([`${name}`, `${value}`]);
    this.#changed(writeForm(this.#pairs));
  }

  delete(name: unknown, value?: unknown): void {
    this.#pairs = this.#pairs.filter(
      (pair) => pair[0] !== `${name}` || (value !== undefined && pair[1] !== `${value}`),
    );
    this.#changed(writeForm(this.#pairs));
  }

  get(name: unknown): string | null {
    return this.#pairs.find((pair) => pair[0] === `${name}`)?.[1] ?? null;
  }

  getAll(name: unknown): string[] {
    return this.#pairs.filter((pair) => pair[0] === `${name}`).map((pair) => pair[1]);
  }

  has(name: unknown, value?: unknown): boolean {
    return this.#pairs.some(
      (pair) => pair[0] === `${name}` && (value === undefined || pair[1] === `${value}`),
    );
  }

  set(name: unknown, value: unknown): void {
    const first = this.#pairs.find((pair) => pair[0] === `${name}`);
    if (first === undefined) this.#pairs.push([`${name}`, `${value}`]);
    else {
      first[1] = `${value}`;
      this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== `${name}`);
    }
    this.#changed(writeForm(this.#pairs));
  }

  sort(): void {
    this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
    this.#changed(writeForm(this.#pairs));
  }

  forEach(visit: (value: string, name: string, params: URLSearchParams) => void, self?: unknown): void {
    for (let at = 0; at < this.#pairs.length; at += 1) {
      const [name, value] = this.#pairs[at] as Pair;
      Reflect.apply(visit, self, [value, name, this]);
    }
  }

  *entries(): Generator<[string, string]> {
    for (let at = 0; at < this.#pairs.length; at += 1) yield [...(this.#pairs[at] as Pair)];
  }

  *keys(): Generator<string> {
    for (let at = 0; at < this.#pairs.length; at += 1) yield (this.#pairs[at] as Pair)[0];
  }

  *values(): Generator<string> {
    for (let at = 0; at < this.#pairs.length; at += 1) yield (this.#pairs[at] as Pair)[1];
  }

  [Symbol.iterator](): Generator<[string, string]> {
    return this.entries();
  }

  toString(): string {
    return writeForm(this.#pairs);
  }
}

export function parseUrlOrThrow(given: unknown, base: unknown): UrlRecord {
  const under = base === undefined ? undefined : parseUrl(`${base}`, undefined);
  const parsed = base !== undefined && under === undefined ? undefined : parseUrl(`${given}`, under);
  if (parsed === undefined) throw new TypeError(`Invalid URL: ${`${given}`.slice(0, 200)}`);
  return parsed;
}

export class URL {
  static #search: SearchParts;
  #url: UrlRecord;
  readonly #params: URLSearchParams;

  constructor(given: unknown, base?: unknown) {
    this.#url = parseUrlOrThrow(given, base);
    this.#params = URL.#search.make((text) => {
      this.#url.query = text === '' ? undefined : text;
    });
    URL.#search.read(this.#params, this.#url.query ?? '');
  }

  /** Called once, by the kernel, which then takes it away. */
  static link(search: SearchParts): void {
    URL.#search = search;
  }

  static canParse(given: unknown, base?: unknown): boolean {
    return URL.parse(given, base) !== null;
  }

  static parse(given: unknown, base?: unknown): URL | null {
    try {
      return new URL(given, base);
    } catch {
      return null;
    }
  }

  get href(): string {
    return urlText(this.#url);
  }
  set href(value: unknown) {
    this.#url = parseUrlOrThrow(value, undefined);
    URL.#search.read(this.#params, this.#url.query ?? '');
  }

  get origin(): string {
    const { scheme } = this.#url;
    if (scheme === 'blob') {
      const inner = URL.parse(pathText(this.#url));
      return inner !== null && /^https?:$/.test(inner.protocol) ? inner.origin : 'null';
    }
    return defaultPort(scheme) === undefined ? 'null' : `${scheme}://${placeText(this.#url)}`;
  }

  get protocol(): string {
    return `${this.#url.scheme}:`;
  }
  set protocol(value: unknown) {
    const scheme = /^[A-Za-z][A-Za-z\d+.-]*(?=:|$)/.exec(`${value}`)?.[0].toLowerCase();
    const url = this.#url;
    if (scheme === undefined || isSpecialScheme(scheme) !== isSpecialScheme(url.scheme)) return;
    const isOwned = url.username !== '' || url.password !== '' || url.port !== undefined;
    if ((scheme === 'file' && isOwned) || (url.scheme === 'file' && url.host === '')) return;
    url.scheme = scheme;
    if (url.port === defaultPort(scheme)) url.port = undefined;
  }

  get username(): string {
    return this.#url.username;
  }
  set username(value: unknown) {
    if (this.#hasPlace()) this.#url.username = percentEncode(`${value}`.toWellFormed(), 'userinfo');
  }

  get password(): string {
    return this.#url.password;
  }
  set password(value: unknown) {
    if (this.#hasPlace()) this.#url.password = percentEncode(`${value}`.toWellFormed(), 'userinfo');
  }

  get host(): string {
    return placeText(this.#url);
  }
  set host(value: unknown) {
    this.#setPlace(`${value}`, true);
  }

  get hostname(): string {
    return this.#url.host ?? '';
  }
  set hostname(value: unknown) {
    this.#setPlace(`${value}`, false);
  }

  get port(): string {
    return `${this.#url.port ?? ''}`;
  }
  set port(value: unknown) {
    const digits = /^\d*/.exec(`${value}`)?.[0] ?? '';
    if (this.#hasPlace() && (digits !== '' || `${value}` === '')) parsePort(this.#url, digits);
  }

  get pathname(): string {
    return pathText(this.#url);
  }
  set pathname(value: unknown) {
    if (typeof this.#url.path === 'string') return;
    this.#url.path = [];
    parsePath(this.#url, `${value}`.toWellFormed().replace(/[\t\n\r]/g, ''));
  }

  get search(): string {
    return this.#url.query === undefined || this.#url.query === '' ? '' : `?${this.#url.query}`;
  }
  set search(value: unknown) {
    const text = `${value}`.toWellFormed().replace(/[\t\n\r]/g, '');
    const query = text.startsWith('?') ? text.slice(1) : text;
    const set = isSpecialScheme(this.#url.scheme) ? 'special-query' : 'query';
    this.#url.query = text === '' ? undefined : percentEncode(query, set);
    URL.#search.read(this.#params, this.#url.query ?? '');
  }

  get searchParams(): URLSearchParams {
    return this.#params;
  }

  get hash(): string {
    return this.#url.fragment === undefined || this.#url.fragment === '' ? '' : `#${this.#url.fragment}`;
  }
  set hash(value: unknown) {
    const text = `${value}`.toWellFormed().replace(/[\t\n\r]/g, '');
    const fragment = text.startsWith('#') ? text.slice(1) : text;
    this.#url.fragment = text === '' ? undefined : percentEncode(fragment, 'fragment');
  }

  toString(): string {
    return this.href;
  }

  toJSON(): string {
    return this.href;
  }

  #hasPlace(): boolean {
    return this.#url.host !== undefined && this.#url.host !== '' && this.#url.scheme !== 'file';
  }

  /** What stands behind it is not looked at; what can't be one changes nothing. */
  #setPlace(value: string, takesPort: boolean): void {
    const url = this.#url;
    if (typeof url.path === 'string') return;
    const isSpecial = isSpecialScheme(url.scheme);
    const place = value.replace(/[\t\n\r]/g, '').split(isSpecial ? /[/\\?#]/ : /[/?#]/)[0] ?? '';
    const name = /^(?:\[[^\]]*\]|[^:]*)/.exec(place)?.[0] ?? '';
    if (place.includes('@') || ((!takesPort || url.scheme === 'file') && name !== place)) return;
    const changed = { ...url };
    const port = /^\d*/.exec(place.slice(name.length + 1))?.[0] ?? '';
    if (!parsePlace(changed, port === '' ? name : `${name}:${port}`)) return;
    url.host = changed.host;
    if (port !== '') url.port = changed.port;
  }
}
