/** Which built-ins a program finds: the same on every engine, ES2025, what all of them have beside it, and what the kernel has of the web. */
import assert from 'node:assert/strict';
import { type Case, returns } from './case.ts';

/** By constructor or namespace, its own members and, behind `#`, those of its prototype. */
export const members: readonly string[] = [
  'AbortController#: abort constructor signal',
  'AbortSignal: abort any timeout',
  'AbortSignal#: aborted addEventListener constructor reason removeEventListener throwIfAborted',
  'AggregateError#: constructor message',
  'Array: from fromAsync isArray of',
  'Array#: at concat constructor copyWithin entries every fill filter find findIndex findLast findLastIndex flat flatMap forEach includes indexOf join keys lastIndexOf map pop push reduce reduceRight reverse shift slice some sort splice toLocaleString toReversed toSorted toSpliced toString unshift values with',
  'ArrayBuffer: isView',
  'ArrayBuffer#: byteLength constructor detached maxByteLength resizable resize slice transfer transferToFixedLength',
  'BigInt: asIntN asUintN',
  'BigInt#: constructor toString valueOf',
  'BigInt64Array: BYTES_PER_ELEMENT',
  'BigInt64Array#: BYTES_PER_ELEMENT constructor',
  'BigUint64Array: BYTES_PER_ELEMENT',
  'BigUint64Array#: BYTES_PER_ELEMENT constructor',
  'Boolean#: constructor toString valueOf',
  'DataView#: buffer byteLength byteOffset constructor getBigInt64 getBigUint64 getFloat16 getFloat32 getFloat64 getInt16 getInt32 getInt8 getUint16 getUint32 getUint8 setBigInt64 setBigUint64 setFloat16 setFloat32 setFloat64 setInt16 setInt32 setInt8 setUint16 setUint32 setUint8',
  'Date: UTC now parse',
  'Date#: constructor getDate getDay getFullYear getHours getMilliseconds getMinutes getMonth getSeconds getTime getTimezoneOffset getUTCDate getUTCDay getUTCFullYear getUTCHours getUTCMilliseconds getUTCMinutes getUTCMonth getUTCSeconds getYear setDate setFullYear setHours setMilliseconds setMinutes setMonth setSeconds setTime setUTCDate setUTCFullYear setUTCHours setUTCMilliseconds setUTCMinutes setUTCMonth setUTCSeconds setYear toDateString toGMTString toISOString toJSON toLocaleDateString toLocaleString toLocaleTimeString toString toTimeString toUTCString valueOf',
  'Error: isError prepareStackTrace stackTraceLimit',
  'Error#: constructor message toString',
  'EvalError#: constructor message',
  'Float32Array: BYTES_PER_ELEMENT',
  'Float32Array#: BYTES_PER_ELEMENT constructor',
  'Float64Array: BYTES_PER_ELEMENT',
  'Float64Array#: BYTES_PER_ELEMENT constructor',
  'Function#: apply bind call constructor toString',
  'Int16Array: BYTES_PER_ELEMENT',
  'Int16Array#: BYTES_PER_ELEMENT constructor',
  'Int32Array: BYTES_PER_ELEMENT',
  'Int32Array#: BYTES_PER_ELEMENT constructor',
  'Int8Array: BYTES_PER_ELEMENT',
  'Int8Array#: BYTES_PER_ELEMENT constructor',
  'Iterator: from',
  'Iterator#: constructor drop every filter find flatMap forEach map reduce some take toArray',
  'JSON: isRawJSON parse rawJSON stringify',
  'Map: groupBy',
  'Map#: clear constructor delete entries forEach get has keys set size values',
  'Math: E LN10 LN2 LOG10E LOG2E PI SQRT1_2 SQRT2 abs acos acosh asin asinh atan atan2 atanh cbrt ceil clz32 cos cosh exp expm1 f16round floor fround hypot imul log log10 log1p log2 max min pow random round sign sin sinh sqrt tan tanh trunc',
  'Number: EPSILON MAX_SAFE_INTEGER MAX_VALUE MIN_SAFE_INTEGER MIN_VALUE NEGATIVE_INFINITY NaN POSITIVE_INFINITY isFinite isInteger isNaN isSafeInteger parseFloat parseInt',
  'Number#: constructor toExponential toFixed toLocaleString toPrecision toString valueOf',
  'Object: assign create defineProperties defineProperty entries freeze fromEntries getOwnPropertyDescriptor getOwnPropertyDescriptors getOwnPropertyNames getOwnPropertySymbols getPrototypeOf groupBy hasOwn is isExtensible isFrozen isSealed keys preventExtensions seal setPrototypeOf values',
  'Object#: __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ __proto__ constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf',
  'Promise: all allSettled any race reject resolve try withResolvers',
  'Promise#: catch constructor finally then',
  'Proxy: revocable',
  'RangeError#: constructor message',
  'ReferenceError#: constructor message',
  'Reflect: apply construct defineProperty deleteProperty get getOwnPropertyDescriptor getPrototypeOf has isExtensible ownKeys preventExtensions set setPrototypeOf',
  'RegExp: escape',
  'RegExp#: compile constructor dotAll exec flags global hasIndices ignoreCase multiline source sticky test toString unicode unicodeSets',
  'Set#: add clear constructor delete difference entries forEach has intersection isDisjointFrom isSubsetOf isSupersetOf keys size symmetricDifference union values',
  'String: fromCharCode fromCodePoint raw',
  'String#: anchor at big blink bold charAt charCodeAt codePointAt concat constructor endsWith fixed fontcolor fontsize includes indexOf isWellFormed italics lastIndexOf link localeCompare match matchAll normalize padEnd padStart repeat replace replaceAll search slice small split startsWith strike sub substr substring sup toLocaleLowerCase toLocaleUpperCase toLowerCase toString toUpperCase toWellFormed trim trimEnd trimLeft trimRight trimStart valueOf',
  'Symbol: asyncDispose asyncIterator dispose for hasInstance isConcatSpreadable iterator keyFor match matchAll replace search species split toPrimitive toStringTag unscopables',
  'Symbol#: constructor description toString valueOf',
  'SyntaxError#: constructor message',
  'TextDecoder#: constructor decode encoding fatal ignoreBOM',
  'TextEncoder#: constructor encode encodeInto encoding',
  'TypeError#: constructor message',
  'URIError#: constructor message',
  'URL: canParse parse',
  'URL#: constructor hash host hostname href origin password pathname port protocol search searchParams toJSON toString username',
  'URLSearchParams#: append constructor delete entries forEach get getAll has keys set size sort toString values',
  'Uint16Array: BYTES_PER_ELEMENT',
  'Uint16Array#: BYTES_PER_ELEMENT constructor',
  'Uint32Array: BYTES_PER_ELEMENT',
  'Uint32Array#: BYTES_PER_ELEMENT constructor',
  'Uint8Array: BYTES_PER_ELEMENT',
  'Uint8Array#: BYTES_PER_ELEMENT constructor',
  'Uint8ClampedArray: BYTES_PER_ELEMENT',
  'Uint8ClampedArray#: BYTES_PER_ELEMENT constructor',
  'WeakMap#: constructor delete get has set',
  'WeakSet#: add constructor delete has',
  '%TypedArray%: from of',
  '%TypedArray%#: at buffer byteLength byteOffset constructor copyWithin entries every fill filter find findIndex findLast findLastIndex forEach includes indexOf join keys lastIndexOf map reduce reduceRight reverse set slice some sort subarray toLocaleString toReversed toSorted toString values with',
  '%ArrayIterator%#: next',
  '%Generator%#: constructor next return throw',
  '%AsyncGenerator%#: constructor next return throw',
];

