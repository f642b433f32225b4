/**
 * Part of the guest kernel and of the host: the value that `encode.ts` wrote. On the host the text comes from a process
 * that runs foreign code, so every node is checked; what is wrong throws, and nothing is called on what was read.
 */
import type { Primordials } from './primordials.ts';
import { decodeRegExp } from './reg-exp.ts';

interface Decoding {
  readonly p: Primordials;
  readonly nodes: readonly (readonly unknown[])[];
  readonly values: unknown[];
}

/** @throws TypeError where the text is not what `encodeValue` writes. */
export function decodeValue(p: Primordials, text: string): unknown {
  const nodes: unknown = JSON.parse(text);
  if (!Array.isArray(nodes) || nodes.length === 0) throw new TypeError('malformed value');
  const first: unknown = nodes[0];
  // One inline value alone; a node is an array whose first word is a node's.
  if (nodes.length === 1 && (!Array.isArray(first) || ['u', 'n', 'b'].includes(first[0]))) {
    return decodeInline({ p, nodes: [], values: [] }, first);
  }
  if (!nodes.every((node) => Array.isArray(node))) throw new TypeError('malformed value');
  const decoding: Decoding = { p, nodes, values: [] };
  for (let at = 0; at < nodes.length; at += 1) {
    // Of all that is made here an expression alone takes more than its own length.
    if (at % 256 === 255 || nodes[at]?.[0] === 'x') p.watch?.();
    decoding.values[at] = decodeShell(decoding, nodes[at] ?? []);
  }
  resolveStandIns(decoding);
  for (let at = 0; at < nodes.length; at += 1) {
    if (at % 256 === 255) p.watch?.();
    fillNode(decoding, at);
  }
  return decoding.values[0];
}

/** The empty object of a node; its members come when every node has one. */
export function decodeShell(decoding: Decoding, node: readonly unknown[]): unknown {
  switch (node[0]) {
    case 'o':
      return {};
    case 'a':
    case 'h':
      return [];
    case 'm':
      return new Map();
    case 's':
      return new Set();
    case 'd':
      return new Date(typeof node[1] === 'number' ? node[1] : Number.NaN);
    case 'x':
      return decodeRegExp(node[1], node[2]);
    case 't':
      return decodeBytes(decoding.p, decodeText(node[1]), decodeText(node[2]));
    case 'e':
      return decodeError(node);
    case 'j':
      return undefined;
    default:
      throw new TypeError('malformed value');
  }
}

export function decodeError(node: readonly unknown[]): Error {
  const name = decodeText(node[1]);
  const message = decodeText(node[2]);
  const error = new Error(message);
  Object.defineProperty(error, 'name', {
    value: name,
    writable: true,
    enumerable: false,
    configurable: true,
  });
  // Where it was made says nothing about where it happened.
  Object.defineProperty(error, 'stack', {
    value: `${name}: ${message}`,
    writable: true,
    enumerable: false,
    configurable: true,
  });
  return error;
}

/**
 * A node that stands for another value (`toJSON`) may stand for one that stands for a third, and so on in a ring. Each is looked at once: what
 * one stands for, all before it in the chain do.
 */
export function resolveStandIns(decoding: Decoding): void {
  const { nodes, values, p } = decoding;
  const isResolved: boolean[] = [];
  for (let first = 0; first < nodes.length; first += 1) {
    if (first % 256 === 255) p.watch?.();
    const chain: number[] = [];
    let at = first;
    let value = values[at];
    while (nodes[at]?.[0] === 'j' && isResolved[at] !== true) {
      if (chain.length >= nodes.length) throw new TypeError('malformed value');
      chain[chain.length] = at;
      const target = nodes[at]?.[1];
      value = decodeInline(decoding, target);
      if (!Array.isArray(target) || target[0] !== 'r') break;
      at = target[1];
    }
    for (let step = 0; step < chain.length; step += 1) {
      const number = chain[step] ?? 0;
      values[number] = value;
      isResolved[number] = true;
    }
  }
}

