/** Real clients and real servers with the interceptor between them: what arrives on either side. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { text as textOf } from 'node:stream/consumers';
import { test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import {
  bodyOf,
  type Echo,
  echo,
  everySurface,
  foreignSecret,
  gotHeader,
  host,
  Intercepted,
  key,
  oneSecret,
} from '../../../tests/support/intercepted.ts';

const run = promisify(execFile);

async function curl(to: Intercepted, ...words: readonly string[]): Promise<string> {
  const scheme = to.isPlain ? 'http' : 'https';
  const path = words[0]?.startsWith('/') === true ? words[0] : '/';
  const rest = words[0]?.startsWith('/') === true ? words.slice(1) : words;
  const { stdout } = await run('curl', [
    '-sS',
    '--max-time',
    '20',
    '--path-as-is',
    '--cacert',
    to.caPath,
    '--connect-to',
    `${host}:${to.isPlain ? 80 : 443}:127.0.0.1:${to.port}`,
    `${scheme}://${host}${path}`,
    ...rest,
  ]);
  return stdout;
}

const parse = (text: string): Echo => JSON.parse(text) as Echo;

for (const origin of ['http/1.1', 'h2', 'plain'] as const) {
  for (const version of origin === 'plain'
    ? (['--http1.1', '--http2-prior-knowledge'] as const)
    : (['--http1.1', '--http2'] as const)) {
    if (origin === 'plain' && version === '--http2-prior-knowledge') continue;
    test(`curl ${version} through to ${origin}: the server gets the value, the program sees the placeholder`, async () => {
      const { KEY } = everySurface.secrets;
      // Its value goes without TLS where its host is written with a port that has none.
      const known = { secrets: { KEY: { ...KEY, allowed_hosts: [host, `${host}:80`] } } };
      await using to = await Intercepted.start({ origin, secrets: known });
      const answer = await curl(
        to,
        `/p?k=${key.placeholder}`,
        version,
        '-H',
        `Authorization: Bearer ${key.placeholder}`,
        '-d',
        `a=${key.placeholder}`,
      );
      const got = parse(answer);
      assert.ok(gotHeader(got, `Bearer ${key.value}`), answer);
      assert.ok(!answer.includes(key.value) && !answer.includes('sk-real'), answer);
      assert.equal(bodyOf(got), `a=${encodeURIComponent(key.value)}`);
      assert.equal(got.url, `/p?k=${key.placeholder}`, 'the echoed value comes back as the placeholder');
      assert.equal(got.version, version === '--http2' && origin === 'h2' ? '2.0' : '1.1');
      const { verdict, secrets, path, method } = await to.decision(0);
      assert.deepEqual(
        { verdict, secrets, path, method },
        { verdict: 'allowed', secrets: ['KEY'], path: '/p', method: 'POST' },
      );
    });
  }
}

test('a value goes over TLS only, unless its host is written with a plain port or no TLS is read', async () => {
  const { KEY } = everySurface.secrets;
  for (const [hosts, isTlsUnread, isSent] of [
    [[host], false, false],
    [[host, `${host}:443`, `${host}:8080`], false, false],
    [[`*.${host.split('.')[1]}:80`], false, true],
    [[host], true, true],
  ] as const) {
    let seen = 0;
    const secrets = { secrets: { KEY: { ...KEY, allowed_hosts: hosts } } };
    const handler: typeof echo = (request, response) => {
      seen += 1;
      echo(request, response);
    };
    await using to = await Intercepted.start({ origin: 'plain', secrets, isTlsUnread, handler });
    for (const words of [
      ['-H', `x: ${key.placeholder}`],
      ['-u', `a:${key.placeholder}`],
      ['-d', key.placeholder],
    ]) {
      const answer = await curl(to, '/', ...words);
      assert.equal(answer.includes('over TLS only'), !isSent, answer);
      assert.ok(!answer.includes(key.value));
    }
    assert.equal(seen, isSent ? 3 : 0);
    const { verdict, rule } = await to.decision(0);
    if (!isSent) assert.deepEqual([verdict, rule], ['blocked', 'placeholder_without_tls']);
  }
});

test('Basic credentials made by curl carry the value', async () => {
  await using to = await Intercepted.start({ secrets: oneSecret });
  const got = parse(await curl(to, '-u', `user:${key.placeholder}`));
  assert.ok(gotHeader(got, Buffer.from(`user:${key.value}`).toString('base64')));
});

test('a placeholder outside its surfaces reaches a host that may have the secret as it is', async () => {
  for (const version of ['--http1.1', '--http2']) {
    await using to = await Intercepted.start({ origin: 'h2', secrets: oneSecret });
    const prompt = `{"prompt":"the variable holds ${key.placeholder}"}`;
    const path = `/p/${key.placeholder}?q=${key.placeholder}`;
    const got = parse(await curl(to, path, version, '--data-binary', prompt));
    assert.equal(got.url, path);
    assert.equal(bodyOf(got), prompt);
    const { verdict, secrets } = await to.decision(0);
    assert.deepEqual({ verdict, secrets }, { verdict: 'allowed', secrets: [] });
  }
});

test('a placeholder for a host that may not have it is answered with a 403 that says so, and nothing is dialled', async () => {
  await using to = await Intercepted.start({ secrets: foreignSecret });
  const escaped = key.placeholder.replace('p', '%70');
  for (const [query, where] of [
    [key.placeholder, 'the query,'],
    [escaped, 'the query, with some of its letters escaped,'],
  ] as const) {
    const answer = await curl(to, `/?q=${query}`, '-w', '%{http_code}');
    assert.ok(
      answer.includes(`the placeholder of the secret "KEY" stands in ${where} and this host may not have it`),
      answer,
    );
    assert.match(answer, /403$/);
  }
  assert.equal(to.dialled.length, 0);
  const { verdict, rule, secrets } = await to.decision(0);
  assert.deepEqual(
    { verdict, rule, secrets },
    { verdict: 'blocked', rule: 'placeholder_elsewhere', secrets: ['KEY'] },
  );
});

test('a placeholder in a body for a host that may not have it breaks the request off, over both versions, also compressed', async () => {
  for (const version of ['--http1.1', '--http2']) {
    let ended = 0;
    await using to = await Intercepted.start({
      origin: 'h2',
      secrets: foreignSecret,
      handler: (request, response) => {
        request.on('data', () => {});
        // HTTP/2 of Node says `end` for broken requests, too, and then how they broke.
        request.on('end', () => response.end('done'));
        request.on('close', () => {
          const { rstCode = 0 } = (request as { stream?: { rstCode?: number } }).stream ?? {};
          if (!request.aborted && rstCode === 0) ended += 1;
        });
      },
    });
    const answer = await curl(
      to,
      version,
      '-d',
      `{"k":"${key.placeholder}"}`,
      '-H',
      'content-type: application/json',
    );
    assert.match(answer, /request’s body/);
    const path = `${to.directory}/body.gz`;
    writeFileSync(path, gzipSync(`${'x'.repeat(100_000)}${key.placeholder}`));
    const compressed = await curl(to, version, '--data-binary', `@${path}`, '-H', 'content-encoding: gzip');
    assert.match(compressed, /request’s body/);
    const unknown = await curl(to, version, '--data-binary', `@${path}`, '-H', 'content-encoding: compress');
    assert.match(unknown, /can not be read/);
    const untrue = await curl(to, version, '-d', 'not gzip at all', '-H', 'content-encoding: gzip');
    assert.match(untrue, /not in the encoding it claims/);
    assert.equal(ended, 0, 'a whole request reached the server');
    assert.deepEqual(
      to.decisions.map(({ verdict, rule }) => `${verdict} ${rule}`),
      [
        'blocked placeholder_elsewhere',
        'blocked placeholder_elsewhere',
        'blocked unreadable_body',
        'blocked unreadable_body',
      ],
    );
  }
});

test('a denied path is answered with a 403 that names the rule, as JSON, HTML or text', async () => {
  await using to = await Intercepted.start({
    policy: { allow: [{ to: host, methods: ['GET'], paths: ['/ok'] }] },
  });
  assert.equal(parse(await curl(to, '/ok')).url, '/ok');
  const text = await curl(to, '/no', '-w', '%{http_code} %{content_type}');
  assert.match(text, /does not allow GET \/no on api\.test:443[\s\S]*Rule: [\s\S]*403 text\/plain/);
  const json = JSON.parse(await curl(to, '/no', '-H', 'accept: application/json')) as {
    error: { code: string; rule: string };
  };
  assert.equal(json.error.code, 'denied');
  assert.ok(json.error.rule.length > 0);
  const html = await curl(to, '/<script>', '-g', '-H', 'accept: text/html,*/*');
  assert.match(html, /<!doctype html>/);
  assert.doesNotMatch(html, /<script>/);
  assert.match(await curl(to, '/ok', '-X', 'DELETE'), /does not allow DELETE/);
  assert.match(await curl(to, '/ok', '--head', '-w', '%{http_code}'), /200$/);
  for (const name of ['X-HTTP-Method-Override', 'X_HTTP_Method', 'x-method']) {
    assert.match(await curl(to, '/ok', '-H', `${name}: DELETE`), /does not allow/, name);
  }
  for (const query of [
    '_method=DELETE',
    'a=b&_METHOD=delete',
    'x-http-method-override=PUT',
    '%5fmethod=PUT',
  ]) {
    assert.match(await curl(to, `/ok?${query}`), /does not allow/, query);
  }
  assert.match(await curl(to, '/ok', '-H', 'X_Original_URL: /no'), /does not allow/);
  for (const path of [
    '/ok/../no',
    '/ok/%2e%2e/no',
    '/ok%2f..%2fno',
    '/ok/..%252fno',
    '/ok/..\\no',
    '/ok/..;/no',
    '//no',
    '/ok/%00',
    '/ok/%u002e%u002e/no',
    '/ok/%c0%ae%c0%ae/no',
  ]) {
    assert.match(await curl(to, path, '-g'), /Squash: /, path);
  }
  assert.equal(parse(await curl(to, '/ok/a%2fb')).url, '/ok/a%2fb');
  await using denying = await Intercepted.start({
    policy: { allow: [host], deny: [{ to: host, paths: ['/no'] }] },
  });
  for (const path of ['/no.', '/NO...', '/no%20', '/no::$DATA', '/no./x', '/%ef%bd%8eo']) {
    assert.match(await curl(denying, path, '-g'), /does not allow/, path);
  }
  assert.equal(parse(await curl(denying, '/node.js')).url, '/node.js');
});

