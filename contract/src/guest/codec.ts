/**
 * Frames to bytes and back: the TypeScript half of the codec whose C half is `native/common/frame.c`.
 *
 * `FrameDecoder` takes a stream in any pieces. What it yields is well-formed, no more: which frames and fields
 * are allowed when is decided by whoever reads them (`fields.ts`, `host/src/guest`). Data is copied out of the
 * chunks it came in, so a frame may be kept.
 */
import {
  dataFrames,
  type FieldName,
  type FrameTypeName,
  fieldTags,
  frameDataBytesMax,
  frameFieldsMax,
  frameHeaderBytes,
  framePayloadBytesMax,
  frameTypes,
  integerMax,
} from './frames.ts';

export type DataFrameName = (typeof dataFrames)[number];
export type FieldFrameName = Exclude<FrameTypeName, DataFrameName>;
export type Field = { readonly name: FieldName; readonly value: number | Uint8Array };

export type Frame =
  | { readonly kind: 'data'; readonly type: DataFrameName; readonly data: Uint8Array }
  | { readonly kind: 'fields'; readonly type: FieldFrameName; readonly fields: readonly Field[] };

/** The same words as `frame_fault_text` in C; `truncated` is a stream that ends inside a frame. */
export type FrameFault = 'length' | 'type' | 'reserved' | 'field' | 'tag' | 'integer' | 'count' | 'truncated';

/** A byte string that is no frame, or a value that fits in none. */
export class FrameError extends Error {
  readonly fault: FrameFault;

  constructor(fault: FrameFault, message: string) {
    super(message);
    this.name = 'FrameError';
    this.fault = fault;
  }
}

const fieldHeaderBytes = 6;
const integerBytes = 8;
const isData = new Set<string>(dataFrames);
const typeNames = new Map<number, FrameTypeName>();
for (const [name, value] of Object.entries(frameTypes)) typeNames.set(value, name as FrameTypeName);
const tagNames = new Map<number, FieldName>();
for (const [name, { tag }] of Object.entries(fieldTags)) tagNames.set(tag, name as FieldName);

export const isDataFrame = (type: FrameTypeName): type is DataFrameName => isData.has(type);

/** The header of a data frame; the bytes follow it on the stream as they are. @throws FrameError `length` */
export function encodeDataHeader(type: DataFrameName, length: number): Uint8Array {
  if (length > frameDataBytesMax)
    throw new FrameError('length', `${length} bytes do not fit in one data frame`);
  return encodeHeader(new Uint8Array(frameHeaderBytes), type, length);
}

export function encodeData(type: DataFrameName, data: Uint8Array): Uint8Array {
  const frame = new Uint8Array(frameHeaderBytes + data.length);
  frame.set(encodeDataHeader(type, data.length));
  frame.set(data, frameHeaderBytes);
  return frame;
}

const textEncoder = new TextEncoder();

/** Text becomes UTF-8. A name may be repeated. @throws FrameError `length`, `count`, `integer` */
export function encodeFields(
  type: FieldFrameName,
  fields: Iterable<readonly [FieldName, number | string | Uint8Array]>,
): Uint8Array {
  const parts: (readonly [number, number | Uint8Array])[] = [];
  let payloadBytes = 0;
  for (const [name, value] of fields) {
    const part = checkedValue(name, value);
    parts.push([fieldTags[name].tag, part]);
    payloadBytes += fieldHeaderBytes + (typeof part === 'number' ? integerBytes : part.length);
  }
  if (parts.length > frameFieldsMax)
    throw new FrameError('count', `${parts.length} fields do not fit in one frame`);
  if (payloadBytes > framePayloadBytesMax) {
    throw new FrameError('length', `${payloadBytes} bytes do not fit in one frame (${framePayloadBytesMax})`);
  }
  const frame = encodeHeader(new Uint8Array(frameHeaderBytes + payloadBytes), type, payloadBytes);
  const view = new DataView(frame.buffer);
  let at = frameHeaderBytes;
  for (const [tag, value] of parts) {
    view.setUint16(at, tag, true);
    view.setUint32(at + 2, typeof value === 'number' ? integerBytes : value.length, true);
    at += fieldHeaderBytes;
    if (typeof value === 'number') {
      view.setUint32(at, value % 0x1_0000_0000, true);
      view.setUint32(at + 4, Math.floor(value / 0x1_0000_0000), true);
      at += integerBytes;
    } else {
      frame.set(value, at);
      at += value.length;
    }
  }
  return frame;
}

function checkedValue(name: FieldName, value: number | string | Uint8Array): number | Uint8Array {
  if ((fieldTags[name].type === 'u64') !== (typeof value === 'number')) {
    throw new TypeError(`field "${name}" takes ${fieldTags[name].type}`);
  }
  if (typeof value === 'string') return textEncoder.encode(value);
  if (typeof value === 'number' && (!Number.isSafeInteger(value) || value < 0)) {
    throw new FrameError('integer', `field "${name}" can't hold ${value}`);
  }
  return value;
}

