/** What reaches the server, what is refused, and what comes back, without a network. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Destination } from '@squash/policy/policy';
import { PlaceholderElsewhere, RequestSecrets } from './request-secrets.ts';
import { ResponseSecrets } from './response-secrets.ts';
import { TrafficSecret, TrafficSecrets } from './traffic-secrets.ts';

const api: Destination = { host: 'api.test', address: undefined, port: 443 };
const other: Destination = { host: 'other.test', address: undefined, port: 443 };
const surfaces = ['headers', 'query', 'path', 'body'] as const;
const traffic = new TrafficSecrets([
  new TrafficSecret('KEY', {
    placeholder: 'placeholder-key',
    value: 'real/key+1 "x"',
    allowed_hosts: ['api.test'],
  }),
  new TrafficSecret('ALL', {
    placeholder: 'placeholder-all',
    value: 'real/all&1 "y"',
    allowed_hosts: ['api.test'],
    surfaces: [...surfaces],
  }),
]);

function requestTo(destination: Destination): RequestSecrets {
  return new RequestSecrets(traffic, { destination, isPlain: false });
}

function through(secrets: RequestSecrets, contentType: string, pieces: readonly string[]): string {
  const filter = secrets.bodyFilter(contentType);
  assert.ok(filter !== undefined);
  return Buffer.concat([...pieces.map((piece) => filter.push(Buffer.from(piece))), filter.end()]).toString();
}

const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

test('headers carry the value to an allowed host, several in one value and inside Basic', () => {
  const secrets = requestTo(api);
  const list = [
    'Authorization',
    'Bearer placeholder-key',
    'X-Two',
    'placeholder-key;placeholder-all;placeholder-ke',
    'Proxy-Thing',
    basic('user:placeholder-key'),
    'Accept',
    'a/b',
  ];
  assert.deepEqual(secrets.headers(list), [
    'Authorization',
    'Bearer real/key+1 "x"',
    'X-Two',
    'real/key+1 "x";real/all&1 "y";placeholder-ke',
    'Proxy-Thing',
    basic('user:real/key+1 "x"'),
    'Accept',
    'a/b',
  ]);
  assert.deepEqual([...secrets.used].toSorted(), ['ALL', 'KEY']);
});

test('Basic credentials that hold no placeholder stay byte for byte as they are', () => {
  const list = ['authorization', 'basic  dXNlcjpwYXNz', 'x', 'Basic !!!'];
  assert.deepEqual(requestTo(other).headers(list), list);
});

test('a placeholder is refused in headers to a host that may not have it, however it is written', () => {
  const values = [
    'placeholder-key',
    'Bearer xplaceholder-keyx',
    basic('user:placeholder-key'),
    basic('user:placeholder%2Dkey'),
    'placeholder%2dkey',
    'placeholder%252dkey',
  ];
  for (const value of values) {
    assert.throws(() => requestTo(other).headers(['a', 'b', 'x', value]), PlaceholderElsewhere, value);
  }
  assert.throws(() => requestTo(other).headers(['PLACEHOLDER-Key', 'v']), /name/);
});

test('framing headers never carry a value, not even to an allowed host', () => {
  for (const name of ['Host', 'content-length', 'Upgrade', 'Sec-WebSocket-Key']) {
    const list = [name, 'placeholder-key'];
    assert.deepEqual(requestTo(api).headers(list), list, name);
    assert.throws(() => requestTo(other).headers(list), PlaceholderElsewhere, name);
  }
});

test('outside its surfaces a placeholder passes as it is to a host that may have the secret', () => {
  const secrets = requestTo(api);
  for (const target of ['/placeholder-key?q=placeholder-key', '/placeholder%2Dkey?%70laceholder-key']) {
    assert.equal(secrets.target(target), target);
  }
  const escapedHeaders = ['placeholder-key', 'x', 'x', 'placeholder%2dkey', 'y', basic('placeholder%2Dkey')];
  assert.deepEqual(secrets.headers(escapedHeaders), escapedHeaders);
  const prompt = '{"k":"placeholder-key \\u0070laceholder-all placeholder-all"}';
  assert.equal(
    through(secrets, 'application/json', [prompt]),
    prompt.replace('placeholder-all"', 'real/all&1 \\"y\\""'),
  );
  assert.deepEqual([...secrets.used], ['ALL']);
});

test('a body is not looked at where every secret is the host’s own and none is put into bodies', () => {
  const [key] = traffic.secrets;
  assert.ok(key !== undefined);
  const one = new TrafficSecrets([key]);
  assert.equal(
    new RequestSecrets(one, { destination: api, isPlain: false }).bodyFilter('application/json'),
    undefined,
  );
  assert.notEqual(
    new RequestSecrets(one, { destination: other, isPlain: false }).bodyFilter('application/json'),
    undefined,
  );
});

test('path and query carry a value only where the secret says so, escaped for URLs', () => {
  assert.equal(
    requestTo(api).target('/bot/placeholder-all/x?k=placeholder-all&y=%20'),
    '/bot/real%2Fall&1%20%22y%22/x?k=real%2Fall%261%20%22y%22&y=%20',
  );
  assert.throws(() => requestTo(other).target('/placeholder-key'), /stands in the path, and/);
  assert.throws(() => requestTo(other).target('/?q=placeholder-key'), /stands in the query, and/);
  assert.throws(() => requestTo(other).target('/?q=placeholder-all'), PlaceholderElsewhere);
  for (const hidden of [
    '/placeholder%2Dall',
    '/?%70laceholder-all',
    '/?placeholder%25252Dall',
    '/x?placeholder-al/%70laceholder-all',
  ]) {
    assert.throws(() => requestTo(other).target(hidden), PlaceholderElsewhere, hidden);
  }
});

test('bodies carry a value in the escaping of their type', () => {
  const pieces = ['{"k":"placeho', 'lder-', 'all"}'];
  assert.equal(
    through(requestTo(api), 'application/json; charset=utf-8', pieces),
    '{"k":"real/all&1 \\"y\\""}',
  );
  assert.equal(through(requestTo(api), 'application/vnd.api+json', pieces), '{"k":"real/all&1 \\"y\\""}');
  assert.equal(through(requestTo(api), 'text/plain', pieces), '{"k":"real/all&1 "y""}');
  assert.equal(
    through(requestTo(api), 'application/x-www-form-urlencoded', ['a=placeholder-all']),
    'a=real%2Fall%261%20%22y%22',
  );
});

test('bodies for a host that may not have a secret are refused before its placeholder’s last byte goes on', () => {
  for (const placeholder of ['placeholder-key', 'placeholder-all']) {
    const filter = requestTo(other).bodyFilter('application/octet-stream');
    let sent = '';
    assert.throws(() => {
      for (const letter of `x${placeholder}y`) sent += filter?.push(Buffer.from(letter)).toString();
    }, PlaceholderElsewhere);
    assert.ok(!sent.includes(placeholder));
  }
});

test('JSON and form escapes do not hide a placeholder, wherever the body is cut', () => {
  const hidden = [
    ['application/json', '{"k":"\\u0070laceholder-ke\\u0079"}'],
    ['application/x-www-form-urlencoded', 'k=%70laceholder%2Dkey'],
  ] as const;
  for (const [type, body] of hidden) {
    for (let cut = 0; cut <= body.length; cut += 1) {
      assert.throws(
        () => through(requestTo(other), type, [body.slice(0, cut), body.slice(cut)]),
        PlaceholderElsewhere,
        `${type} cut at ${cut}`,
      );
    }
  }
});

test('what holds no placeholder passes unchanged, whatever it is', () => {
  const list = fc.array(fc.tuple(fc.stringMatching(/^[a-z-]{1,20}$/), fc.string({ maxLength: 60 })), {
    maxLength: 20,
  });
  fc.assert(
    fc.property(list, fc.array(fc.string({ maxLength: 200 })), (pairs, pieces) => {
      const flat = pairs.flat();
      assert.deepEqual(requestTo(api).headers(flat), flat);
      for (const type of ['text/plain', 'application/json', 'application/x-www-form-urlencoded']) {
        assert.equal(through(requestTo(api), type, pieces), pieces.join(''));
      }
    }),
    { numRuns: 300 },
  );
});

test('nothing is looked for where a sandbox has no secrets', () => {
  const none = new RequestSecrets(new TrafficSecrets([]), { destination: other, isPlain: false });
  const list = ['x', 'placeholder-key'];
  assert.equal(none.headers(list), list);
  assert.equal(none.target('/placeholder-key'), '/placeholder-key');
  assert.equal(none.bodyFilter('text/plain'), undefined);
});

test('values come back as placeholders in headers, also to hosts that never got them', () => {
  const secrets = new ResponseSecrets(traffic, other);
  assert.deepEqual(
    secrets.headers(['x-echo', 'Bearer real/key+1 "x"', 'location', '/?k=real%2Fkey%2B1%20%22x%22']),
    ['x-echo', 'Bearer placeholder-key', 'location', '/?k=placeholder-key'],
  );
});