test('a refused connection answers every request with the rule, over TLS in both versions and in plain HTTP', async () => {
  const refusal = { isAllowed: false, rule: 'deny[2] api.test' };
  for (const origin of ['h2', 'plain'] as const) {
    await using to = await Intercepted.start({ origin, refusal });
    for (const version of ['--http1.1', ...(origin === 'h2' ? ['--http2'] : [])]) {
      assert.match(
        await curl(to, '/x', version, '-w', '%{http_code}'),
        /Rule: deny\[2\] api\.test[\s\S]*403$/,
      );
    }
    assert.equal(to.dialled.length, 0);
  }
});

test('a dial that the policy refuses is a 403, a server that can not be verified or reached a 502', async () => {
  await using refused = await Intercepted.start({
    dialRefusal: { isAllowed: false, rule: 'private_address', address: '10.1.2.3' },
  });
  assert.match(
    await curl(refused, '-w', '%{http_code}'),
    /leads to 10\.1\.2\.3\.\n[\s\S]*private_address[\s\S]*has to name 10\.1\.2\.3[\s\S]*403$/,
  );
  await using untrusted = await Intercepted.start({ isUntrusted: true, secrets: oneSecret });
  assert.match(
    await curl(untrusted, '-w', '%{http_code}', '-H', `x: ${key.placeholder}`),
    /no TLS with api\.test[\s\S]*502$/,
  );
  await using gone = await Intercepted.start({ origin: 'own', originPort: 1 });
  assert.match(await curl(gone, '-w', '%{http_code}'), /ECONNREFUSED[\s\S]*502$/);
});

