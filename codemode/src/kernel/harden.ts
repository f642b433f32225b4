/**
 * Part of the guest kernel: makes the realm fit for foreign code. Runs once, before any of it.
 *
 * Order matters: first everything is put in place or removed, then everything that can be reached is frozen.
 * Frozen prototypes alone would break ordinary programs (`this.name = 'MyError'` in a class throws when
 * Error.prototype is frozen), so what programs do override is turned into accessors first.
 */
import { removeLaterMembers } from './edition.ts';
import type { Primordials } from './primordials.ts';
import { installWeb } from './web/install.ts';

/** Globals that stay; every other one is removed, so that all engines show the same. */
export function allowedGlobals(): readonly string[] {
  const values =
    'globalThis Infinity NaN undefined isFinite isNaN parseFloat parseInt decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape eval';
  const constructors =
    'Object Function Array Number Boolean String Symbol Date Promise RegExp BigInt Map Set WeakMap WeakSet Proxy Iterator ArrayBuffer DataView';
  const typed =
    'Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array Float32Array Float64Array BigInt64Array BigUint64Array';
  const errors =
    'Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError InternalError';
  return `${values} ${constructors} ${typed} ${errors} JSON Math Reflect Intl`.split(' ');
}

export function removeForeignGlobals(): void {
  const allowed = new Set(allowedGlobals());
  for (const key of Reflect.ownKeys(globalThis)) {
    if (typeof key === 'string' && allowed.has(key)) continue;
    if (!Reflect.deleteProperty(globalThis, key)) {
      // Not removable: at least it holds nothing.
      try {
        Object.defineProperty(globalThis, key, { value: undefined, writable: false });
      } catch {
        // Neither: a constant of the engine such as Symbol.toStringTag, which holds a string.
      }
    }
  }
}

/** For good, and unseen by loops. */
export function lockProperty(owner: object, key: string, value: unknown): void {
  Object.defineProperty(owner, key, { value, writable: false, enumerable: false, configurable: false });
}

/** Frames of the code only: no file of the host, no frame of the kernel, no function object. */
export function tameStacks(): void {
  const frame = (site: {
    getFileName?(): unknown;
    getFunctionName?(): unknown;
    getLineNumber?(): unknown;
    getColumnNumber?(): unknown;
  }) => {
    try {
      if (site.getFileName?.() !== 'codemode.js') return '';
      const place = `codemode.js:${site.getLineNumber?.()}:${site.getColumnNumber?.()}`;
      const name = site.getFunctionName?.();
      return typeof name === 'string' && name !== '' ? `\n    at ${name} (${place})` : `\n    at ${place}`;
    } catch {
      return '';
    }
  };
  const prepare = (error: unknown, sites: unknown) => {
    let text = 'Error';
    try {
      text = `${error}`;
    } catch {
      // The code's own toString throws: the frames are still worth something.
    }
    if (!Array.isArray(sites)) return text;
    for (let at = 0; at < sites.length && at < 20; at += 1) text += frame(sites[at]);
    return text;
  };
  // vm2 has put its own there, which can't be replaced, and which hides the host's frames too.
  const present = Object.getOwnPropertyDescriptor(Error, 'prepareStackTrace');
  if (present?.configurable === false) return;
  // QuickJS has an accessor there and looks at what it was given; V8 looks at the property.
  Reflect.set(Error, 'prepareStackTrace', prepare);
  lockProperty(Error, 'prepareStackTrace', prepare);
  lockProperty(Error, 'stackTraceLimit', 20);
}

/** The four ways to make a function from text, the one global way, and `eval`. */
export function blockCodeFromText(functionPrototypes: readonly object[]): void {
  const names = ['Function', 'AsyncFunction', 'GeneratorFunction', 'AsyncGeneratorFunction'];
  const refuse = (what: string) => {
    // A plain function, so that `class extends Function {}` and `instanceof Function` still parse and answer.
    const stub = function (): never {
      throw new TypeError(`${what} is not allowed`);
    };
    Object.defineProperty(stub, 'name', { value: what.split(' ')[0] });
    return stub;
  };
  for (let at = 0; at < names.length; at += 1) {
    const prototype = functionPrototypes[at];
    if (prototype === undefined) continue;
    const stub = refuse(`${names[at]} constructor`);
    lockProperty(stub, 'prototype', prototype);
    lockProperty(prototype, 'constructor', stub);
    if (at === 0) lockProperty(globalThis, 'Function', stub);
  }
  const noEval = refuse('eval');
  lockProperty(globalThis, 'eval', noEval);
}

/**
 * The property as a program sees it stays; assigning to an object that inherits it makes the object's own, as it would
 * if the prototype were not frozen.
 */
