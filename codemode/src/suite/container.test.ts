/** The shared suite on the executor `container`, with each of its engines. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { createExecutor } from '../executors.ts';
import { findContainerProgram } from '../places/container.ts';
import { allCases } from './all-cases.ts';
import { noContainers } from './containers.ts';
import { canary, runSuite } from './run-suite.ts';

const why = noContainers();

if (why === false) {
  const few = { seed: allCases['seed'] ?? [], limits: allCases['limits'] ?? [] };
  // Who starts the container makes no difference to what a program in it finds.
  runSuite('container', process.getuid?.() === 0 ? allCases : few, { engine: 'quickjs' });
  runSuite('container', few, { engine: 'isolated-vm' });
  test('a container is told nothing of the proxies of its host', async () => {
    process.env['https_proxy'] = `http://user:${canary}@proxy.test`;
    try {
      await using executor = createExecutor('container', { spares: 1 });
      await executor.init();
      const program = findContainerProgram();
      const filter = `label=squash.codemode.owner`;
      const ids = execFileSync(program, ['ps', '--quiet', '--filter', filter], { encoding: 'utf8' })
        .trim()
        .split('\n');
      const format = '{{json .Config.Env}}';
      const told = execFileSync(program, ['inspect', '--format', format, ...ids], { encoding: 'utf8' });
      assert.match(told, /TZ=UTC/);
      assert.doesNotMatch(told, new RegExp(canary));
    } finally {
      delete process.env['https_proxy'];
    }
  });
  test('a container of a program that was killed is removed by the next executor, one of a living program is not', async () => {
    const program = findContainerProgram();
    const listed = () =>
      execFileSync(program, ['ps', '--all', '--quiet', '--filter', 'label=squash.codemode.owner'], {
        encoding: 'utf8',
      }).split('\n').length - 1;
    const before = listed();
    const scratch = mkdtempSync(join(tmpdir(), 'codemode-killed-'));
    const start = `import { createExecutor } from ${JSON.stringify(new URL('../executors.ts', import.meta.url).href)};
const executor = createExecutor('container', { engine: 'isolated-vm', spares: 0 });
void executor.execute('await codemode.up(); for (;;);', { up: () => console.log('up') });`;
    const owner = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', start], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, TMPDIR: scratch },
    });
    await once(owner.stdout, 'data');
    await using living = createExecutor('container', { spares: 1 });
    assert.equal((await living.execute('return 1')).result, 1);
    assert.ok(listed() >= before + 2);
    const ofCodemode = () => readdirSync(scratch).filter((name) => name.startsWith('codemode-'));
    assert.equal(ofCodemode().length, 1);
    const ended = once(owner, 'exit');
    owner.kill('SIGKILL');
    await ended;
    await using next = createExecutor('container', { spares: 0 });
    const temporary = process.env['TMPDIR'];
    process.env['TMPDIR'] = scratch;
    try {
      assert.equal((await next.execute('return 2')).result, 2);
    } finally {
      if (temporary === undefined) delete process.env['TMPDIR'];
      else process.env['TMPDIR'] = temporary;
    }
    assert.equal((await living.execute('return 3')).result, 3);
    await next.dispose();
    assert.deepEqual(ofCodemode(), []);
    await living.dispose();
    assert.equal(listed(), before);
    rmSync(scratch, { recursive: true });
  });
} else {
  test('the shared suite on the executor container', {
    skip: why,
  }, () => {});
}
