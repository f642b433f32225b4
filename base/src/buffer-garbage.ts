/**
 * Collects the buffers that streams leave behind where V8 is late to.
 *
 * To V8 a buffer of 64 KB is a small object with its bytes elsewhere. It begins to collect when some eighty megabytes of them
 * have gathered, beside the work and on threads of its own; where these wait for a processor, a command that writes without
 * end is far ahead, and what malloc took for it stays with the process until it rests. So what is held is looked at as it
 * comes, and above a bound collected at once.
 */

const bytesBetween = 16_777_216;
const heldBytesMax = 50_331_648;

let bytesSince = 0;
let heldMax = heldBytesMax;

/** Tells of bytes that were read into buffers of their own. Without Node's `--expose-gc` it does nothing. */
export function countBuffers(bytes: number): void {
  bytesSince += bytes;
  if (bytesSince < bytesBetween) return;
  bytesSince = 0;
  if (globalThis.gc === undefined || process.memoryUsage().arrayBuffers < heldMax) return;
  globalThis.gc({ type: 'major', execution: 'sync' });
  // What is in use is not looked for again with every few megabytes.
  heldMax = Math.max(heldBytesMax, 2 * process.memoryUsage().arrayBuffers);
}
