/**
 * Frames of `codemode/1`: four bytes of length (big endian), then as many bytes of JSON. Used on both sides and by every
 * place, so it imports nothing but Node's buffers, which Deno has too.
 */
import { Buffer } from 'node:buffer';

export const protocolVersion = 1;

/** Above the widest limits a run may have (11 MB of text, three bytes each, half of it escaped): no legal frame meets it. */
export const frameBytesMax = 67_108_864;

export function encodeFrame(frame: object): Buffer {
  const text = JSON.stringify(frame);
  const length = Buffer.byteLength(text);
  if (length > frameBytesMax) throw new RangeError(`a frame of ${length} bytes, ${frameBytesMax} at most`);
  const bytes = Buffer.allocUnsafe(4 + length);
  bytes.writeUInt32BE(length);
  bytes.write(text, 4);
  return bytes;
}

/** Cuts a stream of bytes into frames. */
export class FrameReader {
  /** What a frame may be from now on. */
  bytesMax = frameBytesMax;
  #parts: Buffer[] = [];
  #held = 0;

  /** The frames that are complete now, as parsed JSON. @throws where the peer breaks the framing */
  push(bytes: Uint8Array): readonly unknown[] {
    this.#parts.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    this.#held += bytes.byteLength;
    const frames: unknown[] = [];
    for (
      let length = this.#nextLength();
      length !== undefined && this.#held >= 4 + length;
      length = this.#nextLength()
    ) {
      const all = this.#joined();
      frames.push(JSON.parse(all.toString('utf8', 4, 4 + length)));
      this.#keep(all.subarray(4 + length));
    }
    return frames;
  }

  #nextLength(): number | undefined {
    if (this.#held < 4) return undefined;
    const first = this.#parts[0];
    const length = (first !== undefined && first.length >= 4 ? first : this.#joined()).readUInt32BE();
    if (length > this.bytesMax) throw new RangeError(`a frame of ${length} bytes, ${this.bytesMax} at most`);
    return length;
  }

  #joined(): Buffer {
    const all = this.#parts.length === 1 ? this.#parts[0] : undefined;
    const joined = all ?? Buffer.concat(this.#parts);
    this.#keep(joined);
    return joined;
  }

  #keep(rest: Buffer): void {
    this.#parts = rest.length === 0 ? [] : [rest];
    this.#held = rest.length;
  }
}
