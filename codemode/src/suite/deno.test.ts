/** The shared suite on the executor `deno`; and through all of its attacks the runtime is never asked for a permission. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Broker, type PermissionRequest } from '../places/deno.ts';
import { denoCommand } from '../places/programs.ts';
import { allCases } from './all-cases.ts';
import { runSuite } from './run-suite.ts';

const requests: PermissionRequest[] = [];
runSuite('deno', allCases, { onPermissionRequest: (request) => requests.push(request) });
after(() => assert.deepEqual(requests, []));

test('Broker denies what a program in Deno asks for, and tells of it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'codemode-broker-'));
  const seen: PermissionRequest[] = [];
  const broker = await Broker.open((request) => seen.push(request));
  try {
    const probe = join(folder, 'probe.ts');
    writeFileSync(
      probe,
      `for (const f of [() => Deno.readTextFileSync('/etc/passwd'), () => Deno.env.get('HOME'), () => Deno.listen({ port: 0 })]) {
  try { f(); console.log('allowed'); } catch { console.log('denied'); }
}`,
    );
    const { program, args, env } = denoCommand(64, { DENO_PERMISSION_BROKER_PATH: broker.path });
    const child = spawn(program, [...args.slice(0, -2), probe], { env, stdio: ['ignore', 'pipe', 'ignore'] });
    let said = '';
    child.stdout.on('data', (text: Buffer) => {
      said += text.toString();
    });
    await once(child, 'close');
    assert.equal(said, 'denied\ndenied\ndenied\n');
    assert.deepEqual(
      seen.map(({ permission }) => permission),
      ['read', 'env', 'net'],
    );
  } finally {
    broker.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
