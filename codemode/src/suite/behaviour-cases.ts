/** What ordinary programs may rely on, on every executor alike: the code's forms, values, console, errors, built-ins. */
import assert from 'node:assert/strict';
import { type Case, fails, patience, returns } from './case.ts';

const forms: readonly Case[] = [
  { name: 'code: statements with return', code: 'const a = 1; return a + 1', expect: returns(2) },
  { name: 'code: a bare expression', code: '40 + 2', expect: returns(42) },
  {
    name: 'code: a last expression',
    code: 'const a = [1, 2];\na.map((x) => x * 2)',
    expect: returns([2, 4]),
  },
  { name: 'code: an object in parentheses', code: '({ a: 1 })', expect: returns({ a: 1 }) },
  {
    name: 'code: an async arrow function',
    code: 'async () => { return await Promise.resolve("x") }',
    expect: returns('x'),
  },
  { name: 'code: a sync arrow function', code: '() => 5', expect: returns(5) },
  { name: 'code: a function declaration', code: 'async function main() { return 6 }', expect: returns(6) },
  { name: 'code: declarations and a call', code: 'function f(x) { return x + 1 }\nf(1)', expect: returns(2) },
  { name: 'code: export default', code: 'export default async () => 7', expect: returns(7) },
  { name: 'code: a fence', code: '```javascript\nreturn 8\n```', expect: returns(8) },
  {
    name: 'code: TypeScript',
    code: 'interface A { readonly x: number }\nconst a: A = { x: 9 };\nreturn (a as A).x satisfies number',
    expect: returns(9),
  },
  {
    name: 'code: TypeScript in a fence, as a function',
    code: '```ts\nasync (): Promise<number> => { const n: number = 10; return n; }\n```',
    expect: returns(10),
  },
  { name: 'code: top-level await', code: 'const x = await Promise.resolve(11); x', expect: returns(11) },
  { name: 'code: nothing', code: '', expect: returns(undefined) },
  { name: 'code: a comment at the end', code: 'return 12 // done', expect: returns(12) },
  { name: 'code: a comment after an expression', code: '13 /* done */ // really', expect: returns(13) },
  { name: 'code: no return', code: 'const x = 1;', expect: returns(undefined) },
  {
    name: 'code: enum is refused with advice',
    code: 'enum A { x }\nreturn A.x',
    expect: fails('syntax', /enum/),
  },
  {
    name: 'code: import is refused with advice',
    code: 'import fs from "node:fs"; return fs',
    expect: fails('syntax', /import/),
  },
  {
    name: 'code: a syntax error has a position',
    code: 'return (1 +',
    expect: fails('syntax', /\(\d+:\d+\)/),
  },
  {
    name: 'code: sloppy mode',
    code: 'globalThis.__test = 123; return typeof __test',
    expect: returns('undefined'),
    differs: { executor: 'vm2', why: 'its global object can not be sealed', expect: returns('number') },
  },
  {
    name: 'code: global takes what globalThis does not',
    code: 'global.x = 5; return [global.x, typeof x, global.JSON === JSON]',
    expect: returns([5, 'undefined', true]),
  },
  {
    name: 'input: as a global and as an argument',
    code: 'async (given) => [input.a, given.a, given === input]',
    options: () => ({ input: { a: 1n } }),
    expect: returns([1n, 1n, false]),
  },
];

