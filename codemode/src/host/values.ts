/** Values on the host's side: the same codec as in the guest, with the host's own built-ins. */
import { decodeValue } from '../kernel/decode.ts';
import { type EncodeFailure, encodeValue } from '../kernel/encode.ts';
import { capturePrimordials } from '../kernel/primordials.ts';
import type { CodecName } from '../types.ts';

const primordials = capturePrimordials();

/** @throws where the worker sent what is no value */
export function decodeHost(codec: CodecName, text: string | undefined): unknown {
  if (text === undefined) return undefined;
  return codec === 'structured' ? decodeValue(primordials, text) : JSON.parse(text);
}

/** @throws Error with a sentence that says what can't be carried */
export function encodeHost(codec: CodecName, value: unknown, bytesMax: number): string | undefined {
  if (value === undefined) return undefined;
  try {
    if (codec === 'structured') return encodeValue(primordials, value, { bytesMax, dropFunctions: true });
    const text = JSON.stringify(value) as string | undefined;
    if (text !== undefined && text.length > bytesMax)
      throw new RangeError(`it is larger than ${bytesMax} bytes`);
    return text;
  } catch (failure) {
    const reason =
      failure instanceof Error ? failure.message : String((failure as EncodeFailure | undefined)?.message);
    throw new TypeError(reason);
  }
}
