/**
 * The tap of a VMM's sandbox, in the hands of somebody who has taken the VMM over: by any frame the relay is all that he reaches. The same
 * frames are sent in a network without rules, where they are answered, so that silence in the sandbox is the wall's.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { encodeFields } from '@squash/contract/guest/codec';
import { SocketDirectory } from '@squash/base/socket-directory';
import { startVmm } from '../../host/src/drivers/microvm/vmm-channel.ts';
import { FrameConnection } from '../../host/src/guest/frame-connection.ts';
import { insideLauncher, type Place, startOf } from '../support/launcher.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { programLayer } from '../support/program-layer.ts';
import { ScriptedEgress } from '../support/scripted-egress.ts';

const isRoot = process.getuid?.() === 0;
/** Where the helper is missing the host's own node is what there is. */
const isOpenToAll = (statSync('/dev/net/tun', { throwIfNoEntry: false })?.mode ?? 0) & 0o006;

/** What the relay serves. */
const served = ['relay-tcp heard', 'relay-dns heard', 'relay-other-mac heard'];
/** No packet that has these sources finds its way back by itself: without a wall they are silent, too. */
const silentAnyway = ['source-own silence', 'source-loopback silence'];

/** Whatever a sandbox's command writes, until `end`. */
async function consoleOf(place: Place, instance: number): Promise<readonly string[]> {
  using sockets = new SocketDirectory(place.runDir);
  const connect = async () => await sockets.connect(`g/${instance}.sock`);
  const commands = [{ how: 'stay', argv: ['/bin/sh', '-c', '/tapper 2>&1'] }] as const;
  const connection = new FrameConnection(await connect());
  connection.stopBehindNextFrame();
  await connection.send(encodeFields('vmmConsole', []));
  assert.equal((await connection.next(10_000)).type, 'ok');
  const written = text(connection.detach());
  await startVmm(await connect(), { socket: '/dev/shm/v.sock', control: '/dev/shm/c.sock', commands });
  return (await written).trim().split('\n');
}

await insideLauncher(import.meta.filename, ['default', 'single', 'user', 'user-single'], async (place) => {
  const lowers = [await programLayer(place, 'tapper'), place.lower];

  test('by its tap a VMM reaches the relay and nothing else', async (t) => {
    const start = startOf(place, 'tapped', { vmm: true, vmmDevices: ['tun'], lowers });
    await place.client.createUpper(start.upper);
    t.after(async () => {
      await place.client.stop(start.name);
      await place.client.removeTree('sandboxes/tapped');
    });
    if (place.mode.startsWith('user') && !isOpenToAll) {
      await assert.rejects(place.client.start(start), /\/dev\/net\/tun/);
      return;
    }
    await using _egress = await ScriptedEgress.start(place.runDir, { onQuery: (message) => message });
    await place.client.start(start);
    const lines = await consoleOf(place, start.instance);
    assert.deepEqual(lines.slice(0, served.length), served, lines.join('\n'));
    for (const line of lines.slice(served.length, -1)) assert.match(line, /(silence|refused)$/);
    assert.equal(lines.at(-1), 'end');
  });

  test('a sandbox that is no VMM gets no device of the host', async () => {
    const start = startOf(place, 'plain', { vmmDevices: ['tun'] });
    await assert.rejects(place.client.start(start), { code: 'invalid_request' });
  });
});

if (process.env['SQUASH_TEST_PLACE'] === undefined)
  test('without the wall the same frames are answered', {
    skip: !isRoot && 'a tap without a wall is root’s',
  }, async () => {
    const folder = await mkdtemp(join(tmpdir(), ownedPrefix('tap')));
    try {
      const program = join(folder, 'tapper');
      const source = join(import.meta.dirname, '../support/tapper.c');
      execFileSync('gcc', ['-std=gnu17', '-D_GNU_SOURCE', '-static', '-o', program, source]);
      const apart = ['--fork', '--pid', '--kill-child', '--', program, 'weak'];
      const { stdout } = await promisify(execFile)('unshare', apart, { timeout: 60_000 });
      const lines = stdout.trim().split('\n');
      const weak = lines.filter((line) => !/(heard|made|end)$/.test(line));
      assert.deepEqual(weak, silentAnyway, stdout);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
