/**
 * The programs that people reach the network with, each as the command that fetches a URL with it. What differs between
 * them and matters here is said in the table: TLS and HTTP versions, resolvers, and what of a refusal they show.
 */
export interface Client {
  readonly name: string;
  /** A shell command that prints the body and fails unless the answer is a success. */
  readonly fetch: (url: string, authorization?: string) => string;
  /** Prints the body of an answer that is an error, or at least its status. */
  readonly shows: 'body' | 'status' | 'nothing';
  /** Checks certificates; busybox's wget says itself that it does not. */
  readonly verifies: boolean;
}

const header = (flag: string, authorization: string | undefined): string =>
  authorization === undefined ? '' : `${flag}"Authorization: ${authorization}" `;
const words = (program: string, url: string, authorization: string | undefined): string =>
  `${program} '${url}'${authorization === undefined ? '' : ` "${authorization}"`}`;
/** Compiled once: a compiler that is itself a Java program takes its time. */
const java =
  'test -e /tmp/Client.class || ecj -17 -proc:none -d /tmp /opt/tools/Client.java; java -cp /tmp Client';

export const clients: readonly Client[] = [
  {
    name: 'curl with HTTP/2',
    fetch: (url, authorization) =>
      `curl --http2 --fail-with-body -sS ${header('-H ', authorization)}'${url}'`,
    shows: 'body',
    verifies: true,
  },
  {
    name: 'curl with HTTP/1.1',
    fetch: (url, authorization) =>
      `curl --http1.1 --fail-with-body -sS ${header('-H ', authorization)}'${url}'`,
    shows: 'body',
    verifies: true,
  },
  {
    name: 'GNU wget',
    fetch: (url, authorization) =>
      `wget --tries=1 --content-on-error -nv -O - ${header('--header=', authorization)}'${url}'`,
    shows: 'body',
    verifies: true,
  },
  {
    name: 'busybox wget',
    fetch: (url, authorization) => `busybox wget -q -O - ${header('--header ', authorization)}'${url}'`,
    shows: 'status',
    verifies: false,
  },
  {
    name: 'Node’s fetch',
    fetch: (url, authorization) => words('node --no-warnings /opt/tools/fetch.mjs', url, authorization),
    shows: 'body',
    verifies: true,
  },
  {
    name: 'Python’s urllib',
    fetch: (url, authorization) => words('python3 /opt/tools/client_urllib.py', url, authorization),
    shows: 'body',
    verifies: true,
  },
  {
    name: 'Python’s requests',
    fetch: (url, authorization) => words('python3 /opt/tools/client_requests.py', url, authorization),
    shows: 'body',
    verifies: true,
  },
  {
    name: 'a Go program with Go’s resolver',
    fetch: (url, authorization) =>
      `GODEBUG=netdns=go rclone --config /dev/null --retries 1 --low-level-retries 1 copyurl --stdout ` +
      `${header('--header ', authorization)}'${url}'`,
    shows: 'status',
    verifies: true,
  },
  {
    name: 'Java’s HttpClient',
    fetch: (url, authorization) => words(java, url, authorization),
    shows: 'body',
    verifies: true,
  },
];
