/**
 * What a program speaks, from the first bytes it sends: TLS, HTTP, or something that can't be read.
 *
 * The question behind it is never "what is this probably" but "could a server take it for HTTP or TLS": a policy that
 * needs requests read must not be passed by a blank line in front of them. So everything whose first line ends like a
 * request's is HTTP, and text that may still become one is waited for.
 */
import { looksLikeTls, readClientHello } from './client-hello.ts';

export type FirstBytes =
  | { readonly kind: 'tls'; readonly serverName: string | undefined; readonly hasEch: boolean }
  | { readonly kind: 'http' }
  | { readonly kind: 'other' }
  /** Ended, or never began: not one byte. */
  | { readonly kind: 'silent' }
  /** Began like TLS or HTTP and did not go on: nobody can say what it would have become. */
  | { readonly kind: 'unfinished' };

/** Nothing can be said before there are this many bytes. */
export interface MoreBytes {
  readonly kind: 'more';
  readonly bytesMin: number;
}

/**
 * `isLast`: no more bytes will be looked at; the answer is then never `more`. `hasEnded`: there will be none, so no line can
 * become a request any more. Never throws.
 */
export function readFirstBytes(bytes: Uint8Array, isLast: boolean, hasEnded = false): FirstBytes | MoreBytes {
  if (bytes.length === 0) return isLast ? { kind: 'silent' } : { kind: 'more', bytesMin: 1 };
  const found = looksLikeTls(bytes) ? readTls(bytes) : readLine(bytes);
  if (found.kind !== 'more' || !isLast) return found;
  return hasEnded && !looksLikeTls(bytes) ? { kind: 'other' } : { kind: 'unfinished' };
}

function readTls(bytes: Uint8Array): FirstBytes | MoreBytes {
  const hello = readClientHello(bytes);
  if (hello.kind === 'more') return hello;
  return { kind: 'tls', serverName: hello.serverName, hasEch: hello.hasEch };
}

/** Some servers skip these in front of a request line: white space of any kind, a byte order mark. */
const blank = /^(?:[\t\n\v\f\r ]|\u00ef\u00bb\u00bf)+/;
/** A method, its target, and a version that may still be on its way; HTTP/2 by prior knowledge begins alike. */
const requestLine = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]+\S+[ \t]+HTTP\//;
const beginning = /^[!#$%&'*+.^_`|~0-9A-Za-z-]*([ \t]+(\S+([ \t]+(H(T(T(P)?)?)?)?)?)?)?$/;
/** What lenient servers make of it: words parted by any white space, a target with spaces, `http/` in small letters. */
const oddMethod = /^[a-z-]{1,32}[\t\v\f\r \u0085\u00a0]/i;
const oddVersion = /[\t\v\f\r \u0085\u00a0]HTTP\//i;
/** HTTP 0.9 has no version: only methods that are surely HTTP's. */
const oldRequest = /^(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|TRACE|CONNECT)[ \t]+\S+[ \t]*\r?\n/;

function readLine(bytes: Uint8Array): FirstBytes | MoreBytes {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    .toString('latin1')
    .replace(blank, '');
  const odd = readOddly(text);
  if (odd === 'request' || requestLine.test(text) || oldRequest.test(text)) return { kind: 'http' };
  return odd === 'beginning' || beginning.test(text)
    ? { kind: 'more', bytesMin: bytes.length + 1 }
    : { kind: 'other' };
}

/** In steps, each of which reads the text once: in one expression the white space could be parted in as many ways as it is long. */
function readOddly(text: string): 'request' | 'beginning' | undefined {
  const method = oddMethod.exec(text)?.[0];
  if (method === undefined) return undefined;
  const end = text.indexOf('\n');
  const rest = text.slice(method.length, end < 0 ? undefined : end);
  if (oddVersion.test(rest)) return 'request';
  return end < 0 ? 'beginning' : undefined;
}
