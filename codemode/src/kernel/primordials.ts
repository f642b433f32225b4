/**
 * Part of the guest kernel: the built-in functions that it uses on the code's values, taken before the code runs.
 *
 * Functions in this folder are sent to the engines as text (`source.ts`): they may name each other and what is
 * passed to them, nothing else of the file they stand in. The host uses the codec too, with its own primordials.
 */
import { regExpReader } from './reg-exp.ts';

export interface Primordials {
  readonly mapForEach: (map: unknown, visit: (value: unknown, key: unknown) => void) => void;
  readonly setForEach: (set: unknown, visit: (value: unknown) => void) => void;
  readonly dateTime: (date: unknown) => number;
  readonly regExpParts: (expression: unknown) => readonly [string, string];
  /** `[object Date]` and the like; may be forged, so what follows it checks again. */
  readonly tagOf: (value: unknown) => string;
  /** `Uint8Array` for one, undefined for what is no typed array; can't be forged. */
  readonly typedArrayName: (value: unknown) => string | undefined;
  readonly bufferBytes: (value: unknown) => Uint8Array;
  readonly typedArrays: ReadonlyMap<string, new (buffer: ArrayBuffer) => ArrayBufferView>;
  readonly objectPrototype: object;
  /** The host's alone: asked now and then while a value is made. @throws where that takes longer than it may */
  readonly watch?: () => void;
}

export function capturePrimordials(): Primordials {
  const uncurry = (method: unknown) =>
    Function.prototype.call.bind(method as () => unknown) as (...args: unknown[]) => never;
  const getter = (owner: object, key: PropertyKey) =>
    uncurry(Object.getOwnPropertyDescriptor(owner, key)?.get);
  const typedPrototype = Object.getPrototypeOf(Uint8Array.prototype);
  const typedArrays = new Map<string, new (buffer: ArrayBuffer) => ArrayBufferView>();
  const constructors = [
    Int8Array,
    Uint8Array,
    Uint8ClampedArray,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    Float32Array,
    Float64Array,
    BigInt64Array,
    BigUint64Array,
    DataView,
  ];
  for (const constructor of constructors) typedArrays.set(constructor.name, constructor);
  const typedBuffer = getter(typedPrototype, 'buffer');
  const typedOffset = getter(typedPrototype, 'byteOffset');
  const typedLength = getter(typedPrototype, 'byteLength');
  const viewBuffer = getter(DataView.prototype, 'buffer');
  const viewOffset = getter(DataView.prototype, 'byteOffset');
  const viewLength = getter(DataView.prototype, 'byteLength');
  const typedTag = getter(typedPrototype, Symbol.toStringTag) as (value: unknown) => string | undefined;
  const isView = ArrayBuffer.isView;
  return {
    mapForEach: uncurry(Map.prototype.forEach),
    setForEach: uncurry(Set.prototype.forEach),
    dateTime: uncurry(Date.prototype.getTime),
    regExpParts: regExpReader(getter),
    tagOf: uncurry(Object.prototype.toString),
    typedArrayName: (value) => (isView(value) ? (typedTag(value) ?? 'DataView') : undefined),
    bufferBytes(value) {
      if (!isView(value)) return new Uint8Array(value as ArrayBuffer);
      if (typedTag(value) === undefined)
        return new Uint8Array(viewBuffer(value), viewOffset(value), viewLength(value));
      return new Uint8Array(typedBuffer(value), typedOffset(value), typedLength(value));
    },
    typedArrays,
    objectPrototype: Object.prototype,
  };
}