test('a request for another host than the one dialled is refused, in every place a host can stand', async () => {
  await using to = await Intercepted.start({ origin: 'h2', secrets: oneSecret });
  for (const version of ['--http1.1', '--http2']) {
    assert.match(
      await curl(to, version, '-H', 'Host: other.test', '-w', '%{http_code}'),
      /other\.test[\s\S]*403$/,
    );
  }
  const bad = [
    `GET https://other.test/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `GET https://${host}/ HTTP/1.1\r\nHost: other.test\r\n\r\n`,
    `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: ${host}:8443\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: ${host}\r\nHost: ${host}\r\n\r\n`,
    `CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: user@${host}\r\n\r\n`,
  ];
  for (const text of bad) assert.match(await to.exchange(text), /^HTTP\/1\.1 (400|403) /, text);
  assert.equal(to.dialled.length, 0);
  assert.match(
    await to.exchange(
      `GET https://${host}/x HTTP/1.1\r\nHost: ${host.toUpperCase()}.\r\nConnection: close\r\n\r\n`,
    ),
    /^HTTP\/1\.1 200/,
  );
});

test('a program that names another server in TLS than the one it dialled gets no connection', async () => {
  await using to = await Intercepted.start({ serverName: 'other.test' });
  await assert.rejects(to.connect());
  assert.equal((await to.decision(0)).rule, 'tls_handshake_failed', 'the certificate is for the other name');
  // One that does not verify certificates is cut off all the same.
  const careless = connectTls({
    port: to.port,
    host: '127.0.0.1',
    servername: host,
    rejectUnauthorized: false,
  });
  careless.on('error', () => {}).resume();
  await once(careless, 'close');
  assert.equal((await to.decision(1)).rule, 'sni_mismatch');
});

