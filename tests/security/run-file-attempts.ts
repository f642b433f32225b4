/**
 * Registers a test for every attempt at file operations against one real sandbox, whose PID 1 the test asks with the
 * daemon's own guest client. A breach fails; after each the daemon, the neighbour and the host are as they were.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { SocketDirectory } from '@squash/base/socket-directory';
import { GuestClient } from '../../host/src/guest/client.ts';
import { throughToGuest } from '../../host/src/drivers/microvm/vmm-channel.ts';
import { FrameConnection } from '../../host/src/guest/frame-connection.ts';
import { isOnVms } from '../support/backend.ts';
import { drain } from '../support/real-guest.ts';
import { fileOperationAttempts } from './attempts/file-operations.ts';
import { attemptOutcome, Bait, begin, type Ground } from './file-attempt.ts';
import { UnderAttack, type UnderAttackOptions } from './under-attack.ts';

const directory = '/work';

export function runFileAttempts(
  where: string,
  options: UnderAttackOptions = {},
  attempts = fileOperationAttempts,
): void {
  const stack = new AsyncDisposableStack();
  let scene: UnderAttack;
  let ground: Omit<Ground, 'bait'>;

  before(async () => {
    scene = stack.use(await UnderAttack.start(options));
    const runDir = join(scene.daemon.dataDir, 'run');
    const others = sockets(runDir);
    await scene.create('files');
    const [own] = sockets(runDir).filter((name) => !others.includes(name));
    if (own === undefined) throw new Error('the sandbox has no socket');
    const connections = stack.use(new SocketDirectory(runDir));
    const connect = async (signal?: AbortSignal) => {
      const connection = await connections.connect(own, signal);
      return isOnVms ? await throughToGuest(connection, signal) : connection;
    };
    ground = {
      guest: new GuestClient({ connect }),
      ask: async (frame) => {
        using connection = new FrameConnection(await connect());
        connection.post(frame);
        return connection.next(10_000);
      },
      tool: '/attack/attack',
      directory,
      secrets: scene.secrets,
      hasUsers: true,
    };
    await using bait = await Bait.make();
    const map = await drain(await begin({ ...ground, bait, directory: '/' }, 'cat /proc/self/uid_map'));
    ground = { ...ground, hasUsers: / (65536|4294967295)$/m.test(map.stdout) };
  });

  after(() => stack.disposeAsync());

  for (const attempt of attempts) {
    test(`${where} holds when ${attempt.id} is tried`, async () => {
      await using bait = await Bait.make();
      const own = { ...ground, bait };
      const fresh = `rm -rf ${directory} && mkdir -m 777 ${directory}`;
      assert.equal((await drain(await begin({ ...own, directory: '/' }, fresh))).outcome.exitCode, 0);
      const outcome = await attemptOutcome(own, attempt);
      assert.ok(!outcome.isBreach, outcome.why);
      await scene.expectUnharmed();
    });
  }
}

function sockets(runDir: string): readonly string[] {
  return readdirSync(join(runDir, 'g'))
    .filter((name) => name.endsWith('.sock'))
    .map((name) => `g/${name}`);
}
