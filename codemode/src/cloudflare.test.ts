/** What `@cloudflare/codemode` expects of an executor. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { toCloudflareExecutor } from './cloudflare.ts';
import { createExecutor } from './executors.ts';

it('toCloudflareExecutor() answers as @cloudflare/codemode’s own', async () => {
  await using executor = createExecutor('quickjs', { logStyle: 'cloudflare', spares: 0 });
  const cloudflare = toCloudflareExecutor(executor);
  const fns = { 'get-page': async (n: unknown) => ({ n }) };
  assert.deepEqual(
    await cloudflare.execute('async () => { console.warn("w"); return await codemode.get_page(1) }', fns),
    { result: { n: 1 }, logs: ['[warn] w'] },
  );
  assert.deepEqual(await cloudflare.execute('return await site.get_page(2)', [{ name: 'site', fns }]), {
    result: { n: 2 },
    logs: [],
  });
  assert.deepEqual(await cloudflare.execute('throw new Error("x")', {}), {
    result: undefined,
    error: 'x',
    logs: [],
  });
  const clash = await cloudflare.execute('1', { 'a-b': async () => 1, 'a.b': async () => 2 });
  assert.equal(clash.error, 'Tool names "a-b" and "a.b" both sanitize to "a_b" in provider "codemode"');
  assert.equal(
    (await cloudflare.execute('1', [{ name: 'Promise', fns: {} }])).error,
    'Provider name "Promise" is reserved',
  );
});
