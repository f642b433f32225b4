/** A process keeps its beginning over `exec`. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTicks } from './process-times.ts';

test('secondsSinceStart() counts from before the process became Node', () => {
  const script = `import { secondsSinceStart } from ${JSON.stringify(join(import.meta.dirname, 'process-times.ts'))};
    console.log(secondsSinceStart() - performance.now() / 1000);`;
  // Half a second of the shell's own clock, then Node in its place.
  const shell = `begin=\${EPOCHREALTIME/[.,]/}
    while ((\${EPOCHREALTIME/[.,]/} - begin < 500000)); do :; done
    exec "$0" --input-type=module --eval "$1"`;
  const end = spawnSync('bash', ['-c', shell, process.execPath, script], { encoding: 'utf8' });
  assert.equal(end.stderr, '');
  assert.ok(Number(end.stdout) > 0.4, end.stdout);
});

test('startTicks() is that of a living process', () => {
  assert.ok((startTicks(process.pid) ?? 0) > 0);
  assert.equal(startTicks(2 ** 22 + 1), undefined);
});
