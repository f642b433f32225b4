/**
 * The SSH gateway's process: started, started again when it dies, ended with the daemon.
 *
 * It gets what it needs as descriptors and words, and nothing else: the listener, the directory of a socket on which it is nobody, and its
 * host key over a pipe that also tells it when the daemon is gone. `squash-launch gateway` takes files, network and id from it first.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, mkdirSync, openSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { errorText } from '@squash/base/bug';
import type { Log } from '@squash/base/log';
import { pause } from '@squash/base/pause';
import type { DaemonInfo } from '@squash/contract/daemon';
import { sshLimits } from '@squash/contract/ssh-limits';
import { launchProgram, projectDir } from '@squash/base/programs';
import { listenFailure } from '../http/listen.ts';
import { type GatewayKey, gatewayKey } from './host-key.ts';

interface GatewayOptions {
  readonly dataDir: string;
  /** Of the API, for the gateway alone. */
  readonly socketPath: string;
  readonly ssh: { readonly host: string; readonly port: number };
  readonly log: Log;
}

export interface Gateway extends AsyncDisposable {
  readonly info: NonNullable<DaemonInfo['ssh']>;
}

const program = `${projectDir}ssh/src/gateway/main.ts`;

/** @throws config_invalid where it can't listen */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { dataDir, ssh, log } = options;
  const key = await gatewayKey(join(dataDir, 'ssh', 'host_key'));
  mkdirSync(join(dataDir, 'log'), { recursive: true, mode: 0o700 });
  const first = await listen(ssh.host, ssh.port);
  const { address, port } = first.address() as AddressInfo;
  const info = { host: address, port, fingerprint: key.fingerprint };
  log.info('ssh.listens', info);
  const stopping = new AbortController();
  const running = keepAlive({ ...options, key, at: { host: address, port } }, first, stopping.signal);
  return {
    info,
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await running;
    },
  };
}

interface Keeping extends GatewayOptions {
  readonly key: GatewayKey;
  readonly at: { readonly host: string; readonly port: number };
}

async function keepAlive(keeping: Keeping, first: Server, stop: AbortSignal): Promise<void> {
  const { at, log } = keeping;
  for (let listener: Server | undefined = first; !stop.aborted; listener = undefined) {
    try {
      await runOnce(keeping, listener ?? (await listen(at.host, at.port)), stop);
    } catch (error) {
      log.error('ssh.start', { error: errorText(error) });
    }
    if (!stop.aborted) await pause(sshLimits.retryMs, stop);
  }
}

/** Resolves when it has ended. */
async function runOnce(keeping: Keeping, listener: Server, stop: AbortSignal): Promise<void> {
  await using stack = new AsyncDisposableStack();
  stack.defer(() => void listener.close());
  const child = start(keeping);
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code ?? 0}`));
  });
  const end = (): void => void child.kill('SIGKILL');
  stop.addEventListener('abort', end, { once: true });
  stack.defer(() => stop.removeEventListener('abort', end));
  // One that is gone already says so by its end.
  child.stdin?.on('error', () => undefined);
  child.stdin?.write(`${JSON.stringify({ hostKey: keeping.key.openSsh })}\n`);
  // What it says is never listened to: the channel is closed behind the one message that it gets.
  child.on('disconnect', () => undefined);
  child.send('listener', listener, () => {
    if (child.connected) child.disconnect();
    listener.close();
  });
  if (stop.aborted) end();
  keeping.log.info('ssh.up', { pid: child.pid });
  const how = await ended;
  if (!stop.aborted) keeping.log.warn('ssh.gone', { how });
}

function start({ dataDir, socketPath, log }: Keeping): ChildProcess {
  const output = openSync(join(dataDir, 'log', 'ssh.log'), 'a', 0o600);
  const directory = openSync(dirname(socketPath), constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const words = ['--disable-sigusr1', `--max-old-space-size=${sshLimits.heapMb}`, program];
    log.debug('ssh.start', { program });
    return spawn(launchProgram, ['gateway', '--app', projectDir, '--', process.execPath, ...words], {
      cwd: '/',
      stdio: ['pipe', output, output, 'ipc', directory],
      env: { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' },
    });
  } finally {
    closeSync(output);
    closeSync(directory);
  }
}

async function listen(host: string, port: number): Promise<Server> {
  // Whoever connects before the gateway has it comes again.
  const server = createServer((socket) => socket.destroy());
  server.listen({ host, port });
  try {
    await once(server, 'listening');
  } catch (error) {
    throw listenFailure(error, host, port);
  }
  return server;
}
