/**
 * What `@cloudflare/codemode` makes of a value between program and tool: JSON, with bytes in an envelope. A tool that was written for it sees the
 * same here.
 */
const binaryTag = '__codemode_binary_v1__';

export function asTransported(value: unknown): unknown {
  if (value === undefined) return undefined;
  const text = JSON.stringify(value, (_, nested: unknown) => encodeBytes(nested)) as string | undefined;
  return text === undefined
    ? undefined
    : (JSON.parse(text, (_, nested: unknown) => decodeBytes(nested)) as unknown);
}

function encodeBytes(value: unknown): unknown {
  const kind =
    value instanceof Uint8Array
      ? 'Uint8Array'
      : value instanceof ArrayBuffer
        ? 'ArrayBuffer'
        : ArrayBuffer.isView(value)
          ? 'ArrayBufferView'
          : undefined;
  if (kind === undefined) return value;
  const { buffer, byteOffset, byteLength } =
    value instanceof ArrayBuffer
      ? { buffer: value, byteOffset: 0, byteLength: value.byteLength }
      : (value as Uint8Array);
  return { [binaryTag]: kind, data: Buffer.from(buffer, byteOffset, byteLength).toString('base64') };
}

/** A view other than Uint8Array arrives as its bytes, as there. */
function decodeBytes(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, binaryTag)) return value;
  const { [binaryTag]: kind, data } = value as Readonly<Record<string, unknown>>;
  if (typeof data !== 'string') return value;
  const bytes = new Uint8Array(Buffer.from(data, 'base64'));
  return kind === 'ArrayBuffer' ? bytes.buffer : bytes;
}
