/** What is a silence of the launcher, and what is not: a queue that is full for a moment, and the stalls of whoever asks. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { SocketDirectory } from '@squash/base/socket-directory';
import { type LookTimes, waitForLauncher } from './launcher-look.ts';

/** Listens, stands still for a time, and answers from then on, in a thread of its own. */
const script = `
  const { createServer } = require('node:net');
  const { parentPort, workerData } = require('node:worker_threads');
  const server = createServer((socket) => {
    socket.on('error', () => undefined).once('data', () => socket.write('here'));
  });
  server.listen({ path: workerData.path, backlog: 1 }, () => {
    parentPort.postMessage('listens');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, workerData.stillMs);
  });
`;

class ThreadLauncher implements AsyncDisposable {
  readonly sockets: SocketDirectory;
  readonly #directory: string;
  readonly #worker: Worker;
  readonly #waiting: Socket[] = [];

  private constructor(directory: string, stillMs: number) {
    this.#directory = directory;
    this.sockets = new SocketDirectory(directory);
    this.#worker = new Worker(script, { eval: true, workerData: { path: this.#path, stillMs } });
  }

  static async start(stillMs: number): Promise<ThreadLauncher> {
    const launcher = new ThreadLauncher(await mkdtemp(join(tmpdir(), 'squash-look-')), stillMs);
    await once(launcher.#worker, 'message');
    return launcher;
  }

  get #path(): string {
    return join(this.#directory, 'launch.sock');
  }

  /** Resolves when the kernel takes no more connections for it. */
  async fillQueue(): Promise<void> {
    for (;;) {
      const socket = connect(this.#path);
      try {
        await once(socket, 'connect');
        this.#waiting.push(socket);
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'EAGAIN');
        return;
      }
    }
  }

  waits(times: Partial<LookTimes>, signal = new AbortController().signal): Promise<boolean> {
    return waitForLauncher(this.sockets, times, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#waiting) socket.destroy();
    await this.#worker.terminate();
    this.sockets[Symbol.dispose]();
    await rm(this.#directory, { recursive: true });
  }
}

/** This thread as one that is stopped again and again, before each time that it reads its sockets. */
function stalls(ms: number): Disposable {
  const still = new Int32Array(new SharedArrayBuffer(4));
  const timer = setInterval(() => Atomics.wait(still, 0, 0, ms), 1);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

test('a launcher whose queue is full for a moment does not hang', async () => {
  await using launcher = await ThreadLauncher.start(500);
  await launcher.fillQueue();
  assert.equal(await launcher.waits({ answerMs: 200, hungMs: 10_000 }), true);
});

test('one whose queue stays full hangs, after as long as one that is silent', async () => {
  await using launcher = await ThreadLauncher.start(30_000);
  await launcher.fillQueue();
  const begunMs = performance.now();
  assert.equal(await launcher.waits({ answerMs: 100, hungMs: 500 }), false);
  assert.ok(performance.now() - begunMs >= 490);
});

test('an answer that lies in the socket when its time is over is an answer', async () => {
  await using launcher = await ThreadLauncher.start(0);
  using _stalls = stalls(150);
  assert.equal(await launcher.waits({ answerMs: 100, hungMs: 100 }), true);
});

test('who was stopped for long while it waited holds no silence against anybody', async () => {
  await using launcher = await ThreadLauncher.start(1_000);
  using _stalls = stalls(300);
  assert.equal(await launcher.waits({ answerMs: 100, hungMs: 200 }), true);
});

test('nobody is judged when the wait is given up', async () => {
  await using launcher = await ThreadLauncher.start(30_000);
  const begunMs = performance.now();
  assert.equal(await launcher.waits({ answerMs: 5_000, hungMs: 20_000 }, AbortSignal.timeout(100)), true);
  assert.ok(performance.now() - begunMs < 4_000);
});
