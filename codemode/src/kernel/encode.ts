/**
 * Part of the guest kernel and of the host: a value as text. The text is a JSON array of nodes, of which the first is the
 * value; a node names others by number, so that cycles, shared objects and any depth can be carried.
 *
 *   "text" 1 true null        themselves           ["r", n]  node n             ["u"] undefined
 *   ["n", "NaN"]              number JSON lacks    ["b", "12"] BigInt
 *   nodes: ["o", key, value, …]  ["a", value, …]  ["h", length, index, value, …] (array with holes)  ["d", ms | null]
 *          ["m", key, value, …]  ["s", value, …]  ["t", name, base64]  ["e", name, message, cause?]  ["x", source, flags]
 *
 * Getters, Proxy traps and `toJSON` run here, in the realm the value belongs to, never at the reader.
 */
import type { Primordials } from './primordials.ts';
import { regExpFault } from './reg-exp.ts';

export interface EncodeOptions {
  readonly bytesMax: number;
  /** Functions, symbols and promises in an object, a Map or a Set are left out, as JSON does, instead of refused. */
  readonly dropFunctions: boolean;
}

/** What `encodeValue` throws: the kind decides how the run ends. */
export interface EncodeFailure {
  readonly encodeFailure: 'serialization' | 'result-limit';
  readonly message: string;
}

interface Encoding {
  readonly p: Primordials;
  readonly options: EncodeOptions;
  readonly nodes: unknown[];
  readonly values: unknown[];
  readonly numbers: Map<unknown, number>;
  /** Where each node was found: the number of the node that holds it, and the key there. */
  readonly holders: number[];
  readonly keys: string[];
  size: number;
}

/** @throws EncodeFailure, or whatever a getter of the value throws. */
export function encodeValue(p: Primordials, root: unknown, options: EncodeOptions): string {
  const encoding: Encoding = {
    p,
    options,
    nodes: [],
    values: [],
    numbers: new Map(),
    holders: [],
    keys: [],
    size: 0,
  };
  const first = encodeReference(encoding, root, -1, '');
  const isNode = Array.isArray(first) && first[0] === 'r';
  for (let at = 0; at < encoding.values.length; at += 1) {
    encoding.nodes[at] = encodeNode(encoding, encoding.values[at], at);
  }
  const text = JSON.stringify(isNode ? encoding.nodes : [first]);
  if (text.length > options.bytesMax)
    throw encodeRefusal('result-limit', `it is larger than ${options.bytesMax} bytes`);
  return text;
}

export function encodeRefusal(encodeFailure: EncodeFailure['encodeFailure'], message: string): EncodeFailure {
  return { encodeFailure, message };
}

export function encodeGrow(encoding: Encoding, size: number): void {
  encoding.size += size;
  if (encoding.size > encoding.options.bytesMax)
    throw encodeRefusal('result-limit', `it is larger than ${encoding.options.bytesMax} bytes`);
}

/** The value where it stands: itself, or the number of its node. */
export function encodeReference(
  encoding: Encoding,
  value: unknown,
  ...[holder, key]: readonly [number, string]
): unknown {
  encodeGrow(encoding, 2);
  switch (typeof value) {
    case 'string':
      encodeGrow(encoding, value.length);
      return value;
    case 'boolean':
      return value;
    case 'undefined':
      return ['u'];
    case 'number':
      if (value === 0 && 1 / value < 0) return ['n', '-0'];
      return value - value === 0 ? value : ['n', `${value}`];
    case 'bigint':
      return ['b', encodeBigInt(encoding, value)];
    case 'symbol':
    case 'function':
      throw encodeRefusal('serialization', `${encodePath(encoding, holder, key)} is a ${typeof value}`);
    default:
      return value === null ? null : ['r', encodeNumber(encoding, value, { holder, key })];
  }
}

