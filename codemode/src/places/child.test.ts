/** What a process that holds an engine can do when its engine has been left: the flags it is started with, tried from inside. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { it } from 'node:test';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { childPlace, startChild, startConfined } from './child.ts';
import { confinementState } from './confinement.ts';
import { denoCommand, nodeCommand } from './programs.ts';

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

it('Deno leaves no cache on this machine, whoever runs it', () => {
  const cache = denoCommand(64, {}).env['DENO_DIR'] ?? '';
  assert.throws(() => mkdirSync(cache, { recursive: true }));
});

const state = await confinementState();

const endings = [
  ['aborts without a word, as a failing operator new does', 'process.abort()', true],
  ['aborts and says why', 'console.error("# Fatal error in x, line 1"); process.abort()', false],
  ['is killed', 'process.kill(process.pid, "SIGKILL")', false],
  ['ends by itself', 'process.exit(3)', false],
] as const;
for (const [what, code, isMemory] of endings) {
  for (const how of state.usable ? (['startChild', 'startConfined'] as const) : (['startChild'] as const)) {
    it(`a child by ${how} that ${what} ${isMemory ? 'was' : 'was not'} out of memory`, async () => {
      const command = { ...nodeCommand('quickjs', 64), args: ['-e', code] };
      const child =
        how === 'startConfined' && state.usable
          ? startConfined(command, state.confinement)
          : startChild(command);
      assert.equal((await child.exited).outOfMemory, isMemory, child.diagnostics());
    });
  }
}

/** Node without its permission model stands for an engine that was left: only the operating system is between it and the machine. */
const left = `
const attempts = {
  'a file': () => require('fs').readFileSync('/etc/passwd'),
  'the user’s folders': () => require('fs').readdirSync('/root'),
  'a folder beside the worker’s': () => require('fs').readdirSync(${JSON.stringify(import.meta.dirname)} + '/../../../host'),
  'other processes': () => require('fs').readdirSync('/proc'),
  'a device': () => require('fs').readFileSync('/dev/zero', { length: 1 }),
  'writing to the root': () => require('fs').writeFileSync('/x', 'x'),
  'writing to its program': () => require('fs').appendFileSync(process.execPath, 'x'),
  'a process': () => { const { error } = require('child_process').spawnSync(process.execPath, ['--version']); if (error) throw error },
  'its parent': () => { if (process.ppid === 0) throw new Error('none') },
  'the host’s network': () => { if (!Object.values(require('os').networkInterfaces()).flat().some((each) => each.address !== '127.0.0.1' && each.address !== '::1')) throw new Error('none') },
  'descriptor 4 or 5 of the start': () => { if (![4, 5].some((fd) => { try { return require('fs').fstatSync(fd).isSocket() } catch { return false } })) throw new Error('none') },
};
const got = Object.entries(attempts).filter(([, attempt]) => { try { attempt(); return true } catch { return false } }).map(([name]) => name);
const socket = require('net').connect(80, '127.0.0.1').on('error', (error) => {
  if (error.code !== 'EPERM') got.push('a socket: ' + error.code);
  const udp = require('dgram').createSocket('udp4').on('error', (other) => {
    if (other.code !== 'EPERM') got.push('a datagram socket: ' + other.code);
    require('fs').writeSync(3, JSON.stringify(got)); process.exit();
  });
  udp.bind(0, () => { require('fs').writeSync(3, '["a bound socket"]'); process.exit() });
});`;

if (state.usable) {
  for (const engine of ['quickjs', 'isolated-vm', 'vm2'] as const) {
    it(`whoever leaves the engine of ${engine} has no file, no network and no other process`, async () => {
      const command = nodeCommand(engine, 64);
      const child = startConfined({ ...command, args: ['--no-warnings', '-e', left] }, state.confinement);
      let said = '';
      child.output.on('data', (bytes: Buffer) => {
        said += bytes.toString();
      });
      await child.exited;
      assert.equal(said, '[]', child.diagnostics());
    });
  }

  it('a confined child is measured and limited as its engine, not as bubblewrap', async () => {
    const command = nodeCommand('quickjs', 64);
    const program = `require("fs").writeSync(3, "up"); const until = process.cpuUsage().user + 300_000; while (process.cpuUsage().user < until); require("fs").writeSync(3, "used");
const kept = []; for (;;) kept.push(new Uint8Array(1 << 22).fill(1));`;
    const child = startConfined({ ...command, args: ['-e', program] }, state.confinement);
    const heard = new Set<string>();
    await new Promise<void>((settle) => {
      child.output.on('data', (bytes: Buffer) => {
        if (bytes.toString().startsWith('up')) void child.limitMemory(64);
        if (!bytes.toString().includes('used')) return;
        heard.add('used');
        assert.ok((child.cpuMs() ?? 0) >= 250);
        settle();
      });
    });
    assert.ok(heard.has('used'));
    assert.equal((await child.exited).outOfMemory, true);
  });
} else {
  it('whoever leaves an engine has no file, no network and no other process', {
    skip: state.detail,
  }, () => {});
}

for (const how of state.usable ? (['startChild', 'startConfined'] as const) : (['startChild'] as const)) {
  it(`a child dies with the program that started it by ${how}, even in an endless loop`, async () => {
    const command = nodeCommand('quickjs', 64);
    const mark = `codemode-test-${process.pid}-${how}`;
    const args = ['-e', 'require("fs").writeSync(3, "up"); for (;;);', mark];
    const url = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
    const start = `import { startChild, startConfined } from ${url('./child.ts')};
import { confinementState } from ${url('./confinement.ts')};
const child = ${how}(${JSON.stringify({ ...command, args })}, (await confinementState()).confinement);
child.output.once('data', () => { process.stdout.write('up'); });`;
    const parent = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', start], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(parent.stdout, 'data');
    assert.ok(running(mark).length > 0);
    const ended = once(parent, 'close');
    parent.kill('SIGKILL');
    await ended;
    const deadline = performance.now() + 5000;
    while (running(mark).length > 0 && performance.now() < deadline)
      await new Promise((settle) => setTimeout(settle, 10));
    assert.deepEqual(running(mark), []);
  });
}

/** Processes with this word among their arguments, whatever they are numbered inside their namespaces. */
function running(word: string): readonly string[] {
  return readdirSync('/proc').filter((entry) => {
    const path = `/proc/${entry}/cmdline`;
    try {
      return (
        /^\d+$/.test(entry) && existsSync(path) && readFileSync(path, 'latin1').split('\0').includes(word)
      );
    } catch {
      return false;
    }
  });
}

it('a child that is killed at any step of its start is gone, and nobody waits for it', async () => {
  for (let steps = 0; steps < 400; steps += 20) {
    const child = await childPlace(nodeCommand('quickjs', 64)).start();
    for (let step = 0; step < steps; step += 1) await new Promise((settle) => setImmediate(settle));
    child.kill();
    await child.exited;
  }
});
