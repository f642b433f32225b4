/** Node's HTTP/2, loaded when the first connection speaks it: it is a twelfth of what a start takes. */
export function http2(): typeof import('node:http2') {
  return process.getBuiltinModule('node:http2');
}
