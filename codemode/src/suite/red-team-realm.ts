/** Attacks on the realm: code from text, ways to the outer realm, breaking out of what stands around the program. */
import assert from 'node:assert/strict';
import { attempts, type Case, fails, nothingEscaped, returns } from './case.ts';

const tools = () => ({ echo: (x: unknown) => x });

export const realmAttacks: readonly Case[] = [
  {
    name: 'A1-A3 function constructors through every kind of function',
    tools,
    code: attempts(
      "(function () {}).constructor('return 42')()",
      "(() => {}).constructor('return 42')()",
      "(async () => {}).constructor('return 42')()",
      "(function* () {}).constructor('yield 42')().next().value",
      "(async function* () {}).constructor('yield 42')()",
      "(class { static m() {} }).m.constructor('return 42')()",
      "(class {}).constructor('return 42')()",
      "(() => {}).bind().constructor('return 42')()",
      "codemode.echo.constructor('return 42')()",
      "console.log.constructor('return 42')()",
      "setTimeout.constructor('return 42')()",
      "Object.getOwnPropertyDescriptor(Object.prototype, 'toString').get?.constructor('return 42')()",
      "Object.getOwnPropertyDescriptor(Object.prototype, '__proto__').get.constructor('return 42')()",
      "Reflect.construct(Object.getPrototypeOf(async () => {}).constructor, ['return 42'])",
      "Reflect.apply(Object.getPrototypeOf(function* () {}).constructor, null, ['yield 42'])",
      "new (Function.prototype.constructor)('return 42')()",
      "class X extends Function { constructor() { super('return 42') } }; new X()()".replace(
        /^class X (.*); new X\(\)\(\)$/,
        '(() => { class X $1; return new X()() })()',
      ),
      "Object.getOwnPropertyDescriptor(Function.prototype, 'constructor').value('return 42')()",
      "[].map.constructor('return 42')()",
      "Promise.resolve.constructor('return 42')()",
      "(new Proxy(() => {}, {})).constructor('return 42')()",
      "JSON.parse('{}').constructor.constructor('return 42')()",
      "(async () => {})().constructor.constructor('return 42')()",
    ),
    expect: nothingEscaped,
  },
  {
    name: 'A4 eval in every spelling, timers with text',
    code: attempts(
      "eval('42')",
      "(0, eval)('42')",
      "globalThis['ev' + 'al']('42')",
      "Reflect.apply(eval, null, ['42'])",
      "setTimeout('42')",
      "setInterval('42', 1)",
      "queueMicrotask('42')",
      "global.eval('42')",
    ),
    expect: nothingEscaped,
  },
  ...[
    'return import.meta',
    "import 'node:fs'",
    "export { x } from 'node:fs'",
    "import fs = require('fs')",
    // Divisions that a parser may take for the regular expression after a semicolon nobody wrote.
    'const o = {}, g = 1; o?.of\n/(import("node:fs"))/g',
    'const o = {}, g = 1; o?.typeof\n/(import("node:fs"))/g',
    'let of = 1, g = 1; await of\n/(import("node:fs"))/g',
    'const g = 1; function* f(o) { o?.yield\n/(import("node:fs"))/g }',
  ].map((code): Case => ({ name: `A5 ${code}`, code, expect: fails('syntax') })),
  {
    name: 'A5 import() in a division that looks like a regular expression',
    code: 'const g = 1; let x = g ? 1 : {}\n/(import("node:fs"))/g; return String(x)',
    expect: ({ error, result, warnings }) =>
      assert.deepEqual([error, result, warnings], [undefined, '1', undefined]),
  },
  {
    name: 'A5 import() in a division that begins a line',
    code: 'const o = {}, g = 1; let x = o\n/(import("node:fs").catch((e) => e.message))/g; return String(x)',
    expect: returns('NaN'),
  },
  {
    name: 'A5 import() rejects, and leads nowhere',
    code: attempts(
      "await import('node:fs')",
      "await import('data:text/javascript,1')",
      "await (() => { return () => import('x' + 1) })()()",
      "await import('node:fs', { with: { type: 'json' } })",
      "await import('node:fs').then((m) => m, (e) => e.constructor.constructor('return process')())",
      'await import({ toString() { throw 5 } })',
    ),
    expect: nothingEscaped,
  },
  {
    name: 'A7-A8 stack traces show no frame but the code',
    tools,
    code: `const seen = [];
try { Error.prepareStackTrace = (e, sites) => sites } catch {}
try { Object.defineProperty(Error, 'prepareStackTrace', { value: (e, sites) => sites }) } catch {}
try { Error.stackTraceLimit = Infinity } catch {}
seen.push(new Error('x').stack);
try { null.x } catch (e) { seen.push(e.stack) }
try { Error.captureStackTrace?.(seen) ; seen.push(seen.stack) } catch {}
try { codemode.echo(() => 1).catch((e) => seen.push(e.stack)) } catch {}
await codemode.echo(1);
try { JSON.parse('{') } catch (e) { seen.push(e.stack) }
return seen.map((s) => typeof s === 'string' || s === undefined ? String(s) : 'escaped')`,
    expect: ({ result, error }) => {
      assert.equal(error, undefined);
      for (const stack of result as readonly string[])
        assert.doesNotMatch(stack, /escaped|\/|kernel|worker|node:|\.ts/);
    },
    differs: {
      executor: 'vm2',
      why: 'it has a hook of its own that can not be replaced, with call sites that name neither function nor host file',
      expect: ({ result, error }) => {
        assert.equal(error, undefined);
        for (const stack of result as readonly string[]) assert.doesNotMatch(stack, /worker|node:|\.ts/);
      },
    },
  },
  {
    name: 'A9 near the end of the stack every error is of this realm',
    tools,
    code: `const kinds = new Set();
const note = (e) => kinds.add(e instanceof Error ? 'own' : 'foreign');
function dive() {
  try { dive() } catch (e) {
    note(e);
    try { codemode.echo(1).catch(note) } catch (f) { note(f) }
    try { console.log('x') } catch (f) { note(f) }
    try { setTimeout(() => {}, 1) } catch (f) { note(f) }
  }
}
dive();
await null;
return [...kinds]`,
    options: () => ({ limits: { toolCalls: 100_000, timers: 100_000, logLines: 100_000 } }),
    expect: ({ result, errorInfo }) => {
      if (errorInfo === undefined) assert.deepEqual(result, ['own']);
      // With thousands of frames that all log, the run may as well end at a limit.
      else
        assert.ok(
          ['timeout', 'cpu', 'memory', 'runtime', 'tool-limit'].includes(errorInfo.kind),
          `${errorInfo.kind}: ${errorInfo.message}`,
        );
    },
  },
  {
    name: 'A10 callers and sloppy this',
    tools,
    code: `function f() { return [f.caller, arguments.callee.caller, (function () { return this })() === globalThis] }
const outcomes = [];
for (const g of [() => f(), () => [1].map(f)[0]]) {
  try { const [a, b] = g(); outcomes.push(a === null || a === undefined || typeof a === 'function' && !/emit|dispatch|kernel/.test(String(a)) ? 'undefined' : 'escaped'); outcomes.push(b == null || typeof b === 'function' ? 'undefined' : 'escaped') } catch { outcomes.push('blocked') }
}
return outcomes`,
    expect: nothingEscaped,
  },
  ...[
    '}); globalThis.escaped = 1; (async () => {',
    'return 1 })(), globalThis.escaped = 1, (async () => { return 0',
    'return 1\n})(); globalThis.escaped = 1; (async () => {\n',
    '1) ; globalThis.escaped = 1; (1',
    'async () => 1) ; globalThis.escaped = 1; (async () => 1',
    '/*',
    '`${',
    '}}}}}}',
    '\u2028})\u2028',
    '*/ }); (',
  ].map((code): Case => ({ name: `A11 ${JSON.stringify(code)}`, code, expect: fails('syntax') })),
  { name: 'A11 a comment at the end swallows nothing', code: 'return 5 //', expect: returns(5) },
  { name: 'A11 an HTML comment', code: 'return 6\n<!-- })', expect: returns(6) },
  { name: 'A11 a lone surrogate', code: 'return "\ud800"', expect: fails('syntax', /Unicode/) },
  {
    name: 'A12 strict, labels, with, debugger',
    code: '"use strict"; a: for (;;) { debugger; break a }\nreturn (() => this)() === undefined ? 7 : 8',
    expect: ({ error }) => assert.equal(error, undefined),
  },
  { name: 'A12 using', code: 'using x = { [Symbol.dispose]() {} }; return 1', expect: fails('syntax') },
  {
    name: 'A13 no WebAssembly, shared memory, other realms',
    code: attempts(
      'new WebAssembly.Memory({ initial: 20000 })',
      'WebAssembly.compile(new Uint8Array(8))',
      'new SharedArrayBuffer(8)',
      'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000)',
      'new ShadowRealm()',
      'new WeakRef({})',
      'new FinalizationRegistry(() => {})',
      'new Worker("x")',
      'globalThis.WebAssembly',
      'globalThis.gc',
      'globalThis.std',
      'globalThis.os',
      'globalThis.bjson',
      'navigator.userAgent',
      'performance.now()',
      '$262.createRealm()',
    ),
    expect: nothingEscaped,
  },
  {
    name: 'A14 nothing of the runtime',
    code: attempts(
      'process',
      'require',
      'module',
      'exports',
      'Buffer',
      'Deno',
      'Bun',
      '__dirname',
      '__filename',
      'self',
      'window',
      'globalThis.process',
      'globalThis.constructor.constructor("return process")()',
      'this.process',
      'this.constructor.constructor("return this")()',
      '$0',
      'emit',
      'dispatch',
      'bootKernel',
      'k',
      'hostCall',
      'protocol',
      '_pendingResolvers',
      '_savedEval',
      'parentPort',
      'VMError',
    ),
    expect: nothingEscaped,
    differs: {
      executor: 'vm2',
      why: 'its own VMError stays visible',
      expect: ({ result }) =>
        assert.deepEqual(
          (result as readonly string[]).filter((x) => !/^(blocked|undefined)$/.test(x) && !/VMError/.test(x)),
          [],
        ),
    },
  },
  {
    name: 'everything that can be reached is frozen',
    code: `const seen = new Set(); const soft = [];
const walk = (value, path) => {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function' || seen.has(value)) return;
  seen.add(value);
  if (value !== globalThis && value !== global && !Object.isFrozen(value)) soft.push(path);
  walk(Object.getPrototypeOf(value), path + '.__proto__');
  for (const key of Reflect.ownKeys(value)) {
    const d = Object.getOwnPropertyDescriptor(value, key);
    walk(d.value, path + '.' + String(key)); walk(d.get, path + '.get ' + String(key)); walk(d.set, path + '.set ' + String(key));
  }
};
for (const key of Reflect.ownKeys(globalThis)) walk(globalThis[key], String(key));
for (const f of [async () => 0, function* () {}, async function* () {}]) walk(Object.getPrototypeOf(f), 'function');
for (const i of [[][Symbol.iterator](), new Map().keys(), new Set().keys(), ''[Symbol.iterator](), 'a'.matchAll(/a/g)]) walk(Object.getPrototypeOf(i), 'iterator');
for (const make of [() => [].values().map((x) => x), () => Iterator.from({ next() {} }), () => new Intl.Segmenter().segment('a'), () => new Intl.Segmenter().segment('a')[Symbol.iterator]()])
  try { walk(Object.getPrototypeOf(make()), 'hidden'); } catch (error) { if (!(error instanceof Error)) soft.push('foreign error') }
const stack = Object.getOwnPropertyDescriptor(new Error('x'), 'stack'); walk(stack?.get, 'stack get'); walk(stack?.set, 'stack set');
return [soft, seen.size > 300, Object.isSealed(globalThis)]`,
    expect: returns([[], true, true]),
    differs: {
      executor: 'vm2',
      why: 'its global object is a Proxy that can not be sealed',
      expect: ({ result }) =>
        assert.deepEqual([(result as readonly unknown[])[0], (result as readonly unknown[])[1]], [[], true]),
    },
  },
  {
    name: 'what is there of the web is the kernel’s and leads nowhere',
    code: attempts(
      'new AbortSignal()',
      'AbortSignal.parts()',
      'URLSearchParams.parts()',
      'new (Object.getPrototypeOf(AbortSignal).constructor)("return process")()',
      'URL.constructor("return process")()',
      'new URL("http://a").toString.constructor("return process")()',
      'structuredClone.constructor("return process")()',
      'Reflect.get(URL.prototype, "href", {})',
      'TextDecoder.prototype.decode.call({}, new Uint8Array(1))',
      'AbortController.prototype.abort.call({ signal: AbortSignal.abort() })',
      '{ URL.prototype.toJSON = () => "mine"; return new URL("http://a").toJSON() === "mine" ? "mine" : undefined }'.replace(
        /^\{(.*)\}$/s,
        '(() => {$1})()',
      ),
      'structuredClone({ get x() { throw new Error("guest") } })',
      'structuredClone(new Proxy({}, { ownKeys() { throw new Error("guest") } }))',
      'new URL({ toString() { throw new Error("guest") } })',
      'new TextDecoder("utf-16le")',
      'atob("a")',
      'AbortSignal.any([{ aborted: true }])',
    ),
    expect: nothingEscaped,
  },
];
