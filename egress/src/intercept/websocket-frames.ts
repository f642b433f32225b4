/**
 * WebSocket frames (RFC 6455) with a filter applied to what they carry. Extensions are not negotiated where this is
 * used, so payloads are plain.
 *
 * What a newcomer would get wrong: a placeholder may be spread over the fragments of one message, with pings in
 * between. The filter belongs to the message; what it holds back goes out with a later fragment, and frames are made anew.
 */
import type { ByteFilter } from '../flow/pump.ts';
import { interceptLimits } from './limits.ts';

/** The other side does not speak WebSocket as agreed. */
export class FrameError extends Error {}

interface FrameHead {
  readonly isFinal: boolean;
  readonly opcode: number;
  readonly mask: Buffer | undefined;
  readonly size: number;
}

const empty = Buffer.alloc(0);

/** One direction of a connection. */
export class FrameFilter implements ByteFilter {
  readonly #make: () => ByteFilter;
  /** Of the message under way. */
  #message: ByteFilter | undefined;
  /** Opcode of the message's first frame, until it was sent. */
  #opcode = 0;
  #frame: FrameHead | undefined;
  /** Bytes of the frame that came. */
  #seen = 0;
  #held: Buffer = empty;
  #out: Buffer[] = [];

  /** @param make a filter for one message, or one control frame */
  constructor(make: () => ByteFilter) {
    this.#make = make;
  }

  push(piece: Buffer): Buffer {
    this.#out = [];
    let rest = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece]);
    this.#held = empty;
    for (;;) {
      if (this.#frame === undefined) {
        const size = headSize(rest);
        if (size === undefined) break;
        this.#begin(rest.subarray(0, size));
        rest = rest.subarray(size);
      }
      const taken = this.#payload(rest);
      if (taken === undefined) break;
      rest = rest.subarray(taken);
    }
    // Copied: a few bytes must not keep the whole piece in memory.
    this.#held = rest.length === 0 ? empty : Buffer.from(rest);
    return this.#out.length === 1 ? (this.#out[0] ?? empty) : Buffer.concat(this.#out);
  }

  /** A connection that ends within a frame ends so for the other side, too. */
  end(): Buffer {
    return empty;
  }

  #begin(head: Buffer): void {
    const frame = parseHead(head);
    const isControl = frame.opcode >= 8;
    if (isControl && (frame.size > interceptLimits.controlFrameBytesMax || !frame.isFinal)) {
      throw new FrameError('a control frame is too long or in fragments');
    }
    if (!isControl && (frame.opcode === 0) !== (this.#message !== undefined)) {
      throw new FrameError('a fragment stands where a message begins, or the other way round');
    }
    if (!isControl && frame.opcode !== 0) {
      this.#message = this.#make();
      this.#opcode = frame.opcode;
    }
    this.#frame = frame;
    this.#seen = 0;
  }

  /** Takes what it can of the frame's payload; undefined: more is needed. */
  #payload(bytes: Buffer): number | undefined {
    const frame = this.#frame;
    if (frame === undefined) return undefined;
    const left = frame.size - this.#seen;
    // Short frames stay one frame; of long ones each piece goes on as a fragment.
    const isWhole = bytes.length >= left;
    if (!isWhole && (frame.size <= interceptLimits.collectedBytesMax || bytes.length === 0)) return undefined;
    const taken = Math.min(left, bytes.length);
    const plain = unmasked(bytes.subarray(0, taken), frame.mask, this.#seen);
    this.#seen += taken;
    if (isWhole) this.#frame = undefined;
    if (frame.opcode >= 8) this.#control(frame, plain);
    else this.#data(frame, plain, isWhole);
    return taken;
  }

  #control(frame: FrameHead, plain: Buffer): void {
    const filter = this.#make();
    const payload = Buffer.concat([filter.push(plain), filter.end()]);
    if (payload.length > interceptLimits.controlFrameBytesMax)
      throw new FrameError('a control frame grew too long');
    this.#out.push(encodeFrame({ ...frame, size: payload.length }, payload));
  }

  #data(frame: FrameHead, plain: Buffer, isFrameEnd: boolean): void {
    const isFinal = frame.isFinal && isFrameEnd;
    const parts = [this.#message?.push(plain) ?? plain];
    if (isFinal) {
      parts.push(this.#message?.end() ?? empty);
      this.#message = undefined;
    }
    const payload = Buffer.concat(parts);
    this.#out.push(
      encodeFrame({ isFinal, opcode: this.#opcode, mask: frame.mask, size: payload.length }, payload),
    );
    this.#opcode = 0;
  }
}

/** A close frame of the server's side: 2 bytes of code, and words for people. */
export function closeFrame(code: number, reason: string): Buffer {
  const words = Buffer.from(reason).subarray(0, interceptLimits.controlFrameBytesMax - 2);
  const payload = Buffer.concat([Buffer.from([code >> 8, code & 0xff]), words]);
  return encodeFrame({ isFinal: true, opcode: 8, mask: undefined, size: payload.length }, payload);
}

/** Undefined while the head is not whole. */
function headSize(bytes: Buffer): number | undefined {
  if (bytes.length < 2) return undefined;
  const second = bytes[1] ?? 0;
  const length = second & 0x7f;
  const size = 2 + (length === 126 ? 2 : length === 127 ? 8 : 0) + (second & 0x80 ? 4 : 0);
  return bytes.length < size ? undefined : size;
}

function parseHead(head: Buffer): FrameHead {
  const [first = 0, second = 0] = head;
  if ((first & 0x70) !== 0) throw new FrameError('a frame uses an extension that was not agreed');
  const length = second & 0x7f;
  const size =
    length === 126 ? head.readUInt16BE(2) : length === 127 ? Number(head.readBigUInt64BE(2)) : length;
  if (!Number.isSafeInteger(size)) throw new FrameError('a frame is too long to be counted');
  return {
    isFinal: (first & 0x80) !== 0,
    opcode: first & 0x0f,
    mask: (second & 0x80) === 0 ? undefined : Buffer.from(head.subarray(-4)),
    size,
  };
}

function encodeFrame({ isFinal, opcode, mask, size }: FrameHead, plain: Buffer): Buffer {
  const first = (isFinal ? 0x80 : 0) | opcode;
  const flag = mask === undefined ? 0 : 0x80;
  let head: Buffer;
  if (size < 126) head = Buffer.from([first, flag | size]);
  else if (size < 65_536) head = Buffer.from([first, flag | 126, size >> 8, size & 0xff]);
  else {
    head = Buffer.alloc(10);
    head[0] = first;
    head[1] = flag | 127;
    head.writeBigUInt64BE(BigInt(size), 2);
  }
  return Buffer.concat(mask === undefined ? [head, plain] : [head, mask, unmasked(plain, mask, 0)]);
}

/** Masking is its own inverse. `offset` is where in the payload the bytes begin. */
function unmasked(bytes: Buffer, mask: Buffer | undefined, offset: number): Buffer {
  if (mask === undefined) return bytes;
  const plain = Buffer.allocUnsafe(bytes.length);
  for (let at = 0; at < bytes.length; at += 1) plain[at] = (bytes[at] ?? 0) ^ (mask[(offset + at) & 3] ?? 0);
  return plain;
}