test('Alt-Svc is taken out of answers, other headers keep order, spelling and number', async () => {
  await using to = await Intercepted.start({
    handler: (_request, response) => {
      response.writeHead(200, [
        'X-A',
        '1',
        'Alt-Svc',
        'h3=":443"',
        'set-cookie',
        'a=1',
        'Set-Cookie',
        'b=2',
        'x-a',
        '2',
      ]);
      response.end('hi');
    },
  });
  const answer = await curl(to, '-i', '--http1.1');
  assert.match(answer, /X-A: 1\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nx-a: 2/);
  assert.doesNotMatch(answer, /alt-svc/i);
});

test('an edit of secrets.json holds for the next request of an open connection', async () => {
  await using to = await Intercepted.start({ secrets: oneSecret, handler: echo });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = async (): Promise<Echo> => {
    const sent = request({
      host: '127.0.0.1',
      port: to.port,
      servername: host,
      ca: to.ca,
      agent,
      headers: { host, x: key.placeholder },
    }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return parse(await textOf(response));
  };
  assert.ok(gotHeader(await ask(), key.value));
  writeFileSync(
    to.secretsPath,
    JSON.stringify({ secrets: { KEY: { ...key, value: 'rotated-value', allowed_hosts: [host] } } }),
  );
  assert.ok(gotHeader(await ask(), 'rotated-value'));
  assert.equal(to.dialled.length, 1, 'the connection to the server was not reused');
  agent.destroy();
});
