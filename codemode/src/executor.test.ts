/** What the shared suite can't show with one call: cancellation, events, runs side by side, ends, suspended runs, observers. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { createExecutor } from './executors.ts';
import { PooledExecutor } from './executor.ts';
import { toolContext } from './host/tool-context.ts';
import { defaultLimits } from './limits.ts';
import { childPlace } from './places/child.ts';
import type { Place } from './places/place.ts';
import { nodeCommand } from './places/programs.ts';
import type { ExecutionEvent, Suspended } from './types.ts';
import { createVm2Executor } from './vm2.ts';

const small = { limits: { memoryMb: 32 } };
const names = ['quickjs', 'isolated-vm', 'deno'] as const;

for (const name of names) {
  describe(`executor ${name}`, () => {
    it('ends a run that is aborted, tells its tools, and starts none afterwards', async () => {
      await using executor = createExecutor(name, small);
      const stop = new AbortController();
      const seen: string[] = [];
      const tools = {
        slow: () =>
          new Promise((settle) => {
            toolContext().signal.addEventListener('abort', () => {
              seen.push('aborted');
              settle(1);
            });
            stop.abort();
          }),
        later: () => seen.push('later'),
      };
      const result = await executor.execute(
        'console.log("x"); try { await codemode.slow() } finally { await codemode.later() }',
        tools,
        { signal: stop.signal },
      );
      assert.deepEqual([result.errorInfo?.kind, result.logs, seen], ['aborted', ['x'], ['aborted']]);
      assert.equal((await executor.execute('return 2')).result, 2);
      const before = await executor.execute('return 1', {}, { signal: AbortSignal.abort() });
      assert.equal(before.errorInfo?.kind, 'aborted');
    });

    it('tells of everything as it happens, in order', async () => {
      await using executor = createExecutor(name, small);
      const events: ExecutionEvent[] = [];
      await executor.execute(
        'console.log("a"); await codemode.f(1); text("t"); console.warn("b")',
        { f: () => 2 },
        {
          onEvent: (event) => {
            events.push(event);
            throw new Error('an observer’s fault');
          },
        },
      );
      assert.deepEqual(
        events.map((event) => event.type),
        ['start', 'log', 'tool-call', 'tool-result', 'output', 'log', 'end'],
      );
    });

    it('runs side by side without seeing each other', async () => {
      await using executor = createExecutor(name, { ...small, workersMax: 3 });
      const code =
        'global.mine = input; try { globalThis.shared = input } catch {}; await codemode.meet(); return [global.mine, typeof globalThis.shared]';
      let waiting = 0;
      const all = Promise.withResolvers<void>();
      const meet = async () => {
        waiting += 1;
        if (waiting === 3) all.resolve();
        await all.promise;
      };
      const results = await Promise.all(
        [1, 2, 3].map((input) => executor.execute(code, { meet }, { input })),
      );
      assert.deepEqual(
        results.map(({ result }) => result),
        [1, 2, 3].map((input) => [input, 'undefined']),
      );
      const queued = await Promise.all(
        Array.from({ length: 8 }, (_, input) => executor.execute('return input', {}, { input })),
      );
      assert.deepEqual(
        queued.map(({ result }) => result),
        [0, 1, 2, 3, 4, 5, 6, 7],
      );
    });

    it('leaves no process and no descriptor behind', async () => {
      const count = () => readdirSync('/proc/self/fd').length;
      const before = count();
      const executor = createExecutor(name, small);
      const endless = executor.execute('for (;;);');
      assert.equal((await executor.execute('return 1')).result, 1);
      await executor.dispose();
      assert.equal((await endless).errorInfo?.kind, 'aborted');
      assert.equal(executor.processes, 0);
      assert.ok(count() <= before + 1, `${count()} descriptors, ${before} before`);
      assert.equal((await executor.execute('return 1')).errorInfo?.kind, 'aborted');
    });
  });
}

describe('suspended runs', () => {
  const tools = { plan: () => 'draft', pay: (amount: unknown) => `paid ${String(amount)}` };
  const code = `const notes = new Map([['draft', await codemode.plan()]]);
console.log('asking');
const receipt = await codemode.pay(12n).catch((error) => 'refused: ' + error.message);
return [notes.get('draft'), receipt, await codemode.plan(), Math.random() < 1]`;

  async function suspend(): Promise<Suspended> {
    await using executor = createExecutor('quickjs', small);
    const options = { policy: { ask: ['codemode.pay'] }, approve: () => ({ decision: 'suspend' }) as const };
    const { suspended, logs, error } = await executor.execute(code, tools, options);
    assert.deepEqual([error, logs], [undefined, ['asking']]);
    assert.ok(suspended);
    return suspended;
  }

  it('go on in another engine’s process when allowed, and hear of it when denied', async () => {
    const suspended = await suspend();
    assert.deepEqual([suspended.tool, suspended.args], ['codemode.pay', [12n]]);
    assert.ok(suspended.snapshot.length < 1_000_000, `${suspended.snapshot.length} bytes`);
    await using executor = createExecutor('quickjs', small);
    const allowed = await executor.resume(suspended, { decision: 'allow' }, tools);
    assert.deepEqual([allowed.error, allowed.result], [undefined, ['draft', 'paid 12', 'draft', true]]);
    const denied = await executor.resume(suspended, { decision: 'deny', reason: 'no' }, tools);
    assert.deepEqual((denied.result as readonly unknown[])[1], 'refused: Tool "codemode.pay" was denied: no');
  });

  it('are for the engine that can save them: another says so', async () => {
    await using executor = createExecutor('isolated-vm', small);
    const options = { policy: { ask: ['codemode.pay'] }, approve: () => ({ decision: 'suspend' }) as const };
    const { error, suspended } = await executor.execute('await codemode.pay(1)', tools, options);
    assert.deepEqual([error, suspended], ['this engine can not save a run: quickjs can', undefined]);
  });

  it('go on with their timers, which stood still', async () => {
    await using first = createExecutor('quickjs', small);
    const timed = `let ticks = 0, cleared = 0;
const late = new Promise((settle) => setTimeout(settle, 300, 'late'));
const gone = setTimeout(() => { cleared += 1 }, 300);
const every = setInterval(() => { ticks += 1 }, 20);
await codemode.pay(1);
clearTimeout(gone);
const word = await late;
await new Promise((settle) => setTimeout(settle, 50));
clearInterval(every);
return [word, ticks > 1, cleared]`;
    const options = { policy: { ask: ['codemode.pay'] }, approve: () => ({ decision: 'suspend' }) as const };
    const { suspended } = await first.execute(timed, tools, options);
    assert.ok(suspended);
    await using second = createExecutor('quickjs', { limits: { memoryMb: 32, wallMs: 5000 } });
    const { result, error } = await second.resume(suspended, { decision: 'allow' }, tools);
    assert.deepEqual([error, result], [undefined, ['late', true, 0]]);
  });

  it('outlive the program that started them, as bytes in a file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'codemode-suspended-'));
    try {
      const file = join(folder, 'run');
      const start = `import { writeFileSync } from 'node:fs';
import { createExecutor } from ${JSON.stringify(new URL('./executors.ts', import.meta.url).href)};
await using executor = createExecutor('quickjs', { limits: { memoryMb: 32 } });
const tools = { plan: () => 'draft', pay: () => { throw new Error('paid by the wrong program') } };
const options = { policy: { ask: ['codemode.pay'] }, approve: () => ({ decision: 'suspend' }) };
const { suspended } = await executor.execute(${JSON.stringify(code)}, tools, options);
writeFileSync(${JSON.stringify(file)}, suspended.snapshot);`;
      execFileSync(process.execPath, ['--no-warnings', '--input-type=module', '-e', start]);
      await using executor = createExecutor('quickjs', small);
      const gone = await executor.resume({ snapshot: readFileSync(file) }, { decision: 'allow' }, tools);
      assert.deepEqual([gone.error, gone.result], [undefined, ['draft', 'paid 12', 'draft', true]]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('that go on have a processor time, also where only the engine can count it', async () => {
    const children = childPlace(nodeCommand('quickjs', 32));
    const blind: Place = { start: async () => ({ ...(await children.start()), cpuMs: () => undefined }) };
    const limits = { ...defaultLimits, memoryMb: 32, wallMs: 60_000, cpuMs: 300 };
    const pool = { memoryMb: 32, spares: 0, workersMax: 1, runsPerWorker: 1, startMsMax: 30_000 };
    const named = { name: 'blind', engine: 'quickjs', logStyle: 'bridge', engineCountsCpu: true } as const;
    await using executor = new PooledExecutor(blind, { ...named, ...pool, limits });
    const options = { policy: { ask: ['codemode.pay'] }, approve: () => ({ decision: 'suspend' }) as const };
    const { suspended } = await executor.execute('await codemode.pay(1); for (;;);', tools, options);
    assert.ok(suspended);
    const { errorInfo } = await executor.resume(suspended, { decision: 'allow' }, tools);
    assert.equal(errorInfo?.kind, 'cpu');
  });

  it('are refused with other tools, and as other bytes', async () => {
    const suspended = await suspend();
    await using executor = createExecutor('quickjs', small);
    assert.equal(
      (await executor.resume(suspended, { decision: 'allow' }, { plan: tools.plan })).errorInfo?.kind,
      'config',
    );
    const cut = { ...suspended, snapshot: suspended.snapshot.subarray(0, 200) };
    assert.equal((await executor.resume(cut, { decision: 'allow' }, tools)).errorInfo?.kind, 'config');
    const { head } = partsOf(suspended);
    const bomb = { snapshot: Buffer.concat([head, gzipSync(Buffer.alloc(100_000_000), { level: 1 })]) };
    assert.equal((await executor.resume(bomb, { decision: 'allow' }, tools)).errorInfo?.kind, 'config');
  });

  it('whose memory somebody wrote into end as runs end, and harm no other', async () => {
    const suspended = await suspend();
    await using executor = createExecutor('quickjs', { limits: { memoryMb: 32, wallMs: 2000 } });
    const { head, memory } = partsOf(suspended);
    const sizes = 36 + 64;
    for (const [from, to, byte] of [
      [36, sizes, 0xff],
      [sizes, memory.length, 0xff],
      [memory.length / 4, memory.length / 2, 0x41],
      [memory.length / 2, memory.length, 0],
    ] as const) {
      const bytes = Buffer.from(memory).fill(byte, Math.floor(from), Math.floor(to));
      const given = { snapshot: Buffer.concat([head, gzipSync(bytes, { level: 1 })]) };
      const { error, result } = await executor.resume(given, { decision: 'allow' }, tools);
      assert.ok(
        error !== undefined || JSON.stringify(result)?.includes('draft'),
        'no value that was not the code’s',
      );
      assert.equal((await executor.execute('return 1 + 1')).result, 2);
    }
  });
});

/** The line that says what it waits for, and the engine's memory with what stands before it. */
function partsOf({ snapshot }: Suspended) {
  const bytes = Buffer.from(snapshot);
  const end = bytes.indexOf('\n') + 1;
  return { head: bytes.subarray(0, end), memory: gunzipSync(bytes.subarray(end)) };
}

describe('createExecutor', () => {
  it('refuses vm2 without consent, and limits that are none', () => {
    assert.throws(() => createVm2Executor(), /no security boundary/);
    assert.throws(() => createExecutor('vm2' as never), /import '@squash\/codemode\/vm2'/);
    assert.throws(() => createExecutor('eval' as never), /no executor "eval"/);
    assert.throws(() => createExecutor('quickjs', { limits: { wallMs: -1 } }), /wallMs/);
    assert.throws(() => createExecutor('quickjs', { limits: { nope: 1 } as never }), /no limit "nope"/);
  });
});
