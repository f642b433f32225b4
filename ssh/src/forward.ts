/**
 * `ssh -L` and `-D`: a channel to a port of the sandbox's own loopback, by `port.tcp`. Nothing else is reached: who wants to go on from
 * the sandbox to other hosts starts a program in it, and the sandbox's policy decides.
 */
import type { TcpMessage } from '@squash/contract/ports';
import { type Daemon, sandboxPath } from './daemon.ts';
import type { ChannelPipe } from './channel.ts';
import type { Messages } from './messages.ts';

/** The names and addresses that are the sandbox's loopback. */
export function isOwnLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

/** Opens the way to the port; a sandbox that is not there is told before the channel is. @throws ApiError */
export async function dialPort(daemon: Daemon, sandbox: string, port: number): Promise<Messages> {
  return await daemon.webSocket(sandboxPath(sandbox, 'ports', `${port}`, 'tcp'), 'squash.tcp.v1');
}

/** Carries bytes until both sides have ended, or one is gone. */
export async function carryPort(messages: Messages, pipe: ChannelPipe): Promise<void> {
  const leave = (): void => messages.terminate();
  pipe.gone.addEventListener('abort', leave, { once: true });
  if (pipe.gone.aborted) leave();
  try {
    await Promise.all([up(pipe, messages), down(messages, pipe)]);
    messages.close();
  } catch {
    // The port, the daemon or the client broke off: either side is told by the end of its connection.
    messages.terminate();
  } finally {
    pipe.end();
  }
}

async function up(pipe: ChannelPipe, messages: Messages): Promise<void> {
  for await (const chunk of pipe.input()) await messages.send(chunk);
  await messages.send(JSON.stringify({ type: 'eof' } satisfies TcpMessage));
}

async function down(messages: Messages, pipe: ChannelPipe): Promise<void> {
  for (let hasEnded = false; ; ) {
    const message = await messages.receive();
    if (message === undefined) {
      if (hasEnded) return;
      throw new Error('the daemon closed the connection');
    }
    if (message.type === 'binary') {
      await pipe.write(message.data);
      continue;
    }
    const said = JSON.parse(message.text) as TcpMessage;
    if (said.type === 'error') throw new Error(said.message);
    hasEnded = true;
    pipe.endOutput();
  }
}
