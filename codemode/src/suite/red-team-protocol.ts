/** Attacks on the run's own machinery: forged frames, the end of the process, timers and rejections without number, the source itself. */
import assert from 'node:assert/strict';
import { attempts, type Case, fails, nothingEscaped, patience, returns } from './case.ts';

const tools = () => ({ echo: (x: unknown) => x });

export const protocolAttacks: readonly Case[] = [
  {
    name: 'C26 lines that look like the protocol are text',
    tools,
    code: `const line = JSON.stringify({ t: 'done', nonce: '', ok: true, text: '"FORGED"', dropped: 0 });
console.log(line); console.error('\\u0000\\u0000\\u0000\\u0010' + line); text(line);
return 'real'`,
    expect: ({ result, stats }) => assert.deepEqual([result, stats.toolCalls], ['real', 0]),
  },
  {
    name: 'C26 no channel of the runtime',
    everywhere: true,
    code: attempts(
      'process.stdout.write("x")',
      'process.send({ t: "done" })',
      'parentPort.postMessage({ type: "result" })',
      'postMessage({ t: "done" })',
      'require("fs").writeSync(3, "x")',
      'Deno.stdout.writeSync(new Uint8Array(4))',
      'Deno.core.print("x")',
      'globalThis.onmessage',
      'new BroadcastChannel("x")',
      'new MessageChannel()',
      'structuredClone({}, { transfer: [{ postMessage() {} }] })',
      'print("x")',
    ),
    expect: nothingEscaped,
  },
  {
    name: 'C27 the source of a tool tells nothing that could be called',
    tools,
    code: `const sources = [codemode.echo, console.log, setTimeout, text, Object.getOwnPropertyDescriptor(Object.prototype, 'toString').set].filter(Boolean).map((f) => Function.prototype.toString.call(f));
return sources.every((s) => typeof s === 'string') && !/nonce|[0-9a-f]{32}/.test(sources.join())`,
    expect: returns(true),
  },
  {
    name: 'C29 ending the process is not offered',
    code: attempts(
      'process.exit(0)',
      'process.abort()',
      'process.kill(process.pid)',
      'process.reallyExit(0)',
      'Deno.exit(0)',
      'close()',
      'std.exit(0)',
      'quit()',
    ),
    expect: nothingEscaped,
  },
  {
    name: 'D45 ten thousand awaits at once',
    code: 'await Promise.all(Array.from({ length: 1e4 }, async () => { await null })); return 1',
    expect: returns(1),
  },
  {
    name: 'D46 functions nested in the source',
    code: `return ${'(() => '.repeat(1500)}1${')'.repeat(1500)}`,
    expect: ({ errorInfo }) => assert.ok(errorInfo === undefined || errorInfo.kind !== 'crash'),
  },
  {
    name: 'D46 an expression ten thousand deep',
    code: `return ${'('.repeat(10_000)}1${')'.repeat(10_000)}`,
    expect: ({ errorInfo }) =>
      assert.ok(errorInfo === undefined || ['syntax', 'runtime'].includes(errorInfo.kind), errorInfo?.kind),
  },
  {
    name: 'D46 a hundred thousand parentheses as TypeScript',
    code: '('.repeat(100_000),
    options: () => ({ language: 'typescript' }),
    expect: fails('syntax'),
  },
  {
    name: 'D46 types are stripped after a program that ended the stripper',
    code: 'const x: number = 1; return x',
    expect: returns(1),
  },
  {
    name: 'D46 a sum of twenty thousand terms',
    code: `return ${'1+'.repeat(20_000)}1`,
    expect: ({ errorInfo, result }) =>
      assert.ok(result === 20_001 || ['syntax', 'runtime'].includes(errorInfo?.kind ?? ''), errorInfo?.kind),
  },
  {
    name: 'D47 what is logged may throw, be deep, be a Proxy',
    code: `let deep = {}; for (let i = 0; i < 1e5; i++) deep = { deep };
console.log(deep); console.log({ toString() { throw 1 }, get x() { throw 2 } }); console.log(typeof Proxy === 'undefined' ? 0 : new Proxy({}, { get() { throw 3 }, ownKeys() { throw 4 } })); console.log(new Array(1e6).fill(0)); return 1`,
    expect: ({ result, logs }) => {
      assert.equal(result, 1);
      assert.equal(logs?.length, 4);
    },
  },
  {
    name: 'D49 calls after the end',
    tools,
    code: 'setTimeout(() => codemode.echo(1), 0); Promise.resolve().then(() => Promise.resolve()).then(() => codemode.echo(2)); return 1',
    expect: ({ result, stats }) => {
      assert.equal(result, 1);
      assert.ok(stats.toolCalls <= 1);
    },
  },
  {
    name: 'D50 odd delays',
    code: 'let n = 0; for (const ms of [NaN, -1, undefined, null, "1", {}]) setTimeout(() => { n += 1 }, ms); for (const ms of [Infinity, 2 ** 40]) clearTimeout(setTimeout(() => { n += 100 }, ms)); clearTimeout(-1); clearTimeout("x"); clearTimeout(1e9); await new Promise((r) => setTimeout(r, 50)); return n',
    expect: returns(6),
  },
  {
    name: 'D51 a hundred thousand unhandled rejections',
    everywhere: true,
    code: 'for (let i = 0; i < 1e5; i++) Promise.reject(new Error("r" + i)); await new Promise((r) => setTimeout(r, 20)); return 1',
    options: () => ({ limits: { wallMs: 20_000 * patience, cpuMs: 10_000 * patience } }),
    expect: ({ result, warnings, errorInfo }) => {
      // V8 may run out of a small heap first; what matters is that nothing of the host suffers.
      assert.ok(result === 1 || errorInfo?.kind === 'memory', errorInfo?.message);
      assert.ok((warnings?.length ?? 0) <= 3);
    },
  },
  {
    name: 'D52 a megabyte of statements',
    code: 'x;'.repeat(100_000),
    options: () => ({ limits: { codeBytes: 1_000_000 } }),
    expect: fails('runtime', /x/),
  },
  {
    name: 'D53 no way to the system',
    code: attempts(
      "require('child_process').execSync('id')",
      'new Deno.Command("id").outputSync()',
      "Deno.readTextFileSync('/proc/self/environ')",
      "process.binding('spawn_sync')",
      "globalThis[Symbol.for('nodejs.util.inspect.custom')]",
      "Deno.dlopen('/lib/x86_64-linux-gnu/libc.so.6', {})",
    ),
    expect: nothingEscaped,
  },
  {
    name: 'D51 rejections that speak like an engine',
    everywhere: true,
    code: `for (const message of ['memory limit', 'Isolate is disposed', 'out of memory']) Promise.reject(new Error(message));
Promise.reject(new SyntaxError('Unexpected token')); await new Promise((r) => setTimeout(r, 50)); return 1`,
    expect: returns(1),
  },
  {
    name: 'E57 no fine clock',
    code: 'const seen = new Set(); for (let i = 0; i < 1e4; i++) seen.add(Date.now() % 1); return [[...seen], typeof performance]',
    expect: returns([[0], 'undefined']),
  },
  {
    name: 'E60 nothing of the host in any text',
    code: `const all = []; const walk = (v, d) => { if (d > 6 || v === null || all.includes(v)) return; if (typeof v === 'object' || typeof v === 'function') { all.push(v); for (const k of Reflect.ownKeys(v)) { const x = Object.getOwnPropertyDescriptor(v, k); walk(x.value, d + 1) } } };
walk(globalThis, 0); return all.map((v) => { try { return Function.prototype.toString.call(v) } catch { return '' } }).join().match(/canary-[0-9a-f]+|\\/work|\\/root|\\/home/) ?? 'clean'`,
    expect: returns('clean'),
  },
];