const values: readonly Case[] = [
  {
    name: 'result: primitives',
    code: 'return ["", "ü\\u{1f600}\\ud800", 0, -1.5, 2 ** 53, true, false, null]',
    expect: returns(['', 'ü\u{1f600}\ud800', 0, -1.5, 2 ** 53, true, false, null]),
  },
  {
    name: 'result: numbers JSON lacks',
    code: 'return [NaN, Infinity, -Infinity, -0]',
    expect: returns([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0]),
  },
  {
    name: 'result: undefined, alone and inside',
    code: 'return { a: undefined, b: [undefined] }',
    expect: returns({ a: undefined, b: [undefined] }),
  },
  {
    name: 'result: BigInt',
    code: 'return [12345678901234567890123n, -1n, 0n]',
    expect: returns([12345678901234567890123n, -1n, 0n]),
  },
  {
    name: 'result: Date',
    code: 'return [new Date(5), new Date(NaN)]',
    expect: returns([new Date(5), new Date(Number.NaN)]),
  },
  {
    name: 'result: Map and Set',
    code: 'return [new Map([["a", 1], [{ k: 1 }, new Set([1, "x"])]]), new Set()]',
    expect: returns([
      new Map<unknown, unknown>([
        ['a', 1],
        [{ k: 1 }, new Set([1, 'x'])],
      ]),
      new Set(),
    ]),
  },
  {
    name: 'result: a cycle, and an object that occurs twice',
    code: 'const a = { n: 1 }; a.self = a; const b = {}; return { a, list: [b, b] }',
    expect: ({ result }) => {
      const { a, list } = result as {
        readonly a: { readonly self: unknown };
        readonly list: readonly unknown[];
      };
      assert.equal(a.self, a);
      assert.equal(list[0], list[1]);
    },
  },
  {
    name: 'result: typed arrays',
    code: 'return [new Uint8Array([1, 2, 255]), new Float64Array([1.5, NaN]), new Uint8Array([1, 2, 3, 4]).subarray(1, 3), new BigInt64Array([-1n])]',
    expect: returns([
      new Uint8Array([1, 2, 255]),
      new Float64Array([1.5, Number.NaN]),
      new Uint8Array([2, 3]),
      new BigInt64Array([-1n]),
    ]),
  },
  {
    name: 'result: ArrayBuffer and DataView',
    code: 'const b = new Uint8Array([9, 8]).buffer; return [b, new DataView(b, 1)]',
    expect: ({ result }) => {
      const [buffer, view] = result as readonly [ArrayBuffer, DataView];
      assert.deepEqual(new Uint8Array(buffer), new Uint8Array([9, 8]));
      assert.equal(view.getUint8(0), 8);
    },
  },
  {
    name: 'result: errors',
    code: 'class MyError extends Error { constructor(m) { super(m); this.name = "MyError" } }\nreturn [new TypeError("t", { cause: 1 }), new MyError("m")]',
    expect: ({ result }) => {
      const [first, second] = result as readonly [Error, Error];
      assert.ok(first instanceof Error && second instanceof Error);
      assert.deepEqual(
        [first.name, first.message, first.cause, second.name, second.message],
        ['TypeError', 't', 1, 'MyError', 'm'],
      );
    },
  },
  { name: 'result: RegExp', code: 'return /a+(b)/gi', expect: returns(/a+(b)/gi) },
  {
    name: 'result: class instances are data',
    code: 'class P { constructor() { this.x = 1 } get y() { return 2 } m() {} }\nreturn new P()',
    expect: returns({ x: 1 }),
  },
  {
    name: 'result: toJSON',
    code: 'return { a: { toJSON() { return { b: 1 } } } }',
    expect: returns({ a: { b: 1 } }),
  },
  {
    name: 'result: holes',
    code: 'const a = []; a[2] = 1; a[5] = undefined; return a',
    expect: ({ result }) => {
      assert.deepEqual(Object.keys(result as object), ['2', '5']);
      assert.equal((result as readonly unknown[]).length, 6);
    },
  },
  {
    name: 'result: a key called __proto__',
    code: 'return JSON.parse(\'{"__proto__":{"x":1},"constructor":2}\')',
    expect: ({ result }) => {
      assert.deepEqual(Object.keys(result as object), ['__proto__', 'constructor']);
      assert.equal(({} as { x?: unknown }).x, undefined);
    },
  },
  {
    name: 'result: a function names its place',
    code: 'return { items: [1, { run() {} }] }',
    expect: fails('serialization', /value\.items\[1\]\.run is a function/),
  },
  { name: 'result: a symbol', code: 'return Symbol("x")', expect: fails('serialization', /symbol/) },
  {
    name: 'result: a forgotten await',
    code: 'return { page: Promise.resolve(1) }',
    expect: fails('serialization', /await it/),
  },
  {
    name: 'result: one hundred thousand deep',
    code: 'let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; return a',
    options: () => ({ limits: { resultBytes: 5_000_000 } }),
    expect: ({ result, error }) => {
      assert.equal(error, undefined);
      let depth = 0;
      for (let at = result as { a?: unknown } | undefined; at?.a !== undefined; at = at.a as { a?: unknown })
        depth += 1;
      assert.equal(depth, 100_000);
    },
  },
  {
    name: 'codec json: what JSON makes of it',
    code: 'return { a: NaN, b: undefined, d: new Date(0), m: new Map([[1, 2]]), f() {}, s: -0 }',
    options: () => ({ codec: 'json' }),
    expect: returns({ a: null, d: '1970-01-01T00:00:00.000Z', m: {}, s: 0 }),
  },
  {
    name: 'codec json: BigInt and cycles are refused',
    code: 'return 1n',
    options: () => ({ codec: 'json' }),
    expect: fails('serialization'),
  },
];

