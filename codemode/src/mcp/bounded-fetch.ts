/** `fetch` for servers that somebody else runs: what they answer is held in memory whole, so it has an end. */
import { setTimeout as pause } from 'node:timers/promises';

/** As much as the SDK takes of one message over standard output, and some: four times what a tool's result may be at most. */
const messageBytesMax = 41_943_040;

/** Between two questions for a server's own stream, which it may end at once each time and say that the next one is to come at once. */
const streamMsMin = 50;

/** For one server. */
export function fetchFor(): typeof boundedFetch {
  let next = 0;
  return async (url, options) => {
    if (options?.method === 'GET') {
      const ms = next - performance.now();
      next = Math.max(next, performance.now()) + streamMsMin;
      if (ms > 0) await pause(ms, undefined, { signal: options.signal ?? undefined });
    }
    return await boundedFetch(url, options);
  };
}

/** The answer's body as it is, until one message in it is larger than any that is of use. */
export async function boundedFetch(url: string | URL, options?: RequestInit): Promise<Response> {
  const response = await fetch(url, options);
  if (response.body === null) return response;
  const { status, statusText, headers } = response;
  const bounded = new Response(response.body.pipeThrough(limited()), { status, statusText, headers });
  // Made by hand it has no address, by which the SDK tells where a redirect led.
  Object.defineProperty(bounded, 'url', { value: response.url });
  Object.defineProperty(bounded, 'redirected', { value: response.redirected });
  return bounded;
}

/** A stream of events may go on for days: there an empty line ends a message. */
function limited(): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(chunk, out) {
      const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      const end = Math.max(text.lastIndexOf('\n\n'), text.lastIndexOf('\r\n\r\n'));
      bytes = end < 0 ? bytes + text.length : text.length - end;
      if (bytes > messageBytesMax)
        out.error(new RangeError(`a message of the server is larger than ${messageBytesMax} bytes`));
      else out.enqueue(chunk);
    },
  });
}
