/** Each limit ends the run with its own kind; the suite runs a harmless program after each, on the same executor. */
import assert from 'node:assert/strict';
import { type Case, type Expect, fails, returns } from './case.ts';

const soon = () => ({ limits: { wallMs: 400 } });
const timesOut = fails('timeout', /timed out after 400ms/);
const time = (name: string, code: string): Case => ({
  name: `time: ${name}`,
  code,
  options: soon,
  expect: timesOut,
});

/** Where memory ends first depends on the engine; that it ends does not. */
const memoryEnds: Expect = fails(['memory', 'timeout', 'cpu']);
const memory = (name: string, code: string): Case => ({
  name: `memory: ${name}`,
  code,
  options: () => ({ limits: { wallMs: 15_000 } }),
  expect: memoryEnds,
});

export const limitCases: readonly Case[] = [
  time('an endless loop', 'while (true) {}'),
  time('an endless loop after an await', 'await null; while (true) {}'),
  {
    ...time(
      'microtasks that make microtasks',
      'const f = () => void Promise.resolve().then(f); f(); await new Promise(() => {})',
    ),
    everywhere: true,
  },
  // Each of these promises waits for the next: how fast the machine is decides what runs out first.
  {
    ...time('promises that wait for one more', 'const f = () => Promise.resolve().then(f); await f()'),
    expect: fails(['timeout', 'memory']),
  },
  time('for (;;) await', 'for (;;) await null'),
  time('a generator', 'function* g() { for (;;) yield 1 } for (const x of g()) {}'),
  time('a promise that never settles', 'await new Promise(() => {})'),
  {
    ...time('a tool that never settles', 'await codemode.never()'),
    tools: () => ({ never: () => new Promise(() => {}) }),
  },
  {
    ...time('a regular expression', 'return /^(a+)+$/.test("a".repeat(40) + "b")'),
    everywhere: true,
  },
  time('replace with a bad expression', 'return ("x".repeat(50) + "y").replace(/(x+x+)+z/, "")'),
  time('setInterval for ever', 'setInterval(() => {}, 0); await new Promise(() => {})'),
  time('a loop in a timer', 'setTimeout(() => { for (;;); }, 1); await new Promise(() => {})'),
  time('a loop in a getter of the result', 'return { get a() { for (;;); } }'),
  time('a loop in toJSON', 'return { toJSON() { for (;;); } }'),
  time('a loop in what is logged', 'console.log({ get a() { for (;;); } })'),
  {
    ...time('a loop in an argument', 'await codemode.f({ get a() { for (;;); } })'),
    tools: () => ({ f: () => 1 }),
  },
  time('a loop in then', 'await { then() { for (;;); } }'),
  {
    name: 'cpu: a loop',
    everywhere: true,
    code: 'for (;;);',
    options: () => ({ limits: { cpuMs: 200, wallMs: 20_000 } }),
    expect: fails('cpu', /CPU time limit exceeded/),
  },
  {
    name: 'cpu: waiting costs none',
    everywhere: true,
    code: 'await new Promise((resolve) => setTimeout(resolve, 300)); return 1',
    options: () => ({ limits: { cpuMs: 250 } }),
    expect: ({ error }) => assert.equal(error, undefined),
  },
  memory('arrays', 'const a = []; for (;;) a.push(new Array(1000).fill(1.5))'),
  memory(
    'text',
    'let s = "x"; const keep = []; for (;;) { s += s + Math.random(); keep.push([...s.slice(0, 1e5)].join("")) }',
  ),
  {
    // V8 keeps their bytes beside its heap.
    ...memory('kept typed arrays', 'const a = []; for (;;) a.push(new Uint8Array(1 << 22).fill(1))'),
    everywhere: true,
  },
  memory('a Map', 'const m = new Map(); for (let i = 0; ; i++) m.set(i, { i, t: "x".repeat(100) + i })'),
  memory(
    'closures that wait',
    'const a = []; for (let i = 0; ; i++) a.push((async () => { await new Promise(() => {}); return i })())',
  ),
  memory('one fill', 'return new Array(6e7).fill(0).map((_, i) => ({ i })).length'),
  { name: 'code: too long', code: `return "${'x'.repeat(300_000)}"`, expect: fails('code-limit') },
  {
    name: 'tools: too many calls',
    code: 'await Promise.all(Array.from({ length: 20000 }, () => codemode.f()))',
    tools: () => ({ f: () => 1 }),
    expect: fails('tool-limit', /more than 1000 tool calls/),
  },
  {
    name: 'tools: arguments too large',
    code: 'try { await codemode.f("x".repeat(2e6)) } catch (e) { throw new Error("caught " + e.message) }',
    tools: () => ({ f: () => 1 }),
    expect: fails('runtime', /caught the arguments of "codemode\.f" can not be sent: it is larger/),
  },
  {
    name: 'tools: one argument in hundreds of calls',
    code: 'const s = "x".repeat(1e6); for (let i = 0; i < 900; i++) void codemode.never(s); await new Promise(() => {})',
    tools: () => ({ never: () => new Promise(() => {}) }),
    options: () => ({ limits: { wallMs: 20_000 } }),
    expect: fails('tool-limit', /bytes of arguments in calls that wait/),
  },
  {
    name: 'tools: an answer too large',
    code: 'await codemode.f()',
    tools: () => ({ f: () => 'x'.repeat(2_000_000) }),
    options: () => ({ limits: { toolResultBytes: 1_000_000 } }),
    expect: fails('runtime', /can not be sent: it is larger/),
  },
  {
    name: 'result: too large',
    code: 'return "x".repeat(50e6)',
    expect: fails(['result-limit', 'memory'], /larger|memory/i),
  },
  {
    name: 'result: too many elements',
    code: 'return Array.from({ length: 1e6 }, (_, i) => i)',
    expect: fails('result-limit', /larger than/),
  },
  {
    name: 'result: an array that only claims its length',
    code: 'const a = []; a.length = 2 ** 32 - 1; a[5] = 1; return a',
    expect: ({ result }) =>
      assert.deepEqual(
        [(result as readonly unknown[]).length, (result as readonly unknown[])[5]],
        [4_294_967_295, 1],
      ),
  },
  {
    name: 'logs: too many lines are cut with a mark',
    code: 'for (let i = 0; i < 200000; i++) console.log("line " + i); return "done"',
    expect: ({ result, logs, truncated }) => {
      assert.equal(result, 'done');
      assert.equal(truncated?.logLines, 190_000);
      assert.equal(logs?.length, 10_001);
      assert.match(logs?.at(-1) ?? '', /TRUNCATED/);
    },
  },
  {
    name: 'logs: one long line is cut with a mark',
    code: 'console.log("x".repeat(10e6)); return 1',
    expect: ({ logs }) => {
      assert.ok((logs?.[0]?.length ?? 0) < 70_000);
      assert.match(logs?.[0] ?? '', /\[cut\]$/);
    },
  },
  {
    name: 'timers: too many',
    code: 'for (let i = 0; i < 1e5; i++) setTimeout(() => {}, 1e6)',
    expect: fails('runtime', /more than 1000 timers/),
  },
  {
    name: 'stack: caught',
    code: 'return (function f() { try { return f() } catch (e) { return e instanceof Error } })()',
    expect: ({ result }) => assert.equal(result, true),
  },
  {
    name: 'stack: two thousand calls deep',
    code: `const down = (n) => (n === 0 ? 0 : 1 + down(n - 1));
class Node { constructor(depth) { this.next = depth > 0 ? new Node(depth - 1) : null } count() { return 1 + (this.next?.count() ?? 0) } }
const inTimer = await new Promise((settle) => setTimeout(() => settle(down(2000))));
return [down(2000), new Node(1900).count(), inTimer, await codemode.echo(1).then(() => down(2000))]`,
    tools: () => ({ echo: (x) => x }),
    expect: returns([2000, 1901, 2000, 2000]),
  },
  {
    name: 'stack: built-ins that call themselves come to an end that can be caught',
    code: `let object = {}, list = [], bound = () => 1;
for (let i = 0; i < 20000; i++) { object = { object }; list = [list]; }
const outcomes = [];
for (const attempt of [() => JSON.stringify(object), () => JSON.parse('['.repeat(100000)), () => list.flat(Infinity), () => String(list), () => { const f = () => [2, 1].sort(f); f() }])
  try { attempt(); outcomes.push('done') } catch (error) { outcomes.push(error instanceof Error) }
return [outcomes.length, outcomes.every((outcome) => outcome === true || outcome === 'done')]`,
    expect: returns([5, true]),
  },
  { name: 'stack: uncaught', code: '(function f() { f() })()', expect: fails('runtime', /stack|recursion/i) },
  {
    name: 'stack: JSON a million deep',
    code: 'try { JSON.parse("[".repeat(1e6)) } catch (e) { return e instanceof Error }',
    expect: ({ result }) => assert.equal(result, true),
  },
];
