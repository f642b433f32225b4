/** Node's HTTP/2, loaded when the first connection speaks it: it is a twelfth of what a start takes. */
import type * as module from 'node:http2';

export function http2(): typeof module {
  return process.getBuiltinModule('node:http2');
}
