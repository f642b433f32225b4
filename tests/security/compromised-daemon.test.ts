/** What a compromised daemon says to root's command line: nothing of the host ends by it. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { repository } from '../support/base-layer.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

const daemonId = 0x70_00_00_00;
const asRoot = { skip: process.getuid?.() === 0 ? false : 'only root can end what is not his' };

/** Answers `GET /v1/info` as the daemon of `data` would, with a process of its choice. */
async function fakeDaemon(data: string, pid: number) {
  const info = JSON.stringify({ pid, data_dir: data, version: '0.0.0' });
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end(info);
  });
  const socket = join(data, 'run/api.sock');
  server.listen(socket);
  await once(server, 'listening');
  chownSync(socket, daemonId, daemonId);
  return server;
}

function isAlive(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

test(
  'squash stop ends no process that is not the daemon’s, whoever answers on the socket',
  asRoot,
  async () => {
    const data = mkdtempSync(join('/tmp', ownedPrefix('fake')));
    mkdirSync(join(data, 'run'));
    for (const path of [data, join(data, 'run')]) chownSync(path, daemonId, daemonId);
    const victims = [
      spawn('sleep', ['600']),
      spawn('sleep', ['600'], { uid: daemonId, gid: daemonId }),
    ] as const;
    const stop = async (pid = 0): Promise<string> => {
      await using server = await fakeDaemon(data, pid);
      const env = { ...process.env, SQUASH_DATA: data };
      const { stdout, stderr } = await promisify(execFile)(join(repository, 'squash'), ['stop'], {
        env,
      }).catch((failure: { stdout: string; stderr: string }) => failure);
      rmSync(join(data, 'run/api.sock'), { force: true });
      server.closeAllConnections();
      return stdout + stderr;
    };
    try {
      assert.match(await stop(victims[0].pid), /not with the rights of uid 1879048192/);
      assert.ok(isAlive(victims[0]));
      assert.match(await stop(-1), /is not on this machine/);
      assert.ok(isAlive(victims[1]));
      const ended = once(victims[1], 'exit');
      assert.match(await stop(victims[1].pid), /Stopped the daemon/, 'its own it may name');
      await ended;
    } finally {
      for (const victim of victims) victim.kill('SIGKILL');
      rmSync(data, { recursive: true });
    }
  },
);