const consoles: readonly Case[] = [
  {
    name: 'logs: absent when nothing is logged',
    code: 'return 1',
    expect: (result) => assert.equal('logs' in result, false),
  },
  {
    name: 'logs: levels',
    code: 'console.log("a"); console.info("b"); console.warn("c"); console.error("d"); console.debug("e")',
    expect: ({ logs }) => assert.deepEqual(logs, ['a', 'b', '[WARN] c', '[ERROR] d', '[DEBUG] e']),
  },
  {
    name: 'logs: values',
    code: 'console.log("x", 1, -0, 1n, null, undefined, true, { a: [1, { b: "c" }] }, () => 1, Symbol("s"))',
    expect: ({ logs }) =>
      assert.deepEqual(logs, ['x 1 -0 1n null undefined true {"a":[1,{"b":"c"}]} [Function] Symbol(s)']),
  },
  {
    name: 'logs: structures',
    code: 'const a = {}; a.a = a; console.log(a, new Map([["k", 1]]), new Set([1]), new Date(0), /x/g, new TypeError("t"), new Uint8Array(3), Promise.resolve())',
    expect: ({ logs }) =>
      assert.deepEqual(logs, [
        '{"a":[Circular]} Map {"k" => 1} Set {1} "1970-01-01T00:00:00.000Z" /x/g TypeError: t [Uint8Array 3 bytes] [Promise]',
      ]),
  },
  {
    name: 'logs: kept when the code throws',
    code: 'console.log("before"); throw new Error("x")',
    expect: ({ logs, error }) => assert.deepEqual([logs, error], [['before'], 'x']),
  },
  {
    name: 'logs: count, assert, dir, table',
    code: 'console.count(); console.count("a"); console.assert(true, "no"); console.assert(false, "yes"); console.dir({ a: 1 }); console.table([1])',
    expect: ({ logs }) =>
      assert.deepEqual(logs, ['default: 1', 'a: 1', '[ERROR] Assertion failed yes', '{"a":1}', '[1]']),
  },
  {
    name: 'output: text and image',
    code: 'text("hello"); text({ a: 1 }); image("AAAA", "image/png"); return 1',
    expect: ({ output }) =>
      assert.deepEqual(output, [
        { type: 'text', text: 'hello' },
        { type: 'text', text: '{"a":1}' },
        { type: 'image', data: 'AAAA', mimeType: 'image/png' },
      ]),
  },
];

const errors: readonly Case[] = [
  {
    name: 'error: name, message and line of the code as it was given',
    code: 'const x = 1;\nfunction inner() {\n  throw new RangeError("far")\n}\ninner()',
    expect: ({ errorInfo }) =>
      assert.deepEqual(
        [errorInfo?.kind, errorInfo?.name, errorInfo?.message],
        ['runtime', 'RangeError', 'far'],
      ),
  },
  {
    name: 'error: the line',
    code: '```ts\nconst x: number = 1;\n\nthrow new Error("here")\n```',
    expect: ({ errorInfo }) => assert.equal(errorInfo?.line, 4),
    differs: {
      executor: 'vm2',
      why: 'it hides where its code failed',
      expect: ({ errorInfo }) => assert.equal(errorInfo?.message, 'here'),
    },
  },
  {
    name: 'error: the line of destructuring, where the engine knows it',
    code: '// one\nconst a = 1;\n\nconst { items } = undefined;\nreturn items',
    expect: ({ errorInfo }) => assert.ok([undefined, 4].includes(errorInfo?.line), `line ${errorInfo?.line}`),
  },
  { name: 'error: a string is thrown', code: 'throw "plain"', expect: fails('runtime', /^plain$/) },
  { name: 'error: null is thrown', code: 'throw null', expect: fails('runtime', /^null$/) },
  { name: 'error: an object is thrown', code: 'throw { code: 5 }', expect: fails('runtime', /\{"code":5\}/) },
  {
    name: 'error: a promise that is rejected and returned',
    code: 'return Promise.reject(new Error("r"))',
    expect: fails('runtime', /^r$/),
  },
  { name: 'error: reading from undefined', code: 'return undefined.x', expect: fails('runtime', /./) },
];

