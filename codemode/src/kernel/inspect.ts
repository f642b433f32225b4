/**
 * Part of the guest kernel: a value as a line of the console. The same text on every engine, bounded in depth and
 * length; what throws while it is looked at is written as a mark.
 */
import type { Primordials } from './primordials.ts';

/** One line of a log, whatever it is made of. */
export function inspectAll(p: Primordials, values: readonly unknown[], charsMax: number): string {
  let text = '';
  for (let at = 0; at < values.length && text.length <= charsMax; at += 1) {
    text += at === 0 ? '' : ' ';
    const value = values[at];
    text +=
      typeof value === 'string'
        ? value.length > charsMax
          ? value.slice(0, charsMax + 1)
          : value
        : inspectValue(p, value, charsMax);
  }
  return text.length > charsMax ? `${text.slice(0, charsMax)}… [cut]` : text;
}

export function inspectValue(p: Primordials, value: unknown, charsMax: number): string {
  const state = { p, left: charsMax, inside: [] as unknown[] };
  try {
    return inspectDeep(state, value, true);
  } catch {
    return '[unprintable]';
  }
}

interface Inspection {
  readonly p: Primordials;
  left: number;
  /** The objects that hold the one being written, to recognise cycles. */
  readonly inside: unknown[];
}

export function inspectDeep(state: Inspection, value: unknown, top: boolean): string {
  if (state.left <= 0) return '…';
  const text = inspectPrimitive(state, value, top) ?? inspectObject(state, value as object);
  state.left -= text.length;
  return text;
}

export function inspectPrimitive(state: Inspection, value: unknown, top: boolean): string | undefined {
  switch (typeof value) {
    case 'string':
      return top ? value : JSON.stringify(value.length > state.left ? value.slice(0, state.left) : value);
    case 'bigint':
      return value > -(2n ** 256n) && value < 2n ** 256n ? `${value}n` : '[BigInt]';
    case 'symbol':
      return String(value);
    case 'number':
      return value === 0 && 1 / value < 0 ? '-0' : `${value}`;
    case 'function':
      return '[Function]';
    case 'object':
      return value === null ? 'null' : undefined;
    default:
      return `${value}`;
  }
}

export function inspectObject(state: Inspection, value: object): string {
  const { inside } = state;
  if (inside.includes(value)) return '[Circular]';
  // Deeper than anyone reads, and far from the end of the smallest stack.
  if (inside.length >= 12) return Array.isArray(value) ? '[…]' : '{…}';
  inside.push(value);
  try {
    if (Array.isArray(value)) return `[${inspectItems(state, value)}]`;
    const special = inspectSpecial(state, value);
    if (special !== undefined) return special;
    if (typeof (value as { toJSON?: unknown }).toJSON === 'function')
      return inspectDeep(state, (value as { toJSON(): unknown }).toJSON(), false);
    return inspectMembers(state, value);
  } finally {
    inside.pop();
  }
}

export function inspectItems(state: Inspection, items: readonly unknown[]): string {
  let text = '';
  for (let at = 0; at < items.length; at += 1) {
    if (at >= 1000 || state.left <= 0) return `${text},… ${items.length - at} more`;
    text += `${at === 0 ? '' : ','}${inspectDeep(state, items[at], false)}`;
  }
  return text;
}

export function inspectMembers(state: Inspection, value: object): string {
  const keys = Object.keys(value);
  let text = '';
  for (let at = 0; at < keys.length; at += 1) {
    if (at >= 1000 || state.left <= 0) return `{${text},… ${keys.length - at} more}`;
    const key = keys[at] ?? '';
    text += `${at === 0 ? '' : ','}${JSON.stringify(key)}:${inspectDeep(state, (value as Record<string, unknown>)[key], false)}`;
  }
  return `{${text}}`;
}

export function inspectSpecial(state: Inspection, value: object): string | undefined {
  const { p } = state;
  const typed = p.typedArrayName(value);
  if (typed !== undefined) return `[${typed} ${p.bufferBytes(value).length} bytes]`;
  try {
    switch (p.tagOf(value)) {
      case '[object Date]': {
        const ms = p.dateTime(value);
        return ms === ms ? JSON.stringify(new Date(ms).toISOString()) : 'Invalid Date';
      }
      case '[object RegExp]': {
        const [source, flags] = p.regExpParts(value);
        return `/${source}/${flags}`;
      }
      case '[object Map]': {
        const pairs: string[] = [];
        p.mapForEach(value, (item, key) => {
          if (pairs.length < 1000 && state.left > 0)
            pairs.push(`${inspectDeep(state, key, false)} => ${inspectDeep(state, item, false)}`);
        });
        return `Map {${pairs.join(', ')}}`;
      }
      case '[object Set]': {
        const items: string[] = [];
        p.setForEach(value, (item) => {
          if (items.length < 1000 && state.left > 0) items.push(inspectDeep(state, item, false));
        });
        return `Set {${items.join(', ')}}`;
      }
      case '[object Promise]':
        return '[Promise]';
      default:
        return value instanceof Error ? `${value.name}: ${value.message}` : undefined;
    }
  } catch (failure) {
    // Forged: written as the plain object it is.
    if (failure instanceof TypeError) return undefined;
    throw failure;
  }
}
