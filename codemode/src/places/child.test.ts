/** What a process that holds an engine can do when its engine has been left: the flags it is started with, tried from inside. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { it } from 'node:test';
import { startChild } from './child.ts';
import { nodeCommand } from './programs.ts';

const probe = `
const attempts = {
  'a file': () => require('fs').readFileSync('/etc/passwd', 'utf8'),
  'a directory': () => require('fs').readdirSync('/'),
  'writing': () => require('fs').writeFileSync('/tmp/codemode-probe', 'x'),
  'a process': () => require('child_process').execSync('id'),
  'a thread': () => new (require('worker_threads').Worker)('1', { eval: true }),
  'its environment': () => { if (process.env.CODEMODE_CANARY === undefined) throw new Error('empty') },
  'its parent’s environment': () => require('fs').readFileSync('/proc/' + process.ppid + '/environ'),
};
const got = Object.entries(attempts).filter(([, attempt]) => { try { attempt(); return true } catch { return false } }).map(([name]) => name);
require('fs').writeSync(3, JSON.stringify(got));`;

for (const engine of ['quickjs', 'isolated-vm', 'vm2'] as const) {
  it(`the process of ${engine} gets neither files, nor processes, nor threads, nor our environment`, async () => {
    process.env['CODEMODE_CANARY'] = 'canary-7f3a9c';
    const command = nodeCommand(engine, 64);
    const child = startChild({ ...command, args: [...command.args.slice(0, -2), '-e', probe] });
    let said = '';
    child.output.on('data', (bytes: Buffer) => {
      said += bytes.toString();
    });
    await child.exited;
    assert.equal(said, '[]', child.diagnostics());
  });
}

it('a child dies with the program that started it, even in an endless loop', async () => {
  const command = nodeCommand('quickjs', 64);
  const start = `import { startChild } from ${JSON.stringify(new URL('./child.ts', import.meta.url).href)};
const child = startChild(${JSON.stringify({ ...command, args: ['-e', 'require("fs").writeSync(3, String(process.pid)); for (;;);'] })});
child.output.once('data', (pid) => { process.stdout.write(String(pid)); process.kill(process.pid, 'SIGKILL'); });`;
  const parent = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', start], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let pid = '';
  parent.stdout.on('data', (text: Buffer) => {
    pid += text.toString();
  });
  await once(parent, 'close');
  assert.match(pid, /^\d+$/);
  const deadline = performance.now() + 5000;
  while (isAlive(Number(pid)) && performance.now() < deadline)
    await new Promise((settle) => setTimeout(settle, 10));
  assert.equal(isAlive(Number(pid)), false);
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
