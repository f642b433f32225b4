/**
 * The worker's end of the protocol. Writes are synchronous: what the code logged before it loops for ever must have left the
 * process when that is killed.
 */
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { encodeFrame, FrameReader } from '../protocol/framing.ts';
import type { HostFrame, WorkerFrame } from '../protocol/frames.ts';

export interface Channel {
  send(frame: WorkerFrame): void;
  /** Ends when the host is gone. */
  readonly frames: AsyncIterable<HostFrame>;
}

/** `fd3` is a socket of the parent's; `stdio` is for places that offer nothing else, where it carries only frames. */
export function openChannel(kind: string): Channel {
  if ('Deno' in globalThis)
    return denoChannel((globalThis as unknown as { readonly Deno: DenoStreams }).Deno);
  const [input, output] = kind === 'stdio' ? [0, 1] : [3, 3];
  return {
    send: (frame) => writeAll(encodeFrame(frame), (bytes) => writeSync(output, bytes)),
    frames: framesOf(new Socket({ fd: input, readable: true, writable: false })),
  };
}

/** The part of Deno's namespace that is used; taken before the code can run, and the code's realm has no Deno. */
interface DenoStreams {
  readonly stdin: { readonly readable: AsyncIterable<Uint8Array> };
  readonly stdout: { writeSync(bytes: Uint8Array): number };
}

function denoChannel({ stdin, stdout }: DenoStreams): Channel {
  return {
    send: (frame) => writeAll(encodeFrame(frame), (bytes) => stdout.writeSync(bytes)),
    frames: framesOf(stdin.readable),
  };
}

async function* framesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<HostFrame> {
  const reader = new FrameReader();
  // Trusted: the host checks what it sends, and nobody else has this descriptor.
  for await (const bytes of input) yield* reader.push(bytes) as readonly HostFrame[];
}

function writeAll(bytes: Uint8Array, write: (bytes: Uint8Array) => number): void {
  for (let sent = 0; sent < bytes.length; ) {
    try {
      sent += write(bytes.subarray(sent));
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code !== 'EAGAIN') throw failure;
      // The host reads slowly: the code waits, instead of this process holding what it writes.
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4));