/** Four bits make one hexadecimal digit, so this bound is cheap where writing it out would take seconds. */
export function encodeBigInt(encoding: Encoding, value: bigint): string {
  const text = value.toString(16);
  encodeGrow(encoding, text.length + (value < 0n ? 1 : 0));
  return text;
}

export function encodeNumber(
  encoding: Encoding,
  value: unknown,
  found: { readonly holder: number; readonly key: string },
): number {
  const known = encoding.numbers.get(value);
  if (known !== undefined) return known;
  const number = encoding.values.length;
  encoding.numbers.set(value, number);
  encoding.values[number] = value;
  encoding.holders[number] = found.holder;
  encoding.keys[number] = found.key;
  return number;
}

/** `result.items[3].name`: what a person would type to get there. */
export function encodePath(encoding: Encoding, holder: number, key: string): string {
  let path = '';
  let at = holder;
  let step = key;
  for (let depth = 0; at >= 0 && depth < 20; depth += 1) {
    path = `${/^[0-9]+$/.test(step) ? `[${step}]` : `.${step}`}${path}`;
    step = encoding.keys[at] ?? '';
    at = encoding.holders[at] ?? -1;
  }
  return `value${at >= 0 ? '…' : ''}${path}`.slice(0, 300);
}

export function encodeNode(encoding: Encoding, given: unknown, number: number): unknown {
  const { p } = encoding;
  if (Array.isArray(given)) return encodeArray(encoding, given, number);
  const prototype = Object.getPrototypeOf(given);
  if (prototype !== p.objectPrototype && prototype !== null) {
    const special = encodeSpecial(encoding, given, number);
    if (special !== undefined) return special;
  }
  const toJson = (given as { readonly toJSON?: unknown }).toJSON;
  if (typeof toJson === 'function') {
    // One node that only points on: the value that stands for this one may be anything.
    return [
      'j',
      encodeReference(
        encoding,
        dropped(encoding, (given as { toJSON(key: string): unknown }).toJSON(encoding.keys[number] ?? '')),
        number,
        'toJSON()',
      ),
    ];
  }
  return encodeObject(encoding, given as Readonly<Record<string, unknown>>, number);
}

export function encodeObject(
  encoding: Encoding,
  given: Readonly<Record<string, unknown>>,
  number: number,
): unknown {
  const node: unknown[] = ['o'];
  const keys = Object.keys(given);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] ?? '';
    const value = given[key];
    if (isLeftOut(encoding, value)) continue;
    encodeGrow(encoding, key.length + 4);
    node[node.length] = key;
    node[node.length] = encodeReference(encoding, value, number, key);
  }
  return node;
}

/** An array's length costs nothing to claim: one with holes is written by its members. */
export function encodeArray(encoding: Encoding, given: readonly unknown[], number: number): unknown {
  // A Proxy of a list says what it likes.
  const length = Math.min(Math.max(Math.trunc(Number(given.length)) || 0, 0), 4_294_967_295);
  const keys = length > encoding.options.bytesMax ? Object.keys(given) : undefined;
  if (keys === undefined) {
    const node: unknown[] = ['a'];
    let holes = false;
    for (let at = 0; at < length && !holes; at += 1) {
      const value = given[at];
      holes = value === undefined && !Object.hasOwn(given, at);
      if (!holes) node[at + 1] = encodeReference(encoding, dropped(encoding, value), number, `${at}`);
    }
    if (!holes) return node;
  }
  const node: unknown[] = ['h', length];
  const members = keys ?? Object.keys(given);
  for (let at = 0; at < members.length; at += 1) {
    const key = members[at] ?? '';
    const index = Number(key);
    if (!(index >= 0 && index < length && `${index}` === key)) continue;
    node[node.length] = index;
    node[node.length] = encodeReference(encoding, dropped(encoding, given[index]), number, key);
  }
  return node;
}

export function dropped(encoding: Encoding, value: unknown): unknown {
  return isLeftOut(encoding, value) ? null : value;
}

