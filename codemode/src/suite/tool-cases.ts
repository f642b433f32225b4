/** Tools as the code sees them: names, arguments, answers, failures, many at once. */
import assert from 'node:assert/strict';
import { toolContext } from '../host/tool-context.ts';
import { type Case, fails, returns } from './case.ts';

class Account {
  readonly id = 1;
  readonly created = new Date(0);
  secret(): string {
    return `pid ${process.pid}`;
  }
}

class ToolFailure extends Error {
  override readonly name = 'ToolFailure';
  readonly secret = 'never to be seen';
  constructor() {
    super('it went wrong', { cause: new Error('the cause') });
  }
}

export const toolCases: readonly Case[] = [
  {
    name: 'tools: a call',
    code: 'return await codemode.add(1, 2)',
    tools: () => ({ add: (a, b) => Number(a) + Number(b) }),
    expect: returns(3),
  },
  {
    name: 'tools: namespaces',
    code: 'return [await codemode.math.add(1, 2), await other.f()]',
    tools: () => [
      { name: 'codemode', fns: { math: { add: (a, b) => Number(a) + Number(b) } } },
      { name: 'other', fns: { f: () => 'f' } },
    ],
    expect: returns([3, 'f']),
  },
  {
    name: 'tools: names that are no identifiers',
    code: 'return await codemode["read-file v2"]()',
    tools: () => ({ 'read-file v2': () => 1 }),
    expect: returns(1),
  },
  {
    name: 'tools: many at once come back to their callers',
    code: 'return await Promise.all(Array.from({ length: 200 }, (_, i) => codemode.echo(i)))',
    tools: () => ({ echo: async (x) => x }),
    expect: returns(Array.from({ length: 200 }, (_, i) => i)),
  },
  {
    name: 'tools: no more at once than the limit',
    code: 'return Math.max(...await Promise.all(Array.from({ length: 50 }, () => codemode.count())))',
    tools: () => {
      let now = 0;
      return {
        count: async () => {
          now += 1;
          const seen = now;
          await new Promise((settle) => setImmediate(settle));
          now -= 1;
          return seen;
        },
      };
    },
    options: () => ({ limits: { toolConcurrency: 4 } }),
    expect: ({ result }) => assert.ok(Number(result) <= 4, `${String(result)} at once`),
  },
  {
    name: 'tools: exact arguments',
    code: 'return [await codemode.f(), await codemode.f(undefined), await codemode.f([1, 2]), await codemode.f(null, 1)]',
    tools: () => ({ f: (...args) => args }),
    expect: returns([[], [undefined], [[1, 2]], [null, 1]]),
  },
  {
    name: 'tools: structured arguments and answers',
    code: 'const m = new Map([[1n, new Date(5)]]); const back = await codemode.f(m); return [back instanceof Map, back.get(1n).getTime(), back]',
    tools: () => ({ f: (x) => x }),
    expect: returns([true, 5, new Map([[1n, new Date(5)]])]),
  },
  {
    name: 'tools: class instances arrive as data',
    code: 'const a = await codemode.get(); return [a.id, a.created instanceof Date, typeof a.secret, Object.getPrototypeOf(a) === Object.prototype]',
    tools: () => ({ get: () => new Account() }),
    expect: returns([1, true, 'undefined', true]),
  },
  {
    name: 'tools: functions in an answer are left out',
    code: 'return await codemode.get()',
    tools: () => ({ get: () => ({ a: 1, f: () => process.pid, s: Symbol('x') }) }),
    expect: returns({ a: 1 }),
  },
  {
    name: 'tools: functions in Maps, Sets, lists and errors of an answer are left out',
    code: 'const { map, set, list, error, later, json } = await codemode.get(); return [[...map], [...set], list, error.cause, later, json]',
    tools: () => ({
      get: () => ({
        map: new Map<unknown, unknown>([
          ['a', 1],
          ['f', () => process.pid],
          [() => 1, 'key'],
          ['deep', new Map([['g', Symbol('x')]])],
        ]),
        set: new Set([1, () => 1, Promise.resolve(1)]),
        list: [1, () => 1, Promise.resolve(2), 3],
        error: new Error('x', { cause: () => 1 }),
        later: Promise.resolve(1),
        json: { toJSON: () => () => 1 },
      }),
    }),
    expect: returns([
      [
        ['a', 1],
        ['deep', new Map()],
      ],
      [1],
      [1, null, null, 3],
      undefined,
      undefined,
      null,
    ]),
  },
  {
    name: 'tools: an answer with a then is data',
    code: 'return Object.keys(await codemode.get())',
    tools: () => ({ get: () => JSON.parse('{"then":5,"x":1}') as unknown }),
    expect: returns(['then', 'x']),
  },
  {
    name: 'tools: an answer with __proto__ and constructor',
    code: 'const a = await codemode.get(); return [Object.keys(a), ({}).polluted, a.constructor]',
    tools: () => ({ get: () => JSON.parse('{"__proto__":{"polluted":1},"constructor":"c"}') }),
    expect: returns([['__proto__', 'constructor'], undefined, 'c']),
  },
  {
    name: 'tools: what can not be sent is an error of the call',
    code: 'try { await codemode.get() } catch (e) { return [e instanceof Error, e.message] }',
    tools: () => ({ get: () => Promise.resolve().then(() => () => 1) }),
    expect: returns([true, 'the result of "codemode.get" can not be sent: value is a function']),
  },
  {
    name: 'tools: a thrown error has name and message and nothing else',
    code: 'try { await codemode.fail() } catch (e) { return [e instanceof Error, e.name, e.message, e.secret, e.cause, Object.keys(e), /\\/|node:/.test(String(e.stack))] }',
    tools: () => ({
      fail: () => {
        throw new ToolFailure();
      },
    }),
    expect: returns([true, 'ToolFailure', 'it went wrong', undefined, undefined, [], false]),
  },
  {
    name: 'tools: strange things are thrown',
    code: 'const out = []; for (const k of Object.keys(codemode)) { try { await codemode[k](); } catch (e) { out.push(e instanceof Error) } } return out',
    tools: () => ({
      nothing: () => Promise.reject(undefined),
      zero: () => Promise.reject(null),
      text: () => Promise.reject('text'),
      trap: () =>
        Promise.reject(
          new Proxy(
            {},
            {
              get() {
                throw new Error('trap');
              },
            },
          ),
        ),
      getter: () =>
        Promise.reject(
          Object.defineProperty(new Error('x'), 'message', {
            get() {
              throw new Error('y');
            },
          }),
        ),
    }),
    expect: returns([true, true, true, true, true]),
  },
  {
    name: 'tools: an uncaught failure ends the run',
    code: 'await codemode.fail()',
    tools: () => ({ fail: () => Promise.reject(new Error('no such page')) }),
    expect: fails('runtime', /no such page/),
  },
  {
    name: 'tools: unknown names are undefined',
    code: 'return [typeof codemode.nope, typeof codemode.constructor, typeof codemode.toString, typeof codemode.__proto__, typeof codemode.hasOwnProperty, typeof codemode.then, typeof codemode.toJSON, typeof codemode[Symbol.toPrimitive]]',
    tools: () => ({ a: () => 1 }),
    expect: returns(Array.from({ length: 8 }, () => 'undefined')),
  },
  {
    name: 'tools: calling an unknown one',
    code: 'await codemode.nope()',
    expect: fails('runtime', /not a function/),
  },
  {
    name: 'tools: calling an unknown one names the nearest',
    code: 'const all = Object.keys(codemode);\nreturn await codemode.github.listIssue({ repo: all[0] })',
    tools: () => ({ github: { list_issues: () => 1, get_issue: () => 2 }, listen: () => 3 }),
    expect: fails(
      'runtime',
      /not a function: there is no tool "codemode\.github\.listIssue"; the nearest is "codemode\.github\.list_issues"/,
    ),
  },
  {
    name: 'tools: a failure beside a tool is not about tools',
    code: 'const o = {}; await codemode.note(1); o.nothing()',
    tools: () => ({ note: () => 1 }),
    expect: ({ error }) => assert.doesNotMatch(error ?? '', /no tool/),
  },
  {
    name: 'tools: can be listed',
    code: 'return [Object.keys(codemode), "a" in codemode, JSON.stringify(Object.entries(codemode).map(([k, f]) => [k, typeof f, f.name])), JSON.stringify({ ...codemode }), await codemode === codemode]',
    tools: () => ({ a: () => 1, b: () => 2 }),
    expect: returns([['a', 'b'], true, '[["a","function","a"],["b","function","b"]]', '{}', true]),
  },
  {
    name: 'tools: not awaited, still made',
    code: 'codemode.note("x"); return 1',
    tools: () => ({ note: () => 1 }),
    expect: ({ result, stats }) => assert.deepEqual([result, stats.toolCalls], [1, 1]),
  },
  {
    name: 'tools: time out',
    code: 'await codemode.slow()',
    tools: () => ({ slow: () => new Promise(() => {}) }),
    options: () => ({ limits: { toolMs: 60 } }),
    expect: fails('runtime', /Tool 'codemode\.slow' timed out after 60ms/),
  },
  {
    name: 'tools: know what they serve',
    code: 'return await codemode.who()',
    tools: () => ({
      who: () => [
        toolContext().tool,
        toolContext().call,
        toolContext().signal.aborted,
        toolContext().executionId,
      ],
    }),
    options: () => ({ executionId: 'run-1' }),
    expect: returns(['codemode.who', 1, false, 'run-1']),
  },
  {
    name: 'policy: denied',
    code: 'const out = []; for (const k of ["read", "drop"]) try { out.push(await codemode.db[k]()) } catch (e) { out.push(e.message) } return out',
    tools: () => ({ db: { read: () => 'rows', drop: () => 'gone' } }),
    options: () => ({ policy: { deny: ['codemode.db.d*'] } }),
    expect: returns(['rows', 'Tool "codemode.db.drop" was denied']),
  },
  {
    name: 'policy: an allow list refuses the rest',
    code: 'try { return await codemode.b() } catch (e) { return [await codemode.a(), e.name] }',
    tools: () => ({ a: () => 1, b: () => 2 }),
    options: () => ({ policy: { allow: ['*.a'] } }),
    expect: returns([1, 'DeniedError']),
  },
  {
    name: 'approval: asked, allowed and denied',
    code: 'const out = []; for (const n of [1, 2]) try { out.push(await codemode.pay(n)) } catch (e) { out.push(e.message) } return out',
    tools: () => ({ pay: (n) => `paid ${Number(n)}` }),
    options: () => ({
      policy: { ask: ['*'] },
      approve: ({ args }) =>
        args[0] === 1 ? { decision: 'allow' } : { decision: 'deny', reason: 'too much' },
    }),
    expect: returns(['paid 1', 'Tool "codemode.pay" was denied: too much']),
  },
  {
    name: 'approval: nobody to ask',
    code: 'await codemode.pay()',
    tools: () => ({ pay: () => 1 }),
    options: () => ({ policy: { ask: ['codemode.*'] } }),
    expect: fails('runtime', /nobody is there to approve/),
  },
  {
    name: 'approval: the wall clock stands still',
    code: 'return await codemode.pay()',
    tools: () => ({ pay: () => 'paid' }),
    options: () => ({
      limits: { wallMs: 300 },
      policy: { ask: ['*'] },
      approve: () => new Promise((settle) => setTimeout(() => settle({ decision: 'allow' }), 600)),
    }),
    expect: returns('paid'),
  },
  {
    name: 'names: a reserved namespace',
    code: 'return 1',
    tools: () => [{ name: 'Promise', fns: {} }],
    expect: fails('config', /Provider name "Promise" is reserved/),
  },
  {
    name: 'names: a namespace that is a built-in',
    code: 'return 1',
    tools: () => [{ name: 'URL', fns: {} }],
    expect: fails('config', /Provider name "URL" is reserved/),
  },
  {
    name: 'names: not an identifier',
    code: 'return 1',
    tools: () => [{ name: 'a-b', fns: {} }],
    expect: fails('config', /not a valid JavaScript identifier/),
  },
  {
    name: 'names: twice',
    code: 'return 1',
    tools: () => [
      { name: 'a', fns: {} },
      { name: 'a', fns: {} },
    ],
    expect: fails('config', /Duplicate provider name "a"/),
  },
];
