/** What the driver says of a launcher that is of another release, or does not answer. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { encodeFields } from '@squash/contract/guest/codec';
import { limits } from '@squash/contract/limits';
import { LaunchClient } from '../../launch/launch-client.ts';
import { waitFor } from '../../../../tests/support/wait.ts';
import { NamespaceDriver } from './namespace-driver.ts';

/** A launcher that begins every watch by saying what it speaks, unless it hangs. */
class ScriptedLauncher implements AsyncDisposable {
  readonly directory: string;
  readonly client: LaunchClient;
  isHanging = false;
  readonly #server = createServer((socket) => this.#serve(socket));
  readonly #sockets = new Set<Socket>();
  readonly #protocol: number | undefined;

  private constructor(directory: string, protocol: number | undefined) {
    this.directory = directory;
    this.client = new LaunchClient(directory);
    this.#protocol = protocol;
  }

  static async start(protocol?: number): Promise<ScriptedLauncher> {
    const launcher = new ScriptedLauncher(await mkdtemp(join(tmpdir(), 'squash-scripted-')), protocol);
    launcher.#server.listen(join(launcher.directory, 'launch.sock'));
    await once(launcher.#server, 'listening');
    return launcher;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await this.#server[Symbol.asyncDispose]();
    this.client[Symbol.dispose]();
    await rm(this.directory, { recursive: true });
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy()).on('close', () => this.#sockets.delete(socket));
    socket.once('data', () => {
      if (this.isHanging) return;
      const fields = this.#protocol === undefined ? [] : [['protocol', this.#protocol] as const];
      socket.write(encodeFields('started', fields));
    });
  }
}

for (const [protocol, codes] of [
  [undefined, []],
  [1, []],
  [2, ['launcher_outdated']],
] as const) {
  test(`a launcher that says protocol ${protocol} is told of with ${JSON.stringify(codes)}`, async () => {
    await using launcher = await ScriptedLauncher.start(protocol);
    const { client, directory } = launcher;
    const places = { dataDir: directory, runDir: directory, hungMs: limits.launcherHungMs };
    const options = { ...places, capabilities: [], upper: 'directory', snapshotBytesMax: 1 } as const;
    await using driver = new NamespaceDriver({ ...options, launcher: client });
    const ours = () => driver.problems().filter(({ code }) => code.startsWith('launcher'));
    assert.equal((await driver.outdated())?.code, codes[0]);
    await waitFor('the watch', () => !ours().some(({ code }) => code === 'launcher_unavailable'));
    assert.deepEqual(
      ours().map(({ code }) => code),
      codes,
    );
    for (const { message } of ours())
      assert.match(message, /speaks protocol 2, .*squash stop --all, squash serve/);
  });
}

test('a launcher that answers nothing is away until it answers, and hangs only when it does not for long', async () => {
  await using launcher = await ScriptedLauncher.start(1);
  const listener = { onEvent: () => undefined, onHelper: () => undefined, onGap: () => undefined };
  await using watch = launcher.client.watch(listener, { lookMs: 20, answerMs: 100, hungMs: 480 });
  let isHung = false;
  void watch.hung.then(() => (isHung = true));
  await waitFor('the watch', () => watch.isWatching());
  for (const isHanging of [true, false]) {
    launcher.isHanging = isHanging;
    await waitFor(`an answer or none`, () => watch.isWatching() !== isHanging);
  }
  assert.equal(isHung, false);
  launcher.isHanging = true;
  await watch.hung;
  assert.equal(watch.isWatching(), false);
});
