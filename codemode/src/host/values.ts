/** Values on the host's side: the same codec as in the guest, with the host's own built-ins. */
import { decodeValue } from '../kernel/decode.ts';
import { type EncodeFailure, encodeValue } from '../kernel/encode.ts';
import { capturePrimordials } from '../kernel/primordials.ts';
import type { CodecName } from '../types.ts';

const primordials = capturePrimordials();

/** Ordinary values take a fifth of it; what they always may is a pause of the collector, which counts too. */
const decodeMsMax = { always: 100, perMegabyte: 500 } as const;

/** @throws where the worker sent what is no value, or one that takes too long to be made */
export function decodeHost(codec: CodecName, text: string | undefined): unknown {
  if (text === undefined) return undefined;
  if (codec === 'json') return JSON.parse(text);
  const watch = cpuWatch(decodeMsMax.always + (text.length / 1_000_000) * decodeMsMax.perMegabyte);
  return decodeValue({ ...primordials, watch }, text);
}

/**
 * An expression takes longer to be made than its text says. The keys of a Map and of a Set are the program's, and V8 hashes numbers without a secret:
 * sixty thousand that fall into one place take quarter of a minute to put there. Processor time, so that a busy machine refuses nothing.
 */
function cpuWatch(msMax: number): () => void {
  const began = process.threadCpuUsage();
  return () => {
    const { user, system } = process.threadCpuUsage(began);
    if ((user + system) / 1000 > msMax) throw new TypeError('malformed value');
  };
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
