/** Commands on a terminal: size, resize, interrupt, job control, hang-up. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { GuestExec, GuestExecSpec } from './guest.ts';
import { drain, guestIsMissing, RealGuest, specOf } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const options = { skip: guestIsMissing };
const asRoot = { skip: guestIsMissing || (process.getuid?.() === 0 ? false : 'needs root') };

const onTerminal = (argv: string[], change: Partial<GuestExecSpec> = {}): GuestExecSpec =>
  specOf(argv, {
    tty: { rows: 30, columns: 100 },
    stdin: 'pipe',
    env: { PATH: '/usr/bin:/bin', TERM: 'dumb' },
    ...change,
  });

/** Types and reads like a person: waits for a text, then goes on. */
class Typist {
  readonly #exec: GuestExec;
  #seen = '';
  #stored = 0;

  constructor(exec: GuestExec) {
    this.#exec = exec;
  }

  async type(keys: string): Promise<void> {
    await this.#exec.writeStdin(Buffer.from(keys));
  }

  /** Everything up to and with the text. */
  async see(text: string): Promise<string> {
    for (;;) {
      const at = this.#seen.indexOf(text);
      if (at >= 0) {
        const before = this.#seen.slice(0, at + text.length);
        this.#seen = this.#seen.slice(at + text.length);
        return before;
      }
      const { value } = await this.#exec.events().next();
      assert.ok(value?.type === 'output', `the command ended before "${text}"; seen: ${this.#seen}`);
      assert.equal(value.stream, 'stdout');
      this.#seen += value.data.toString('latin1');
      this.#stored += value.data.length;
      this.#exec.ack(this.#stored, 0);
    }
  }
}

test(
  'a terminal has the size asked for, is the controlling one, and carries stderr too',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const ran = await drain(
      await guest.client.exec(
        onTerminal(['sh', '-c', 'stty size; echo err >&2; echo here >/dev/tty; exit 2']),
      ),
    );
    assert.equal(ran.stdout, '30 100\r\nerr\r\nhere\r\n');
    assert.equal(ran.stderr, '');
    assert.equal(ran.outcome.exitCode, 2);
  },
);

test('a resize reaches the command', options, async () => {
  await using guest = await RealGuest.start();
  const exec = await guest.client.exec(
    onTerminal(['sh', '-c', 'trap "stty size; exit" WINCH; echo ready; while :; do sleep 0.02; done']),
  );
  const typist = new Typist(exec);
  await typist.see('ready');
  exec.resize(40, 132);
  await typist.see('40 132');
  assert.equal((await drain(exec)).outcome.exitCode, 0);
});

test('Ctrl-C interrupts and Ctrl-D ends', options, async () => {
  await using guest = await RealGuest.start();
  const sleeper = await guest.client.exec(onTerminal(['sh', '-c', 'echo ready; exec sleep 60']));
  await new Typist(sleeper).see('ready');
  await sleeper.writeStdin(Buffer.from('\x03'));
  assert.equal((await drain(sleeper)).outcome.signal, 2);
  const reader = await guest.client.exec(onTerminal(['cat']));
  await reader.writeStdin(Buffer.from('line\n'));
  reader.endStdin();
  const ran = await drain(reader);
  assert.equal(ran.stdout, 'line\r\nline\r\n');
  assert.equal(ran.outcome.exitCode, 0);
});

test('a shell has job control', options, async () => {
  await using guest = await RealGuest.start();
  const exec = await guest.client.exec(
    onTerminal(['bash', '--norc', '--noprofile', '-i'], {
      env: { PATH: '/usr/bin:/bin', PS1: 'squash> ', TERM: 'dumb' },
    }),
  );
  const typist = new Typist(exec);
  await typist.see('squash> ');
  await typist.type('sleep 60\r');
  await waitFor('sleep is in the foreground', async () => {
    const { tpgid } = await processOf(exec.pid);
    return tpgid !== exec.pid && (await processOf(tpgid)).name === 'sleep';
  });
  await typist.type('\x1a');
  await typist.see('Stopped');
  await typist.see('squash> ');
  await typist.type('bg; jobs\r');
  await typist.see('Running');
  await typist.type('kill %1; wait; exit 3\r');
  assert.equal((await drain(exec, undefined)).outcome.exitCode, 3);
});

test('output that fills the window before the end arrives whole', options, async () => {
  await using guest = await RealGuest.start();
  const ran = await drain(await guest.client.exec(onTerminal(['seq', '1', '100000'])));
  assert.equal(ran.stdout, Array.from({ length: 100_000 }, (_, i) => `${i + 1}\r\n`).join(''));
});

test('a background child of a terminal does not delay the exit', options, async () => {
  await using guest = await RealGuest.start();
  const ran = await drain(
    await guest.client.exec(onTerminal(['sh', '-c', 'trap "" HUP; sleep 60 & echo now'])),
  );
  assert.equal(ran.stdout, 'now\r\n');
});

test('a terminal belongs to the user of its command', asRoot, async () => {
  await using guest = await RealGuest.start();
  const exec = await guest.client.exec(
    onTerminal(['sh', '-c', 'stat -c %u $(tty); echo by-name > $(tty)'], { uid: 12_345, gid: 12_345 }),
  );
  assert.equal((await drain(exec)).stdout, '12345\r\nby-name\r\n');
});

/** Name, and the foreground process group of its terminal; both empty for a process that is gone. */
async function processOf(pid: number): Promise<{ name: string; tpgid: number }> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const [, name = '', rest = ''] = /\((.*)\) (.*)/s.exec(stat) ?? [];
  return { name, tpgid: Number(rest.split(' ')[5] ?? 0) };
}
