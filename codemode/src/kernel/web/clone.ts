/** Part of the guest kernel: `structuredClone`. Without recursion: the code chooses how deep its values are. */
import type { Primordials } from '../primordials.ts';
import { namedError } from './text.ts';

interface Cloning {
  readonly p: Primordials;
  readonly copies: Map<unknown, unknown>;
  /** Values whose copies wait for their members. */
  readonly waiting: object[];
}

export function cloneValue(
  p: Primordials,
  value: unknown,
  options?: { readonly transfer?: unknown },
): unknown {
  const cloning: Cloning = { p, copies: new Map(), waiting: [] };
  const moved = options?.transfer === undefined ? [] : [...(options.transfer as Iterable<ArrayBuffer>)];
  for (const buffer of moved) {
    if (p.tagOf(buffer) !== '[object ArrayBuffer]')
      throw namedError('DataCloneError', 'only an ArrayBuffer can be transferred');
    cloning.copies.set(buffer, buffer.slice(0));
  }
  const copy = cloneOne(cloning, value);
  for (let at = 0; at < cloning.waiting.length; at += 1) cloneMembers(cloning, cloning.waiting[at] as object);
  // Only where nothing failed: a failed clone takes nothing away.
  for (const buffer of moved) buffer.transfer(0);
  return copy;
}

export function cloneRefusal(what: string): Error {
  return namedError('DataCloneError', `${what} could not be cloned`);
}

export function cloneOne(cloning: Cloning, value: unknown): unknown {
  if (typeof value === 'function' || typeof value === 'symbol') throw cloneRefusal(`a ${typeof value}`);
  if (typeof value !== 'object' || value === null) return value;
  if (cloning.copies.has(value)) return cloning.copies.get(value);
  const copy = cloneShell(cloning, value);
  cloning.copies.set(value, copy);
  cloning.waiting[cloning.waiting.length] = value;
  return copy;
}

/** Of the same kind and without members. A tag can be forged: what follows it checks again, and throws. */
export function cloneShell({ p, copies }: Cloning, value: object): object {
  const typed = p.typedArrayName(value);
  if (typed !== undefined) {
    const view = value as Uint8Array;
    const known = copies.get(view.buffer) as ArrayBuffer | undefined;
    const buffer = known ?? (view.buffer as ArrayBuffer).slice(0);
    copies.set(view.buffer, buffer);
    const size = typed === 'DataView' ? 1 : view.BYTES_PER_ELEMENT;
    const make = p.typedArrays.get(typed) as unknown as new (...given: readonly unknown[]) => object;
    return new make(buffer, view.byteOffset, view.byteLength / size);
  }
  if (Array.isArray(value)) return [];
  switch (p.tagOf(value)) {
    case '[object Date]':
      return new Date(p.dateTime(value));
    case '[object RegExp]': {
      const [source, flags] = p.regExpParts(value);
      return new RegExp(source, flags);
    }
    case '[object Map]':
      return new Map();
    case '[object Set]':
      return new Set();
    case '[object ArrayBuffer]':
      return (value as ArrayBuffer).slice(0);
    case '[object Boolean]':
    case '[object Number]':
    case '[object String]':
    case '[object BigInt]':
      return Object((value as { valueOf(): unknown }).valueOf()) as object;
    case '[object Promise]':
    case '[object WeakMap]':
    case '[object WeakSet]':
      throw cloneRefusal('it');
    default:
      return value instanceof Error ? cloneError(value) : {};
  }
}

export function cloneError(given: Error): Error {
  const makers = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];
  const make = makers.find((maker) => maker.name === given.name) ?? Error;
  const error = new make(`${given.message}`);
  const { stack } = given;
  if (typeof stack === 'string')
    Object.defineProperty(error, 'stack', {
      value: stack,
      writable: true,
      enumerable: false,
      configurable: true,
    });
  return error;
}

export function cloneMembers(cloning: Cloning, value: object): void {
  const { p, copies } = cloning;
  const copy = copies.get(value);
  if (copy instanceof Map)
    p.mapForEach(value, (item, key) => {
      copy.set(cloneOne(cloning, key), cloneOne(cloning, item));
    });
  else if (copy instanceof Set)
    p.setForEach(value, (item) => {
      copy.add(cloneOne(cloning, item));
    });
  else if (copy instanceof Error) {
    if (Object.hasOwn(value, 'cause'))
      Object.defineProperty(copy, 'cause', {
        value: cloneOne(cloning, (value as Error).cause),
        writable: true,
        enumerable: false,
        configurable: true,
      });
  } else if (Array.isArray(copy) || Object.getPrototypeOf(copy) === p.objectPrototype) {
    if (Array.isArray(copy)) copy.length = (value as readonly unknown[]).length;
    const keys = Object.keys(value);
    for (let at = 0; at < keys.length; at += 1) {
      const key = keys[at] ?? '';
      Object.defineProperty(copy, key, {
        value: cloneOne(cloning, (value as Readonly<Record<string, unknown>>)[key]),
        writable: true,
        enumerable: true,
        configurable: true,
      });
    }
  }
}
