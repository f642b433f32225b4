/** Memory after work: in a process of its own, because collecting is a matter of the whole process. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';

const deadlineMs = 20_000;
const addon = join(
  import.meta.dirname,
  `../../native/build/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}/malloc-trim.node`,
);
const heap = 'let kept = Array.from({ length: 600_000 }, (_, at) => ({ at, text: String(at) }));';
/** One in fifty stays: without them malloc gives back what is freed at its end. */
const buffers = `let kept = Array.from({ length: 2000 }, () => Buffer.allocUnsafeSlow(60_000).fill(1));
  const some = kept.filter((_, at) => at % 50 === 0);`;
const busy = (fill: string, bytesMin: number) => `
  import { restHeap } from ${JSON.stringify(join(import.meta.dirname, 'resting-heap.ts'))};
  restHeap({ restMs: 50, trimAddon: ${JSON.stringify(addon)}, log: { warn: console.log } });
  ${fill}
  const before = process.memoryUsage.rss();
  kept = [];
  const late = setTimeout(() => { console.log('kept', before, process.memoryUsage.rss()); process.exit(); }, ${deadlineMs});
  const look = setInterval(() => {
    if (process.memoryUsage.rss() > before - ${bytesMin}) return;
    console.log('given back');
    clearInterval(look);
    clearTimeout(late);
  }, 25);
`;

async function run(flags: readonly string[], program: string): Promise<string> {
  const child = spawn(process.execPath, [...flags, '--input-type=module-typescript', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(child, 'close');
  return Buffer.concat(chunks).toString().trim();
}

test('restHeap gives memory back when the process comes to rest', async () => {
  assert.equal(await run(['--expose-gc'], busy(heap, 20_000_000)), 'given back');
  assert.equal(await run(['--expose-gc'], busy(buffers, 80_000_000)), 'given back', 'of malloc');
});

test('restHeap lets the process end, and does nothing where collecting is not exposed', async () => {
  const idle = `import { restHeap } from ${JSON.stringify(join(import.meta.dirname, 'resting-heap.ts'))}; restHeap(); console.log('over');`;
  assert.equal(await run([], idle), 'over');
  assert.equal(await run(['--expose-gc'], idle), 'over');
});
