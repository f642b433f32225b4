/**
 * Puts secrets into one request, and refuses it where a placeholder stands somewhere it has no business.
 *
 * What a newcomer would get wrong: a placeholder that may not be replaced is never passed on silently. It is harmless
 * by itself, but somebody expected a key to be there: either the policy is wrong or the code is up to something, and
 * both are to be seen. That holds for every placeholder of the sandbox, whichever host it belongs to.
 */
import type { SecretSurface } from '@squash/contract/secrets';
import type { Destination } from '../ports.ts';
import { type ByteFilter, Replacer, Watcher } from './stream-filter.ts';
import type { TrafficSecret, TrafficSecrets } from './traffic-secrets.ts';
import { type EscapeSyntax, UnescapedWatcher, unescapedViews } from './unescaped.ts';
import { pathCharacters, percentEncoded } from './value-forms.ts';

/** A placeholder on its way to where it may not go. Nothing of the request has to be sent. */
export class PlaceholderElsewhere extends Error {
  readonly secret: string;
  /** For people: `the request's body`. */
  readonly where: string;

  constructor(secret: string, where: string) {
    super(`the placeholder of the secret ${JSON.stringify(secret)} stands in ${where}, where it may not be`);
    this.name = 'PlaceholderElsewhere';
    this.secret = secret;
    this.where = where;
  }
}

/** Headers that say how the message is framed or where it goes: a value has no business there. */
const framing: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'expect',
  'te',
  'trailer',
  'upgrade',
  'sec-websocket-key',
  'sec-websocket-version',
]);

const noEscapes = /[A-Za-z0-9\-._~]/;

export class RequestSecrets {
  readonly #traffic: TrafficSecrets;
  readonly #destination: Destination;
  /** Names of those that were put in so far. */
  readonly used = new Set<string>();

  constructor(traffic: TrafficSecrets, destination: Destination) {
    this.#traffic = traffic;
    this.#destination = destination;
  }