const builtins: readonly Case[] = [
  {
    name: 'idioms: overriding what prototypes have',
    code: `class A extends Error { constructor(m) { super(m); this.name = 'A'; this.message = 'own ' + m; } }
const o = {}; o.toString = () => 'mine'; o.constructor = 1; o.hasOwnProperty = 2; o.valueOf = () => 3;
function F() {} F.prototype.toString = () => 'F!'; F.prototype.constructor = F;
const f = () => 1; f.call = 5;
const m = new Map(); m.get = () => 'own';
const list = []; list.push = () => 'own'; list.toString = () => 'list';
return [new A('x').name, new A('x').message, String(o), o.constructor, o.hasOwnProperty, o + 1, String(new F()), f.call, m.get(), list.push(), String(list)]`,
    expect: returns(['A', 'own x', 'mine', 1, 2, 4, 'F!', 5, 'own', 'own', 'list']),
  },
  {
    name: 'idioms: classes, generators, destructuring, closures',
    code: `class A { #p = 1; static s = 2; get p() { return this.#p } }
class B extends Array { sum() { return this.reduce((a, b) => a + b, 0) } }
function* g() { yield* [1, 2] }
async function* h() { yield 3 }
const seen = []; for await (const x of h()) seen.push(x);
const { a, ...rest } = { a: 1, b: 2 };
return [new A().p, A.s, B.of(1, 2).sum(), [...g()], seen, rest, \`\${a}\`, a ?? 0, rest?.b]`,
    expect: returns([1, 2, 3, [1, 2], [3], { b: 2 }, '1', 1, 2]),
  },
  {
    name: 'idioms: text, numbers, dates, JSON',
    code: `return ["a-b".replaceAll('-', '+'), [3, 1, 2].toSorted().at(-1), Object.groupBy([1, 2, 3], (x) => x % 2 ? 'odd' : 'even').odd, new Date(Date.UTC(2026, 0, 2)).toISOString(), new Date(0).getHours(), JSON.stringify({ a: [1] }, null, 1), parseInt('12px'), (1234.5).toFixed(2), structured()];
function structured() { return [...new Set([1, 1, 2])].length }`,
    expect: returns([
      'a+b',
      3,
      [1, 3],
      '2026-01-02T00:00:00.000Z',
      0,
      '{\n "a": [\n  1\n ]\n}',
      12,
      '1234.50',
      2,
    ]),
  },
  {
    name: 'idioms: Proxy and Reflect',
    code: 'return new Proxy({}, { get: (_, key) => key + "!" }).x',
    expect: returns('x!'),
    differs: { executor: 'vm2', why: 'it has no Proxy', expect: fails('runtime', /Proxy/) },
  },
  {
    name: 'timers: order and arguments',
    code: `const seen = [];
setTimeout((a) => seen.push(a), ${100 * patience}, 'late'); setTimeout((a) => seen.push(a), 1, 'soon');
const cleared = setTimeout(() => seen.push('never'), 5); clearTimeout(cleared);
let n = 0; const every = setInterval(() => { n += 1; if (n === 3) clearInterval(every) }, 1);
queueMicrotask(() => seen.push('micro'));
await new Promise((resolve) => setTimeout(resolve, ${60 * patience}));
while (n < 3 || seen.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
return [seen, n]`,
    expect: returns([['micro', 'soon', 'late'], 3]),
  },
  {
    name: 'timers: a callback that throws ends the run',
    code: 'setTimeout(() => { throw new Error("in a timer") }, 1); await new Promise(() => {})',
    expect: fails('runtime', /in a timer/),
  },
  {
    name: 'random: a seed repeats it',
    code: 'return [Math.random(), Math.random()].map((x) => x >= 0 && x < 1 ? x : "bad")',
    options: () => ({ seed: 7 }),
    expect: returns([0.10175685514695942, 0.9085373149719089]),
  },
  {
    name: 'globals: the same everywhere',
    code: `return Object.getOwnPropertyNames(globalThis).filter((name) => !['Intl', 'Iterator', 'InternalError', 'VMError', 'Proxy', 'Symbol(Symbol.toStringTag)', 'Temporal'].includes(name) && globalThis[name] !== undefined).sort().join(' ')`,
    expect: returns(
      '$mport AbortController AbortSignal AggregateError Array ArrayBuffer BigInt BigInt64Array BigUint64Array Boolean DataView Date Error EvalError Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array JSON Map Math NaN Number Object Promise RangeError ReferenceError Reflect RegExp Set String Symbol SyntaxError TextDecoder TextEncoder TypeError URIError URL URLSearchParams Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakSet atob btoa clearInterval clearTimeout codemode console decodeURI decodeURIComponent encodeURI encodeURIComponent escape eval global globalThis image isFinite isNaN parseFloat parseInt queueMicrotask setInterval setTimeout structuredClone text unescape',
    ),
  },
];

export const behaviourCases: readonly Case[] = [...forms, ...values, ...consoles, ...errors, ...builtins];
