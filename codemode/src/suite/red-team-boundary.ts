/** Attacks on what crosses: results, arguments, names, promises, and what the kernel itself uses. */
import assert from 'node:assert/strict';
import { attempts, type Case, fails, nothingEscaped, patience, returns } from './case.ts';

const tools = () => ({ echo: (x: unknown) => x, secret: () => 'from the host' });

export const boundaryAttacks: readonly Case[] = [
  {
    name: 'B19 a Proxy with every trap as the result',
    code: `const traps = {}; for (const t of ['get', 'has', 'ownKeys', 'getOwnPropertyDescriptor', 'getPrototypeOf']) traps[t] = (...a) => Reflect[t](...a);
return typeof Proxy === 'undefined' ? { x: 1 } : new Proxy({ x: 1 }, traps)`,
    expect: returns({ x: 1 }),
  },
  {
    name: 'B19 a revoked Proxy as the result',
    code: 'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return { proxy }',
    expect: fails(['serialization', 'runtime']),
  },
  {
    name: 'B19 a Proxy whose traps throw',
    code: 'return { p: new Proxy({}, { ownKeys() { throw new Error("trap") }, get() { throw new Error("trap") }, getPrototypeOf() { throw new Error("trap") } }) }',
    expect: fails(['serialization', 'runtime']),
  },
  {
    name: 'B19 lists whose length is a lie',
    code: `if (typeof Proxy === 'undefined') return [[1, 2], [], [], []];
const lie = (length) => new Proxy([1, 2], { get: (list, key) => (key === 'length' ? length : list[key]) });
return [lie({ valueOf: () => 2 }), lie('x'), lie(-5), lie(NaN)]`,
    expect: returns([[1, 2], [], [], []]),
  },
  {
    name: 'B19 a thenable as the result',
    code: 'return { then(resolve) { resolve(5) } }',
    expect: returns(5),
  },
  {
    name: 'B19 a getter that throws',
    code: 'return { get a() { throw new Error("no") } }',
    expect: fails('serialization', /no/),
  },
  {
    name: 'B19 forged tags',
    code: 'return [{ [Symbol.toStringTag]: "Map" }, { [Symbol.toStringTag]: "Date" }, { [Symbol.toStringTag]: "ArrayBuffer" }, Object.create(Date.prototype), Object.create(Error.prototype)].length',
    expect: returns(5),
  },
  {
    name: 'B19 forged tags, carried',
    code: 'class A { get [Symbol.toStringTag]() { return "Map" } } class B { get [Symbol.toStringTag]() { return "Date" } } return [new A(), new B(), Object.create(Map.prototype)]',
    expect: returns([{}, {}, {}]),
  },
  {
    name: 'B19 a RegExp that claims flags',
    code: "const r = Object.defineProperties(/a/g, { flags: { value: 'v' }, unicodeSets: { value: true } }); await codemode.f(r); return r",
    tools: () => ({ f: (given) => assert.equal(String(given), '/a/g') }),
    expect: returns(/a/g),
  },
  {
    name: 'B19 a RegExp that takes long to be made',
    code: `return { list: [new RegExp('\\\\p{L}'.repeat(${4000 / patience}), 'u')] }`,
    expect: fails('serialization', /list\[0\] is a RegExp that is longer than 1024 characters/),
  },
  {
    name: 'B19 values that look like the codec',
    code: 'return [["r", 0], ["u"], ["n", "NaN"], ["o", "a", 1], { encodeFailure: "x" }, "[\\"r\\",0]"]',
    expect: returns([['r', 0], ['u'], ['n', 'NaN'], ['o', 'a', 1], { encodeFailure: 'x' }, '["r",0]']),
  },
  {
    name: 'B19 an array with methods of its own',
    code: 'const a = [1]; a.toJSON = () => "forged"; a.map = 1; return [a, Object.assign([2], { length: 1 })]',
    expect: returns([[1], [2]]),
  },
  {
    name: 'B19 a class that extends Map and lies',
    code: 'class M extends Map { forEach() { throw new Error("own") } get size() { return 9 } }; return new M([[1, 2]])',
    expect: returns(new Map([[1, 2]])),
  },
  {
    name: 'B20 strange things are thrown',
    code: 'throw Object.defineProperty(new Error("x"), "message", { get() { throw new Error("again") } })',
    expect: fails('runtime', /^$|./),
  },
  {
    name: 'B20 an error whose name is a symbol and whose stack is an object',
    code: 'const e = new Error("kept"); e.name = Symbol("n"); Object.defineProperty(e, "stack", { value: {} }); throw e',
    expect: fails('runtime', /kept/),
  },
  {
    name: 'B20 undefined and a symbol',
    code: 'try { throw undefined } catch (e) { throw Symbol("s") }',
    expect: fails('runtime', /Symbol\(s\)/),
  },
  {
    name: 'B20 a Proxy that refuses everything',
    code: 'throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 }, ownKeys() { throw 3 } })',
    expect: fails('runtime'),
  },
  {
    name: 'B21 arguments that can not be sent are errors of the call',
    tools,
    code: 'const out = []; for (const a of [() => 1, Symbol("x"), { get x() { throw new TypeError("own") } }, Promise.resolve()]) try { await codemode.echo(a); out.push("sent") } catch (e) { out.push(e instanceof TypeError) } return out',
    expect: returns([true, true, true, true]),
  },
  {
    name: 'B22 no inherited function of a namespace, no name of another',
    tools,
    code: attempts(
      'codemode.constructor("x")',
      'codemode.toString()',
      'codemode.hasOwnProperty("echo")',
      'codemode.__proto__',
      'codemode.then',
      'codemode["echo.constructor"]',
      'codemode.__defineGetter__("x", () => 1)',
      'Object.getPrototypeOf(codemode) ?? undefined',
      'codemode.echo.prototype',
      'new codemode.echo()',
      'codemode.valueOf()',
      '`${codemode}`',
    ),
    expect: nothingEscaped,
  },
  {
    name: 'B24 replacing what is locked',
    everywhere: true,
    tools,
    code: `const outcomes = []; const trial = (f) => { try { outcomes.push(f() ? 'undefined' : 'undefined') } catch { outcomes.push('blocked') } };
const original = codemode.echo;
trial(() => { codemode.echo = () => 'hijacked' }); trial(() => { 'use strict'; codemode.echo = () => 'hijacked' }); trial(() => { delete codemode.echo });
trial(() => Object.defineProperty(codemode, 'echo', { value: () => 'hijacked' })); trial(() => { codemode.fresh = 1 }); trial(() => { globalThis.codemode = {} });
trial(() => Object.defineProperty(globalThis, 'codemode', { value: {} })); trial(() => { delete globalThis.codemode }); trial(() => { console.log = () => {} });
trial(() => { globalThis.console = {} }); trial(() => Object.setPrototypeOf(codemode, { x: 1 })); trial(() => { codemode.echo.call = () => 'hijacked' });
if (codemode.echo !== original || codemode.fresh !== undefined || codemode.x !== undefined || await codemode.echo(3) !== 3) outcomes.push('escaped');
return outcomes`,
    expect: nothingEscaped,
  },
  {
    name: 'B24 replacing what the kernel could use',
    everywhere: true,
    tools,
    code: `const hijack = (o, k, v) => { try { o[k] = v } catch {} try { Object.defineProperty(o, k, { value: v, configurable: true }) } catch {} };
const evil = () => { throw new Error('hijacked') };
for (const [o, keys] of [[Map.prototype, ['get', 'set', 'delete', 'has', 'forEach']], [Set.prototype, ['add', 'has']], [Array.prototype, ['push', 'map', 'join', 'slice', 'pop', 'includes', Symbol.iterator]], [Promise.prototype, ['then', 'catch']], [JSON, ['stringify', 'parse']], [Object, ['keys', 'entries', 'defineProperty', 'freeze', 'getPrototypeOf', 'hasOwn']], [Reflect, ['apply', 'ownKeys']], [Object.prototype, ['toJSON', 'then', 'get', 'set', 'value', '0', 'kind', 'encodeFailure']], [Array.prototype, ['0', '1', 'toJSON']], [String.prototype, ['slice', 'split', 'charCodeAt', Symbol.iterator]], [Number, ['parseInt']], [Function.prototype, ['call', 'apply', 'bind', Symbol.hasInstance]], [Error, [Symbol.hasInstance, 'prototype']], [RegExp.prototype, ['test', 'exec']], [Date.prototype, ['getTime']], [globalThis, ['JSON', 'Map', 'Promise', 'Object', 'Array', 'Error', 'Reflect', 'String', 'Number', 'undefined', 'NaN']], [Promise, ['resolve', Symbol.species]], [Array, [Symbol.species, 'isArray']]])
  for (const key of keys) hijack(o, key, evil);
console.log('still', [1, { a: 2 }]);
return [await codemode.echo(new Map([[1, [2]]])), await codemode.secret(), { ok: true }]`,
    expect: ({ result, logs, error }) => {
      assert.equal(error, undefined);
      assert.deepEqual(result, [new Map([[1, [2]]]), 'from the host', { ok: true }]);
      assert.deepEqual(logs, ['still [1,{"a":2}]']);
    },
  },
  {
    name: 'B25 a Promise subclass with a species',
    tools,
    code: 'class P extends Promise { static get [Symbol.species]() { return Promise } then(a, b) { return super.then(a, b) } }; return await P.resolve(codemode.echo(1)).then((x) => x + 1)',
    expect: returns(2),
  },
  {
    name: 'B25 a thenable that answers twice and throws',
    code: 'return await { then(yes, no) { yes(1); yes(2); no(3); throw 4 } }',
    expect: returns(1),
  },
  {
    name: 'B25 a promise that resolves with itself',
    code: 'let r; const p = new Promise((resolve) => { r = resolve }); r(p); await p',
    expect: fails('runtime', /cycle|itself|resol/i),
  },
  {
    name: 'H5 accessors of the code run in its own realm only',
    tools,
    code: `let ran = 0; const value = { get x() { ran += 1; return ran } };
await codemode.echo(value); console.log(value); return [value.x >= 2, ran]`,
    expect: ({ result }) => assert.deepEqual((result as readonly unknown[])[0], true),
  },
];
