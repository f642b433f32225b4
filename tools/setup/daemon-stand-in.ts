/**
 * Answers the calls that `build-programs.ts` makes so that V8 compiles what usual calls run, and nothing else.
 *
 * It says what the daemon would, in the fewest bytes. A wrong answer here costs a millisecond of every call and
 * breaks nothing: the function it misses is compiled when it is called.
 */
import { rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { makeScratchDirectory } from '@squash/base/scratch-directory';

const sandbox = {
  id: 'dev',
  owner: 'anon',
  task: '',
  layers: ['000-base-debian'],
  created: '2026-01-01T00:00:00.000Z',
  state: 'ready',
  exec_count: 1,
  upper_bytes: 1_000_000,
};
const info = { version: '0', config: [{ name: 'SQUASH_HOST_ROOT', value: '1' }] };
const box = { id: 'box', warnings: [] };
/** The messages of `GET /v1/sandboxes/{id}/exec` for a command that says a word and ends. */
const messages = [
  textFrame(JSON.stringify({ type: 'started', seq: 1 })),
  Buffer.from([0x82, 4, 1, 0x6f, 0x6b, 0x0a]),
  textFrame(JSON.stringify({ type: 'exit', exit_code: 0, reason: 'exited' })),
];

function textFrame(text: string): Buffer {
  return Buffer.from([0x81, text.length, ...Buffer.from(text)]);
}

function bodyOf(request: string): unknown {
  if (request.startsWith('GET /v1/info ')) return info;
  if (request.startsWith('POST /v1/sandboxes ')) return box;
  return / \/v1\/sandboxes\/box\/changes/.test(request) ? { items: [], next: null } : [sandbox];
}

function answer(socket: Socket, request: string): void {
  if (/^upgrade: websocket/im.test(request)) {
    const head = 'connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-protocol: squash.exec.v1';
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${head}\r\n\r\n`);
    for (const message of messages) socket.write(message);
    return;
  }
  const body = JSON.stringify(bodyOf(request));
  socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`);
}

/** Listens on a socket of its own for as long as `work` runs. */
export async function withStandIn(work: (socketPath: string) => Promise<void>): Promise<void> {
  const directory = makeScratchDirectory(tmpdir(), 'squash-cli');
  const path = join(directory, 'api.sock');
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (data: Buffer) => answer(socket, data.toString('latin1')));
  }).listen(path);
  try {
    await once(server, 'listening');
    await work(path);
  } finally {
    server.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
