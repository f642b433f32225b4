/** Workers between two runs. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { it } from 'node:test';

it('a program that awaits one run after the other comes to its end, and needs no dispose to end', async () => {
  const program = `import { createExecutor } from ${JSON.stringify(new URL('../executors.ts', import.meta.url).href)};
const executor = createExecutor('quickjs', { spares: 0 });
for (let run = 0; run < 4; run += 1) console.log((await executor.execute('return ' + run)).result);`;
  const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (text: Buffer) => {
    said += text.toString();
  });
  const [code] = await once(child, 'close');
  assert.deepEqual([said, code], ['0\n1\n2\n3\n', 0]);
});
