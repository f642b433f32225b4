/**
 * Deno as a child: every permission denied by its flags, and by a broker that Deno has to ask for each and that knows only no. What was asked is the
 * audit log: code that stays in its realm never asks for anything, so an entry is a finding.
 */
import { rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { startChild } from './child.ts';
import type { Place } from './place.ts';
import { denoCommand } from './programs.ts';
import { makeScratchDirectory } from './scratch-directory.ts';

export interface PermissionRequest {
  readonly permission: string;
  readonly value: string;
}

export interface DenoOptions {
  readonly memoryMb: number;
  readonly onPermissionRequest: ((request: PermissionRequest) => void) | undefined;
}

/** A request names a path or an address; what is longer is no request. */
const requestBytesMax = 65_536;

export function denoPlace({ memoryMb, onPermissionRequest }: DenoOptions): Place {
  let broker: Promise<Broker> | undefined;
  return {
    async start() {
      broker ??= Broker.open(onPermissionRequest ?? (() => {}));
      const { path } = await broker;
      return startChild(denoCommand(memoryMb, { DENO_PERMISSION_BROKER_PATH: path }));
    },
    async dispose() {
      (await broker)?.close();
    },
  };
}

/** Answers no. */
export class Broker {
  readonly path: string;
  readonly #directory: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(directory: string, onRequest: (request: PermissionRequest) => void) {
    this.#directory = directory;
    // A short name: a socket's whole path has 107 bytes at most.
    this.path = join(directory, 'sock');
    this.#server = createServer((socket) => this.#serve(socket, onRequest)).unref();
  }

  static async open(onRequest: (request: PermissionRequest) => void): Promise<Broker> {
    // A folder of our own with mode 0700: nobody else answers in our place.
    const broker = new Broker(makeScratchDirectory('deno'), onRequest);
    await new Promise<void>((settle, reject) => {
      broker.#server.once('error', reject).listen(broker.path, settle);
    });
    return broker;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #serve(socket: Socket, onRequest: (request: PermissionRequest) => void): void {
    this.#sockets.add(socket.unref());
    socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
    // Counted as it comes: a line is held until it ends.
    let received = 0;
    socket.on('data', (bytes: Buffer) => {
      received += bytes.length;
      if (received > requestBytesMax) socket.destroy();
    });
    createInterface({ input: socket }).on('line', (line) => {
      // Without an answer Deno waits for ever, and the run ends by its wall time: also a no.
      const request = parseRequest(line);
      if (request === undefined) {
        socket.destroy();
        return;
      }
      received = 0;
      socket.write(
        `${JSON.stringify({ id: request.id, result: 'deny', reason: 'codemode gives no permission' })}\n`,
      );
      onRequest({ permission: request.permission, value: request.value });
    });
  }
}

function parseRequest(line: string): (PermissionRequest & { readonly id: number }) | undefined {
  try {
    const { id, permission, value } = JSON.parse(line) as Readonly<Record<string, unknown>>;
    if (typeof id !== 'number' || typeof permission !== 'string') return undefined;
    return { id, permission, value: typeof value === 'string' ? value : '' };
  } catch {
    return undefined;
  }
}
