/** A sandbox of the launcher without an engine above it, for tests of what the launcher does. */
import assert from 'node:assert/strict';
import { SocketDirectory } from '@squash/base/socket-directory';
import { GuestClient } from '../../host/src/guest/client.ts';
import type { LaunchStart } from '../../host/src/launch/launch-fields.ts';
import { type Place, startOf } from './launcher.ts';

export interface ShellResult {
  readonly output: string;
  /** Undefined where a signal ended the shell. */
  readonly exitCode: number | undefined;
}

export interface LaunchedSandbox extends AsyncDisposable {
  readonly start: LaunchStart;
  /** Runs a line in `/bin/sh`; stderr is in the output. */
  sh(line: string): Promise<ShellResult>;
}

/** Starts a sandbox; disposing stops it and removes its files. */
export async function launchSandbox(
  place: Place,
  name: string,
  changes: Partial<LaunchStart> = {},
): Promise<LaunchedSandbox> {
  const start = startOf(place, name, changes);
  await place.client.createUpper(start.upper);
  await place.client.start(start);
  const sockets = new SocketDirectory(place.runDir);
  const guest = new GuestClient({
    connect: (signal) => sockets.connect(`g/${start.instance}.sock`, signal),
  });
  let execs = 0;
  return {
    start,
    async sh(line) {
      execs += 1;
      return runLine(guest, { execId: String(execs), line, openFilesMax: start.openFilesMax });
    },
    async [Symbol.asyncDispose]() {
      await place.client.stop(start.name);
      await place.client.removeTree(`sandboxes/${name}`);
      sockets[Symbol.dispose]();
    },
  };
}

async function runLine(
  guest: GuestClient,
  asked: { readonly execId: string; readonly line: string; readonly openFilesMax: number },
): Promise<ShellResult> {
  const exec = await guest.exec({
    execId: asked.execId,
    argv: ['/bin/sh', '-c', `exec 2>&1; ${asked.line}`],
    env: { PATH: '/bin' },
    cwd: '/',
    uid: 0,
    gid: 0,
    tty: undefined,
    stdin: 'none',
    timeoutMs: undefined,
    openFilesMax: asked.openFilesMax,
  });
  let output = '';
  for await (const event of exec.events()) {
    if (event.type === 'output') output += event.data.toString();
    if (event.type !== 'exit') continue;
    exec.release();
    exec.close();
    return { output, exitCode: event.outcome.exitCode };
  }
  return assert.fail(`no exit of: ${asked.line}`);
}
