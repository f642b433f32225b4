/** Interrupts that come before the first line of a cell, while its kernel takes none: they hold all the same. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Context, Execution } from '@squash/contract/context';
import { interpreterModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const box = '/v1/sandboxes/box';
const pathOf = (language: string): string => `${box}/contexts/default-${language}`;
let daemon: TestDaemon;

before(async () => {
  daemon = await TestDaemon.start({ modules: await interpreterModules() });
  const layers = ['000-base-debian', '120-interpreter'];
  await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'box', layers });
});

after(() => daemon[Symbol.asyncDispose]());

async function run(language: string, code: string, more: object = {}): Promise<Execution> {
  return (await daemon.call('POST', `${pathOf(language)}/cells`, { code, ...more })) as Execution;
}

/** What the cell has as its value. */
async function valueOf(language: string, code: string): Promise<string | undefined> {
  return (await run(language, code)).results[0]?.text;
}

async function shell(line: string): Promise<string> {
  return (await daemon.call('POST', `${box}/exec`, { shell: line })).stdout;
}

async function state(language: string): Promise<string> {
  return ((await daemon.call('GET', pathOf(language))) as Context).state;
}

async function interrupt(language: string): Promise<void> {
  await daemon.call('POST', `${pathOf(language)}/interrupt`, {});
}

const kernels = {
  python: { keep: 'import os; x = 20; os.getpid()', loop: 'while True: pass', error: 'KeyboardInterrupt' },
  typescript: { keep: 'const x: number = 20; process.pid', loop: 'for (;;);', error: 'Interrupted' },
};

for (const [language, { keep, loop, error }] of Object.entries(kernels)) {
  test(`an interrupt of a cell that its kernel has not begun with ends it when it begins: ${language}`, async () => {
    const pid = await valueOf(language, keep);
    // Where in its beginning it comes is chance.
    for (let round = 0; round < 5; round += 1) {
      await shell(`kill -STOP ${pid}`);
      const running = run(language, loop);
      await waitFor('the cell to run', async () => (await state(language)) === 'busy');
      await interrupt(language);
      await shell(`sleep 0.${round}; kill -CONT ${pid}`);
      const { status, error: told } = await running;
      assert.deepEqual([status, told?.name], ['interrupted', error]);
      assert.equal(await valueOf(language, 'x'), '20');
    }
  });
}

test('an interrupt between a cell’s beginning and its first line ends it, though its kernel answers nothing', async () => {
  await run(
    'python',
    `kernel = get_ipython().kernel
def loops(*_, **__):
    del kernel.do_execute
    open("/tmp/looping", "w").close()
    while True: pass
kernel.do_execute = loops`,
  );
  const running = run('python', '1');
  await waitFor('it to loop', async () => (await shell('ls /tmp')).includes('looping'));
  await interrupt('python');
  assert.equal((await running).status, 'interrupted');
  assert.equal(await valueOf('python', 'x'), '20');
});

test('a time limit ends a kernel that never begins with its cell', async () => {
  const pid = await valueOf('python', 'os.getpid()');
  await shell(`kill -STOP ${pid}`);
  assert.equal((await run('python', '1', { timeout_ms: 100 })).status, 'timeout');
  await waitFor('its end', async () => (await state('python')) === 'dead');
});