/** Of a tool's answer: what can't be carried costs its own place, not the answer. */
export function isLeftOut(encoding: Encoding, value: unknown): boolean {
  if (!encoding.options.dropFunctions) return false;
  if (typeof value === 'function' || typeof value === 'symbol') return true;
  return typeof value === 'object' && value !== null && encoding.p.tagOf(value) === '[object Promise]';
}

/** Values with a meaning of their own. A tag can be forged, so every reader below checks what it is given. */
export function encodeSpecial(encoding: Encoding, given: unknown, number: number): unknown {
  const { p } = encoding;
  const typed = p.typedArrayName(given);
  if (typed !== undefined) return encodeBytes(encoding, typed, p.bufferBytes(given));
  const tag = p.tagOf(given);
  const inside = (value: unknown, key: string) => encodeReference(encoding, value, number, key);
  try {
    switch (tag) {
      case '[object Date]': {
        const ms = p.dateTime(given);
        return ['d', ms === ms ? ms : null];
      }
      case '[object Map]': {
        const node: unknown[] = ['m'];
        p.mapForEach(given, (value, key) => {
          if (isLeftOut(encoding, value) || isLeftOut(encoding, key)) return;
          node[node.length] = inside(key, 'key');
          node[node.length] = inside(value, typeof key === 'string' ? key : 'value');
        });
        return node;
      }
      case '[object Set]': {
        const node: unknown[] = ['s'];
        p.setForEach(given, (value) => {
          if (isLeftOut(encoding, value)) return;
          node[node.length] = inside(value, 'member');
        });
        return node;
      }
      case '[object RegExp]':
        return encodeRegExp(encoding, p.regExpParts(given), number);
      case '[object ArrayBuffer]':
        return encodeBytes(encoding, 'ArrayBuffer', p.bufferBytes(given));
      case '[object Promise]':
        throw encodeRefusal(
          'serialization',
          `${encodePath(encoding, encoding.holders[number] ?? -1, encoding.keys[number] ?? '')} is a Promise: await it`,
        );
      default:
        return given instanceof Error ? encodeError(encoding, given, number) : undefined;
    }
  } catch (failure) {
    // Forged: written as the plain object it is. Anything else goes on its way.
    if (failure instanceof TypeError && tag !== '[object Error]') return undefined;
    throw failure;
  }
}

/** The reader makes no expression that takes it long, and says so here, where there is a place to name. */
export function encodeRegExp(
  encoding: Encoding,
  [source, flags]: readonly [string, string],
  number: number,
): unknown {
  encodeGrow(encoding, source.length);
  const fault = regExpFault(source, flags);
  if (fault === undefined) return ['x', source, flags];
  const path = encodePath(encoding, encoding.holders[number] ?? -1, encoding.keys[number] ?? '');
  throw encodeRefusal('serialization', `${path} is a RegExp that ${fault}`);
}

export function encodeError(encoding: Encoding, given: Error, number: number): unknown {
  const name = `${given.name}`.slice(0, 200);
  const message = `${given.message}`;
  encodeGrow(encoding, name.length + message.length);
  const node: unknown[] = ['e', name, message];
  if (Object.hasOwn(given, 'cause') && !isLeftOut(encoding, given.cause))
    node[3] = encodeReference(encoding, given.cause, number, 'cause');
  return node;
}

export function encodeBytes(encoding: Encoding, name: string, bytes: Uint8Array): unknown {
  encodeGrow(encoding, Math.ceil(bytes.length / 3) * 4);
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const parts: string[] = [];
  let text = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const triple = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
    text += `${digits[triple >> 18]}${digits[(triple >> 12) & 63]}`;
    text += at + 1 < bytes.length ? digits[(triple >> 6) & 63] : '=';
    text += at + 2 < bytes.length ? digits[triple & 63] : '=';
    if (text.length > 4000) {
      parts[parts.length] = text;
      text = '';
    }
  }
  return ['t', name, `${parts.join('')}${text}`];
}