function encodeHeader(frame: Uint8Array, type: FrameTypeName, payloadBytes: number): Uint8Array {
  frame[0] = payloadBytes & 0xff;
  frame[1] = (payloadBytes >>> 8) & 0xff;
  frame[2] = payloadBytes >>> 16;
  frame[4] = frameTypes[type];
  return frame;
}

export class FrameDecoder {
  readonly #header = new Uint8Array(frameHeaderBytes);
  #headerUsed = 0;
  #type: FrameTypeName | undefined;
  #payload: Uint8Array | undefined;
  #payloadUsed = 0;

  /**
   * Yields each frame that `chunk` completes. Stop iterating and the rest of the chunk is not consumed: `rest`
   * of the last call tells how much. @throws FrameError
   */
  *decode(chunk: Uint8Array): Generator<Frame, void, void> {
    this.restBytes = chunk.length;
    while (this.restBytes > 0 || this.#isComplete) {
      const at = chunk.length - this.restBytes;
      if (this.#payload === undefined) {
        const taken = Math.min(frameHeaderBytes - this.#headerUsed, this.restBytes);
        this.#header.set(chunk.subarray(at, at + taken), this.#headerUsed);
        this.#headerUsed += taken;
        this.restBytes -= taken;
        if (this.#headerUsed < frameHeaderBytes) return;
        this.#startPayload();
      } else if (!this.#isComplete) {
        const taken = Math.min(this.#payload.length - this.#payloadUsed, this.restBytes);
        this.#payload.set(chunk.subarray(at, at + taken), this.#payloadUsed);
        this.#payloadUsed += taken;
        this.restBytes -= taken;
      }
      if (this.#isComplete) yield this.#take();
    }
  }

  /** Bytes of the last chunk that no frame has taken yet: what follows the frame at which the caller stopped. */
  restBytes = 0;

  /** Call at the stream's end. @throws FrameError `truncated` inside a frame */
  end(): void {
    if (this.#headerUsed > 0) throw new FrameError('truncated', 'the stream ends inside a frame');
  }

  get #isComplete(): boolean {
    return this.#payload !== undefined && this.#payloadUsed === this.#payload.length;
  }

  #startPayload(): void {
    const header = new DataView(this.#header.buffer);
    const length = header.getUint32(0, true);
    const type = typeNames.get(header.getUint8(4));
    if (type === undefined) throw new FrameError('type', `no frame has type ${header.getUint8(4)}`);
    if (header.getUint8(5) !== 0 || header.getUint16(6) !== 0) {
      throw new FrameError('reserved', 'reserved bytes are not zero');
    }
    const max = isDataFrame(type) ? frameDataBytesMax : framePayloadBytesMax;
    if (length > max) throw new FrameError('length', `a "${type}" frame of ${length} bytes is above ${max}`);
    this.#type = type;
    this.#payload = new Uint8Array(length);
    this.#payloadUsed = 0;
  }

  #take(): Frame {
    const type = this.#type;
    const payload = this.#payload;
    if (type === undefined || payload === undefined)
      throw new TypeError('a frame is taken before it is complete');
    this.#headerUsed = 0;
    this.#payload = undefined;
    if (isDataFrame(type)) return { kind: 'data', type, data: payload };
    return { kind: 'fields', type: type as FieldFrameName, fields: decodeFields(payload) };
  }
}

function decodeFields(payload: Uint8Array): Field[] {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  const fields: Field[] = [];
  for (let at = 0; at < payload.length; ) {
    const left = payload.length - at;
    if (fields.length === frameFieldsMax) throw new FrameError('count', 'too many fields in one frame');
    if (left < fieldHeaderBytes) throw new FrameError('field', 'a field is cut off');
    const tag = view.getUint16(at, true);
    const length = view.getUint32(at + 2, true);
    const name = tagNames.get(tag);
    if (name === undefined) throw new FrameError('tag', `no field has tag ${tag}`);
    if (length > left - fieldHeaderBytes) throw new FrameError('field', `field "${name}" is cut off`);
    at += fieldHeaderBytes;
    const value = payload.subarray(at, at + length);
    fields.push({ name, value: fieldTags[name].type === 'u64' ? decodeInteger(name, value) : value });
    at += length;
  }
  return fields;
}

function decodeInteger(name: FieldName, bytes: Uint8Array): number {
  if (bytes.length !== integerBytes) {
    throw new FrameError('integer', `field "${name}" has ${bytes.length} bytes instead of ${integerBytes}`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, integerBytes);
  const value = view.getUint32(4, true) * 0x1_0000_0000 + view.getUint32(0, true);
  if (value > integerMax) throw new FrameError('integer', `field "${name}" is above ${integerMax}`);
  return value;
}
