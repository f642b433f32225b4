/** What the benchmark does with children: also when there is no such program. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

test('run() fails at once and keeps its process no longer when the program is not installed', () => {
  const module = join(import.meta.dirname, 'process.ts');
  const script = `import { run } from ${JSON.stringify(module)};
await run(['squash-no-such-program']).catch((error) => console.log(error.code));`;
  const { stdout, status, error } = spawnSync(
    process.execPath,
    ['--no-warnings', '--input-type=module', '-e', script],
    { encoding: 'utf8', timeout: 20_000 },
  );
  assert.deepEqual([error, stdout, status], [undefined, 'ENOENT\n', 0]);
});
