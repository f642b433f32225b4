/** Which of the addresses a request's path is, and what stands in its places: `/v1/sandboxes/{id}/exec`. */
import type { IncomingMessage } from 'node:http';

export type Texts = Readonly<Record<string, string>>;

interface Node<T> {
  readonly literals: Map<string, Node<T>>;
  place?: Node<T>;
  /** An address ends here. */
  end?: { readonly value: T; readonly names: readonly string[] };
}

export interface Found<T> {
  readonly value: T;
  /** By the places' names; decoded, and as they came where that can't be. */
  readonly params: Texts;
}

export class Routes<T> {
  readonly #root: Node<T> = { literals: new Map() };
  #depth = 0;

  /** @param path `{name}` stands for one segment, which is not empty. @returns what is there already, else `value` */
  add(path: string, value: T): T {
    const names: string[] = [];
    const segments = segmentsOf(path);
    this.#depth = Math.max(this.#depth, segments.length);
    let node = this.#root;
    for (const segment of segments) {
      const name = /^\{(\w+)\}$/.exec(segment)?.[1];
      if (name === undefined) {
        const next = node.literals.get(segment) ?? { literals: new Map() };
        node.literals.set(segment, next);
        node = next;
      } else {
        names.push(name);
        node = node.place ??= { literals: new Map() };
      }
    }
    return (node.end ??= { value, names }).value;
  }

  /** What is at the beginning of a path: of its beginnings the longest. */
  findAbove(path: string): Found<T> | undefined {
    const segments = segmentsOf(path, this.#depth);
    for (let most = segments.length; most > 0; most -= 1)
      for (const found of this.find(`/${segments.slice(0, most).join('/')}`)) return found;
    return undefined;
  }

  /** All that a path may be: what names more of it comes first. @param path without a query; one `/` at its end is nothing */
  *find(path: string): Generator<Found<T>> {
    const whole = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    const segments = segmentsOf(whole, this.#depth + 1);
    if (!path.startsWith('/') || segments.length > this.#depth) return;
    for (const { end, places } of walk(this.#root, segments.map(decoded), []))
      yield {
        value: end.value,
        params: Object.fromEntries(end.names.map((name, at) => [name, places[at] ?? ''])),
      };
  }
}

/** @param most those behind are left out: a path of ten thousand is none of ours */
function segmentsOf(path: string, most?: number): readonly string[] {
  return path.split('/', most === undefined ? undefined : most + 1).slice(1);
}

function* walk<T>(
  node: Node<T>,
  [segment, ...rest]: readonly string[],
  places: readonly string[],
): Generator<{ readonly end: NonNullable<Node<T>['end']>; readonly places: readonly string[] }> {
  if (segment === undefined) {
    if (node.end !== undefined) yield { end: node.end, places };
    return;
  }
  const literal = node.literals.get(segment);
  if (literal !== undefined) yield* walk(literal, rest, places);
  if (node.place !== undefined && segment !== '') yield* walk(node.place, rest, [...places, segment]);
}

/** What is no encoding stays as it is. */
function decoded(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Of a parameter that is there more than once, the first counts. */
export function targetOf({ url = '/' }: Pick<IncomingMessage, 'url'>): {
  readonly path: string;
  readonly query: Texts;
} {
  const at = url.indexOf('?');
  if (at === -1) return { path: url, query: {} };
  const query = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(url.slice(at + 1)))
    if (!query.has(name)) query.set(name, value);
  return { path: url.slice(0, at), query: Object.fromEntries(query) };
}