/** Engines put these elsewhere or inherit them, and behave alike. */
const exceptions = ['InternalError', 'Intl', 'Error#.stack', 'BigInt#.toLocaleString'];

const program = `const lines = [];
const exceptions = ${JSON.stringify(exceptions)};
const own = (place, owner) => {
  const keys = Reflect.ownKeys(owner).filter((key) => typeof key === 'string' && !/^(length|name|prototype|arguments|caller)$/.test(key) && !exceptions.includes(place + '.' + key));
  if (keys.length > 0) lines.push(place + ': ' + keys.sort().join(' '));
};
const both = (name, value) => { own(name, value); if (value.prototype) own(name + '#', value.prototype) };
for (const name of Object.getOwnPropertyNames(globalThis).sort()) {
  if (exceptions.includes(name) || !/^[A-Z]/.test(name)) continue;
  const value = globalThis[name];
  if (typeof value === 'function' || (typeof value === 'object' && value !== null)) both(name, value);
}
both('%TypedArray%', Object.getPrototypeOf(Int8Array));
own('%ArrayIterator%#', Object.getPrototypeOf([].values()));
own('%Generator%#', Object.getPrototypeOf(function* () {}).prototype);
own('%AsyncGenerator%#', Object.getPrototypeOf(async function* () {}).prototype);
return lines;`;

export const editionCases: readonly Case[] = [
  {
    name: 'built-ins: the same everywhere',
    code: program,
    expect: ({ error, result }) => {
      assert.equal(error, undefined);
      assert.deepEqual(result, members);
    },
    differs: {
      executor: 'vm2',
      why: 'its Promise inherits from the engine’s, and it has no Proxy',
      expect: ({ error, result }) => {
        assert.equal(error, undefined);
        const rest = (lines: readonly string[]) => lines.filter((line) => !/^(?:Promise|Proxy)/.test(line));
        assert.deepEqual(rest(result as readonly string[]), rest(members));
      },
    },
  },
  {
    name: 'built-ins: URLs, texts, clones and signals',
    code: `const url = new URL('../b c?x=1&y=ä#h', 'https://User@EXAMPLE.com:443/a/d/');
url.searchParams.append('z', '2 3');
const bytes = new TextEncoder().encode('ü€😀');
const given = { map: new Map([[1n, new Date(5)]]), list: [, 1] };
given.self = given;
const copy = structuredClone(given);
const controller = new AbortController();
const heard = [];
controller.signal.addEventListener('abort', (event) => heard.push(event.type), { once: true });
const any = AbortSignal.any([controller.signal, AbortSignal.timeout(60000)]);
controller.abort();
const late = AbortSignal.timeout(1);
await new Promise((settle) => late.addEventListener('abort', settle));
let refused = '';
try { structuredClone({ f() {} }) } catch (error) { refused = error.name }
return [url.href, [...url.searchParams.keys()], URL.canParse('/x'), [...bytes], new TextDecoder().decode(bytes), copy.self === copy && copy !== given && copy.map.get(1n).getTime(), 0 in copy.list, refused, atob(btoa('\\xff\\0')) === '\\xff\\0', heard, any.aborted, any.reason.name, late.reason.name, String(new URLSearchParams({ a: 'ü +' })), Object.prototype.toString.call(url)]`,
    expect: returns([
      'https://User@example.com/a/b%20c?x=1&y=%C3%A4&z=2+3#h',
      ['x', 'y', 'z'],
      false,
      [195, 188, 226, 130, 172, 240, 159, 152, 128],
      'ü€😀',
      5,
      false,
      'DataCloneError',
      true,
      ['abort'],
      true,
      'AbortError',
      'TimeoutError',
      'a=%C3%BC+%2B',
      '[object URL]',
    ]),
  },
];