export function tameProperty(owner: object, key: PropertyKey): void {
  const found = Object.getOwnPropertyDescriptor(owner, key);
  if (found === undefined || found.configurable !== true || !('value' in found)) return;
  const value: unknown = found.value;
  const apply = Reflect.apply;
  const define = Object.defineProperty;
  const hasOwn = Object.prototype.hasOwnProperty;
  Object.defineProperty(owner, key, {
    enumerable: found.enumerable === true,
    configurable: false,
    get: () => value,
    set(this: unknown, next: unknown) {
      if (this === owner || this === undefined || this === null)
        throw new TypeError(`Cannot assign to read only property '${String(key)}'`);
      if (apply(hasOwn, this, [key])) (this as Record<PropertyKey, unknown>)[key] = next;
      else define(this, key, { value: next, writable: true, enumerable: true, configurable: true });
    },
  });
}

/** What programs are known to override by assignment, after the lists that SES has kept for years. */
export function tameOverrides(p: Primordials): void {
  for (const key of Reflect.ownKeys(p.objectPrototype)) {
    if (key !== '__proto__') tameProperty(p.objectPrototype, key);
  }
  const errors = [
    Error,
    AggregateError,
    EvalError,
    RangeError,
    ReferenceError,
    SyntaxError,
    TypeError,
    URIError,
  ];
  for (const constructor of errors) {
    for (const key of ['constructor', 'message', 'name', 'toString', 'stack'])
      tameProperty(constructor.prototype, key);
  }
  for (const key of ['name', 'toString', 'bind', 'call', 'apply', 'length'])
    tameProperty(Function.prototype, key);
  const others: readonly object[] = [
    Array.prototype,
    Map.prototype,
    Set.prototype,
    Promise.prototype,
    Date.prototype,
    RegExp.prototype,
    String.prototype,
    Number.prototype,
  ];
  for (const prototype of others) {
    for (const key of ['constructor', 'toString', 'valueOf', 'toJSON', 'then', 'push', 'get', 'set', 'add'])
      tameProperty(prototype, key);
  }
}

/** Everything that can be reached from the globals and from syntax. */
export function freezeReachable(roots: readonly unknown[]): void {
  const seen = new Set<unknown>([globalThis]);
  const queue: unknown[] = [];
  const visit = (value: unknown) => {
    if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return;
    if (seen.has(value)) return;
    seen.add(value);
    queue[queue.length] = value;
  };
  for (let at = 0; at < roots.length; at += 1) visit(roots[at]);
  visit(Object.getPrototypeOf(globalThis));
  for (const key of Reflect.ownKeys(globalThis)) {
    const found = Object.getOwnPropertyDescriptor(globalThis, key);
    if (found !== undefined && 'value' in found) visit(found.value);
  }
  for (let at = 0; at < queue.length; at += 1) {
    const value = queue[at] as object;
    visit(Object.getPrototypeOf(value));
    const keys = Reflect.ownKeys(value);
    for (let each = 0; each < keys.length; each += 1) {
      const found = Object.getOwnPropertyDescriptor(value, keys[each] ?? '');
      if (found === undefined) continue;
      if ('value' in found) visit(found.value);
      visit(found.get);
      visit(found.set);
    }
    Object.freeze(value);
  }
}

/** What only an instance leads to, of what not every engine has. */
export function hiddenPrototypes(): unknown[] {
  const found: unknown[] = [];
  const makers: (() => unknown)[] = [
    () => [].values().map((item) => item),
    () => Iterator.from({ next: () => ({ done: true, value: undefined }) }),
    () => new Intl.Segmenter().segment('a'),
    () => new Intl.Segmenter().segment('a')[Symbol.iterator](),
  ];
  for (let at = 0; at < makers.length; at += 1) {
    try {
      found[found.length] = makers[at]?.();
    } catch {
      // This engine does not have it.
    }
  }
  const stack = Object.getOwnPropertyDescriptor(new Error('x'), 'stack');
  found[found.length] = stack?.get;
  found[found.length] = stack?.set;
  return found;
}

export function hardenRealm(p: Primordials): void {
  const functionPrototypes = [
    Object.getPrototypeOf(() => 0),
    Object.getPrototypeOf(async () => 0),
    Object.getPrototypeOf(function* () {}),
    Object.getPrototypeOf(async function* () {}),
  ];
  const iterators = [
    [][Symbol.iterator](),
    new Map()[Symbol.iterator](),
    new Set()[Symbol.iterator](),
    ''[Symbol.iterator](),
    ''.matchAll(/a/g),
    functionPrototypes[2].prototype,
    functionPrototypes[3].prototype,
    ...hiddenPrototypes(),
  ];
  removeForeignGlobals();
  removeLaterMembers();
  tameStacks();
  blockCodeFromText(functionPrototypes);
  installWeb(p);
  tameOverrides(p);
  freezeReachable([...functionPrototypes, ...iterators]);
  lockGlobals();
}

/** The kernel names built-ins as any program does: nobody may put something else under their names. */
export function lockGlobals(): void {
  for (const key of Reflect.ownKeys(globalThis)) {
    const found = Object.getOwnPropertyDescriptor(globalThis, key);
    if (found === undefined || (found.configurable !== true && found.writable !== true)) continue;
    // With its value, though it stays the same: vm2's global object would otherwise forget it.
    const locked =
      'value' in found
        ? { ...found, writable: false, configurable: false }
        : { ...found, configurable: false };
    Object.defineProperty(globalThis, key, locked);
  }
}