export function decodeInline(decoding: Decoding, value: unknown): unknown {
  if (!Array.isArray(value)) {
    if (typeof value === 'object' && value !== null) throw new TypeError('malformed value');
    return value;
  }
  switch (value[0]) {
    case 'r': {
      const number: unknown = value[1];
      if (
        typeof number !== 'number' ||
        !Number.isInteger(number) ||
        number < 0 ||
        number >= decoding.values.length
      )
        throw new TypeError('malformed value');
      return decoding.values[number];
    }
    case 'u':
      return undefined;
    case 'n':
      return Number(decodeText(value[1]));
    case 'b':
      return decodeBigInt(decodeText(value[1]));
    default:
      throw new TypeError('malformed value');
  }
}

/** A list nested in lists would take the square of its length to be made a text. */
export function decodeText(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError('malformed value');
  return value;
}

export function decodeBigInt(text: string): bigint {
  if (!/^-?[0-9a-f]+$/.test(text)) throw new TypeError('malformed value');
  return text[0] === '-' ? -BigInt(`0x${text.slice(1)}`) : BigInt(`0x${text}`);
}

export function fillNode(decoding: Decoding, at: number): void {
  const node = decoding.nodes[at] ?? [];
  const target = decoding.values[at];
  const inline = (index: number) => decodeInline(decoding, node[index]);
  switch (node[0]) {
    case 'o':
      for (let index = 1; index + 1 < node.length; index += 2) {
        if (index % 256 === 255) decoding.p.watch?.();
        setMember(decoding.p, target as object, { key: decodeText(node[index]), value: inline(index + 1) });
      }
      return;
    case 'a':
      for (let index = 1; index < node.length; index += 1) {
        if (index % 256 === 0) decoding.p.watch?.();
        (target as unknown[])[index - 1] = inline(index);
      }
      return;
    case 'h':
      fillSparse(decoding, target as unknown[], node);
      return;
    case 'm':
      for (let index = 1; index + 1 < node.length; index += 2) {
        if (index % 256 === 1) decoding.p.watch?.();
        (target as Map<unknown, unknown>).set(inline(index), inline(index + 1));
      }
      return;
    case 's':
      for (let index = 1; index < node.length; index += 1) {
        if (index % 256 === 1) decoding.p.watch?.();
        (target as Set<unknown>).add(inline(index));
      }
      return;
    case 'e':
      if (node.length > 3)
        Object.defineProperty(target, 'cause', {
          value: inline(3),
          writable: true,
          enumerable: false,
          configurable: true,
        });
      return;
    default:
  }
}

export function fillSparse(decoding: Decoding, target: unknown[], node: readonly unknown[]): void {
  const length: unknown = node[1];
  if (typeof length !== 'number') throw new TypeError('malformed value');
  target.length = length;
  for (let index = 2; index + 1 < node.length; index += 2) {
    if (index % 256 === 0) decoding.p.watch?.();
    const place: unknown = node[index];
    if (typeof place !== 'number' || !(place >= 0 && place < target.length))
      throw new TypeError('malformed value');
    target[place] = decodeInline(decoding, node[index + 1]);
  }
}

/** A key that Object.prototype has (`__proto__`, `constructor`) becomes the object's own and nothing else. */
export function setMember(
  p: Primordials,
  target: object,
  member: { readonly key: string; readonly value: unknown },
): void {
  const { key, value } = member;
  if (key in p.objectPrototype)
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  else (target as Record<string, unknown>)[key] = value;
}

export function decodeBytes(p: Primordials, name: string, text: string): unknown {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const codes: number[] = [];
  for (let at = 0; at < 64; at += 1) codes[digits.charCodeAt(at)] = at;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const bytes = new Uint8Array(Math.max(0, Math.floor((text.length * 3) / 4) - padding));
  let out = 0;
  for (let at = 0; at < text.length; at += 4) {
    const code = (offset: number) => codes[text.charCodeAt(at + offset)] ?? 0;
    const triple = (code(0) << 18) | (code(1) << 12) | (code(2) << 6) | code(3);
    bytes[out] = triple >> 16;
    bytes[out + 1] = (triple >> 8) & 255;
    bytes[out + 2] = triple & 255;
    out += 3;
  }
  if (name === 'ArrayBuffer') return bytes.buffer;
  const constructor = p.typedArrays.get(name);
  if (constructor === undefined) throw new TypeError('malformed value');
  return new constructor(bytes.buffer);
}
