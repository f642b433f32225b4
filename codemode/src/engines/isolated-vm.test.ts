/** The engine's own count of processor time, for places whose processes nobody outside can look at. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { PooledExecutor } from '../executor.ts';
import { defaultLimits } from '../limits.ts';
import { childPlace } from '../places/child.ts';
import type { Place } from '../places/place.ts';
import { nodeCommand } from '../places/programs.ts';

const children = childPlace(nodeCommand('isolated-vm', 64));
const blind: Place = { start: async () => ({ ...(await children.start()), cpuMs: () => undefined }) };

function createExecutor(): PooledExecutor {
  return new PooledExecutor(blind, {
    name: 'blind',
    engine: 'isolated-vm',
    limits: { ...defaultLimits, wallMs: 60_000, cpuMs: 300 },
    logStyle: 'bridge',
    memoryMb: 64,
    spares: 0,
    workersMax: 1,
    runsPerWorker: 10,
    startMsMax: 30_000,
    engineCountsCpu: true,
  });
}

const endless: readonly (readonly [string, string])[] = [
  ['a loop while somebody is asked, when the wall clock stands still', 'void codemode.ask(1); for (;;);'],
  [
    'many short loops',
    'for (;;) { await new Promise((r) => setTimeout(r, 1)); const end = Date.now() + 8; while (Date.now() < end); }',
  ],
  ['a loop after an answer', 'await codemode.f(); for (;;);'],
];
for (const [what, code] of endless) {
  it(`isolated-vm ends ${what}`, async () => {
    await using executor = createExecutor();
    const tools = { ask: () => 1, f: () => 1 };
    const options = { policy: { ask: ['codemode.ask'] }, approve: () => new Promise<never>(() => {}) };
    const { errorInfo } = await executor.execute(code, tools, options);
    assert.deepEqual([errorInfo?.kind, errorInfo?.message], ['cpu', 'CPU time limit exceeded']);
    assert.equal((await executor.execute('return 2')).result, 2);
  });
}

it('isolated-vm counts each run by itself, and waiting for nothing', async () => {
  await using executor = createExecutor();
  const busy =
    'const end = Date.now() + 60; while (Date.now() < end); await new Promise((r) => setTimeout(r, 100)); return 1';
  for (let run = 0; run < 8; run += 1) {
    const { result, errorInfo } = await executor.execute(busy);
    assert.deepEqual([result, errorInfo], [1, undefined]);
  }
});
