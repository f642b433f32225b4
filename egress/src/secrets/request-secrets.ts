/**
 * Puts secrets into one request, and refuses it where a placeholder is on its way to a host that may not have the secret.
 *
 * What a newcomer would get wrong: there are three cases, not two. On a surface of the secret, at a host that may have it, the
 * placeholder becomes the value. Elsewhere in a request to such a host it passes as it is: an agent writes its own key
 * into a prompt, and what leaves is a placeholder. At any other host it is refused: it is harmless there as well, but
 * somebody expected a key, so either the configuration is wrong or the code is up to something, and both are to be seen.
 */
import type { SecretSurface } from '@squash/contract/secrets';
import type { Destination } from '@squash/policy/policy';
import type { ByteFilter } from '../flow/pump.ts';
import { Replacer, Watcher } from './stream-filter.ts';
import type { TrafficSecret, TrafficSecrets } from './traffic-secrets.ts';
import { type EscapeSyntax, UnescapedWatcher, unescapedViews } from './unescaped.ts';
import { pathCharacters, percentEncoded } from './value-forms.ts';

/** A placeholder on its way to a host that may not have its secret. Nothing of the request has to be sent. */
export class PlaceholderElsewhere extends Error {
  readonly rule: 'placeholder_elsewhere' | 'placeholder_without_tls';
  /** Its name. */
  readonly secret: string;

  /** @param where for people: `the request's body` */
  constructor(secret: string, where: string, rule: PlaceholderElsewhere['rule'] = 'placeholder_elsewhere') {
    const why =
      rule === 'placeholder_elsewhere'
        ? 'this host may not have it'
        : 'its value goes to this host over TLS only';
    super(`the placeholder of the secret ${JSON.stringify(secret)} stands in ${where}, and ${why}`);
    this.name = 'PlaceholderElsewhere';
    this.rule = rule;
    this.secret = secret;
  }
}

/** Where a request goes, and how. */
export interface SecretsRoute {
  readonly destination: Destination;
  /** Neither TLS nor what was asked for in its place (`SQUASH_PROXY_HTTPS=0`). */
  readonly isPlain: boolean;
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
  readonly #isPlain: boolean;
  /** Is there a secret that this destination may not have? */
  readonly #hasForeign: boolean;
  /** Names of those that were put in so far. */
  readonly used = new Set<string>();

  constructor(traffic: TrafficSecrets, { destination, isPlain }: SecretsRoute) {
    this.#traffic = traffic;
    this.#destination = destination;
    this.#isPlain = isPlain;
    this.#hasForeign = traffic.secrets.some((secret) => !this.#mayHave(secret));
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
    return this.#traffic.secrets.some(
      (secret) => this.#mayHave(secret) && secret.permits('body', this.#destination),
    );
  }

  /** For the body (already without content coding), or undefined where nothing has to be looked for. Throws PlaceholderElsewhere. */
  bodyFilter(contentType: string): ByteFilter | undefined {
    const { replacesBodies } = this;
    if (!replacesBodies && !this.#hasForeign) return undefined;
    const syntax = syntaxOf(contentType);
    const { placeholders } = this.#traffic;
    const refuse = (secret: TrafficSecret): void => this.#refuseForeign(secret, whereIs.body);
    const filter = replacesBodies
      ? new Replacer(placeholders, (secret) => this.#use(secret, 'body', (value) => escaped(value, syntax)))
      : new Watcher(placeholders, refuse);
    if (syntax === 'raw' || !this.#hasForeign) return filter;
    const watch = new UnescapedWatcher(syntax, new Watcher(placeholders, refuse));
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

  /** For bytes in which nothing can be replaced. Throws PlaceholderElsewhere. */
  watchFilter(): ByteFilter {
    return new Watcher(this.#traffic.placeholders, (secret) =>
      this.#refuseForeign(secret, 'a protocol in which nothing can be replaced'),
    );
  }

  #header(name: string, value: string): string {
    if (framing.has(name.toLowerCase())) {
      const where = `the header ${JSON.stringify(name)}`;
      this.#refuseForeignIn(value, where);
      this.#refuseEscaped(value, where);
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
    this.#refuseEscaped(rest, whereIs[surface]);
    return replaced(text, new Replacer(placeholders, (secret) => this.#use(secret, surface, encode)));
  }

  /** What stands in the request where the placeholder stood. */
  #use(secret: TrafficSecret, surface: SecretSurface, encode: (value: string) => string): Buffer {
    this.#refuseForeign(secret, whereIs[surface]);
    if (!secret.permits(surface, this.#destination)) return Buffer.from(secret.placeholder, 'latin1');
    this.used.add(secret.name);
    return Buffer.from(encode(secret.reveal()), 'latin1');
  }

  #refuseForeign(secret: TrafficSecret, where: string): void {
    if (this.#mayHave(secret)) return;
    const isElsewhere = !secret.concerns(this.#destination);
    throw new PlaceholderElsewhere(
      secret.name,
      where,
      isElsewhere ? 'placeholder_elsewhere' : 'placeholder_without_tls',
    );
  }

  #mayHave(secret: TrafficSecret): boolean {
    return secret.concerns(this.#destination) && (!this.#isPlain || secret.permitsPlain(this.#destination));
  }

  /** In HTTP/2 names are lower case, whatever the placeholder is. */
  #refuseNames(list: readonly string[]): void {
    const names = list
      .filter((_, at) => at % 2 === 0)
      .join('\n')
      .toLowerCase();
    for (const secret of this.#traffic.secrets) {
      if (names.includes(secret.placeholder.toLowerCase())) this.#refuseForeign(secret, 'a header’s name');
    }
  }

  /** Hidden by percent escapes it is never replaced: nobody can say what its reader makes of it. */
  #refuseEscaped(text: string, where: string): void {
    if (!this.#hasForeign) return;
    for (const view of unescapedViews(text)) {
      this.#refuseForeignIn(view, `${where}, with some of its letters escaped`);
    }
  }

  #refuseForeignIn(text: string, where: string): void {
    const watcher = new Watcher(this.#traffic.placeholders, (secret) => this.#refuseForeign(secret, where));
    watcher.push(Buffer.from(text, 'latin1'));
    watcher.end();
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
