/** In processes of their own, with and without collecting: how much of what a stream leaves behind gathers. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A gigabyte in pieces, of which the last fifty are in use. Prints how many bytes buffers held at most. */
const stream = `
  import { countBuffers } from ${JSON.stringify(join(import.meta.dirname, 'buffer-garbage.ts'))};
  import { setImmediate } from 'node:timers/promises';
  const used = [];
  let most = 0;
  for (let turn = 0; turn < 160; turn += 1) {
    for (let at = 0; at < 100; at += 1) {
      used[at % 50] = Buffer.alloc(65_536, 1);
      countBuffers(65_536);
    }
    most = Math.max(most, process.memoryUsage().arrayBuffers);
    await setImmediate();
  }
  console.log(most);
`;

test('countBuffers keeps what a stream leaves behind below a bound', async () => {
  const words = ['--no-warnings', '--max-semi-space-size=2', '--single-threaded-gc'];
  const most = async (...more: string[]): Promise<number> => {
    const { stdout } = await run(process.execPath, [...words, ...more, '--input-type=module', '-e', stream]);
    return Number(stdout);
  };
  // Its bound, what comes before it looks again, and a turn.
  assert.ok((await most('--expose-gc')) < 68_000_000);
  // V8 alone gathers more: else this test would show nothing.
  assert.ok((await most()) > 68_000_000);
});