  /**
   * @param list names and values in turn, as Node has them (each character a byte)
   * @throws PlaceholderElsewhere
   */
  headers(list: readonly string[]): readonly string[] {
    if (this.#traffic.isEmpty) return list;
    this.#refuseNames(list);
    const text = list.join('\n');
    const hasBasic = /\nbasic /i.test(text);
    if (!hasBasic && !this.#has(text) && !text.includes('%')) return list;
    return list.map((value, at) => (at % 2 === 0 ? value : this.#header(list[at - 1] ?? '', value)));
  }

  /** The path with its query. @throws PlaceholderElsewhere */
  target(target: string): string {
    if (this.#traffic.isEmpty) return target;
    const at = target.indexOf('?');
    const path = at < 0 ? target : target.slice(0, at);
    const query = at < 0 ? '' : target.slice(at);
    const encodedPath = this.#text(path, {
      surface: 'path',
      encode: (value) => percentEncoded(value, pathCharacters),
    });
    const encodedQuery = this.#text(query, {
      surface: 'query',
      encode: (value) => percentEncoded(value, noEscapes),
    });
    return encodedPath + encodedQuery;
  }

  /** May some secret be put into bodies for this destination, so that their length may change? */
  get replacesBodies(): boolean {
    return this.#traffic.secrets.some((secret) => secret.permits('body', this.#destination));
  }

  /** For the body (already without content coding), or undefined where nothing has to be looked for. Throws PlaceholderElsewhere. */
  bodyFilter(contentType: string): ByteFilter | undefined {
    if (this.#traffic.isEmpty) return undefined;
    const syntax = syntaxOf(contentType);
    const use = (secret: TrafficSecret): Buffer =>
      this.#use(secret, 'body', (value) => escaped(value, syntax));
    const { placeholders } = this.#traffic;
    const filter = this.replacesBodies ? new Replacer(placeholders, use) : new Watcher(placeholders, use);
    if (syntax === 'raw') return filter;
    const watch = new UnescapedWatcher(
      syntax,
      new Watcher(placeholders, (secret) => this.#refuseUnless(secret, 'body')),
    );
    return {
      push: (piece) => filter.push(watch.push(piece)),
      end: () => {
        watch.end();
        return filter.end();
      },
    };
  }

  /** For one message of a WebSocket, which has no content type. */
  messageFilter(): ByteFilter {
    return this.bodyFilter('') ?? this.watchFilter();
  }

  /** For bytes in which nothing can be replaced. Throws PlaceholderElsewhere for any placeholder. */
  watchFilter(): ByteFilter {
    return new Watcher(this.#traffic.placeholders, ({ name }) => {
      throw new PlaceholderElsewhere(name, 'a protocol in which nothing can be replaced');
    });
  }

  #header(name: string, value: string): string {
    if (framing.has(name.toLowerCase())) {
      this.#refuseHidden(value, `the header ${JSON.stringify(name)}`);
      return value;
    }
    const basic = /^(basic\s+)([A-Za-z0-9+/_-]+={0,2})\s*$/i.exec(value);
    if (basic === null) return this.#text(value, { surface: 'headers', encode: asItIs });
    const [, scheme = '', credentials = ''] = basic;
    const decoded = Buffer.from(credentials, 'base64').toString('latin1');
    const replaced = this.#text(decoded, { surface: 'headers', encode: asItIs });
    return replaced === decoded ? value : scheme + Buffer.from(replaced, 'latin1').toString('base64');
  }

  /** Replaces what may be replaced in a short text and refuses what is hidden in it by escapes. */
  #text(
    text: string,
    { surface, encode }: { surface: SecretSurface; encode: (value: string) => string },
  ): string {
    const { placeholders } = this.#traffic;
    // A value may look like an escape itself: what is hidden is looked for in the rest.
    const rest = replaced(text, new Replacer(placeholders, () => Buffer.from('\n')));
    this.#refuseHidden(rest, whereIs[surface]);
    return replaced(text, new Replacer(placeholders, (secret) => this.#use(secret, surface, encode)));
  }

  #use(secret: TrafficSecret, surface: SecretSurface, encode: (value: string) => string): Buffer {
    this.#refuseUnless(secret, surface);
    this.used.add(secret.name);
    return Buffer.from(encode(secret.reveal()), 'latin1');
  }

  #refuseUnless(secret: TrafficSecret, surface: SecretSurface): void {
    if (!secret.permits(surface, this.#destination))
      throw new PlaceholderElsewhere(secret.name, whereIs[surface]);
  }

  /** In HTTP/2 names are lower case, whatever the placeholder is. */
  #refuseNames(list: readonly string[]): void {
    const names = list
      .filter((_, at) => at % 2 === 0)
      .join('\n')
      .toLowerCase();
    const found = this.#traffic.secrets.find(({ placeholder }) => names.includes(placeholder.toLowerCase()));
    if (found !== undefined) throw new PlaceholderElsewhere(found.name, 'a header’s name');
  }

  #refuseHidden(text: string, where: string): void {
    for (const view of [text, ...unescapedViews(text)]) {
      const found = this.#traffic.placeholders.find(Buffer.from(view, 'latin1'), 0, true);
      if (found?.kind === 'match') throw new PlaceholderElsewhere(found.meaning.name, where);
    }
  }

  #has(text: string): boolean {
    return this.#traffic.placeholders.find(Buffer.from(text, 'latin1'), 0, true) !== undefined;
  }
}

const whereIs: Readonly<Record<SecretSurface, string>> = {
  headers: 'the request’s headers',
  query: 'the query',
  path: 'the path',
  body: 'the request’s body',
};

function replaced(text: string, filter: ByteFilter): string {
  return Buffer.concat([filter.push(Buffer.from(text, 'latin1')), filter.end()]).toString('latin1');
}

const asItIs = (value: string): string => value;

function syntaxOf(contentType: string): EscapeSyntax | 'raw' {
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase();
  if (type === 'application/x-www-form-urlencoded') return 'percent';
  return /^application\/(?:.*\+)?(?:json|x-ndjson|jsonl|json-seq)$/.test(type) ? 'json' : 'raw';
}

function escaped(value: string, syntax: EscapeSyntax | 'raw'): string {
  switch (syntax) {
    case 'raw':
      return value;
    case 'percent':
      return percentEncoded(value, noEscapes);
    case 'json':
      return JSON.stringify(value).slice(1, -1);
  }
}
