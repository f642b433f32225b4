/** Who is let in, as a table of request heads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { AppError } from '@squash/contract/errors';
import { Secret } from '@squash/base/secret';
import { operator } from './caller.ts';
import { Gate, hostName } from './gate.ts';

const token = 'correct-horse';
const open = new Gate({ authToken: undefined, allowedHosts: ['squash.example', '*.box.example'] });
const closed = new Gate({ authToken: new Secret(token), allowedHosts: [] });

function code(gate: Gate, headers: Record<string, string>, path = '/cgi-bin/api/sandboxes') {
  const found = gate.check({ path, headers, transport: 'tcp', peer: 'own' });
  return found instanceof AppError ? found.code : undefined;
}

test('Gate lets in hosts that no foreign DNS name can stand for, and configured ones', () => {
  const table: Readonly<Record<string, boolean>> = {
    'localhost:8080': true,
    LOCALHOST: true,
    'localhost.:8080': true,
    '127.0.0.1:8080': true,
    '[::1]:8080': true,
    '10.1.2.3': true,
    'squash.example:443': true,
    'a.b.box.example': true,
    'box.example': false,
    'evilbox.example': false,
    'squash.example.evil.test': false,
    'evil.test': false,
    'localhost.evil.test': false,
    '127.0.0.1.evil.test': false,
    '': false,
    'a b': false,
    'user@localhost': false,
    'localhost:8080:9': false,
  };
  for (const [host, isLet] of Object.entries(table)) {
    assert.equal(code(open, { host }), isLet ? undefined : 'origin_refused', host);
  }
});

test('Gate refuses every page but our own', () => {
  const host = 'localhost:8080';
  const table: readonly [Record<string, string>, boolean][] = [
    [{}, true],
    [{ origin: 'http://localhost:8080' }, true],
    [{ origin: 'https://localhost:8080' }, true],
    [{ origin: 'http://localhost:3000' }, false],
    [{ origin: 'http://evil.test' }, false],
    [{ origin: 'null' }, false],
    [{ origin: '' }, false],
    [{ origin: 'http://localhost:8080@evil.test' }, false],
    [{ 'sec-fetch-site': 'cross-site' }, false],
    [{ 'sec-fetch-site': 'same-site' }, false],
    [{ 'sec-fetch-site': 'none' }, true],
    [{ 'sec-fetch-site': 'same-origin' }, true],
  ];
  for (const [headers, isLet] of table) {
    assert.equal(
      code(open, { host, ...headers }),
      isLet ? undefined : 'origin_refused',
      JSON.stringify(headers),
    );
  }
});

test('Gate asks for the token everywhere but at health and on the Unix socket', () => {
  const host = 'localhost';
  assert.equal(code(closed, { host }), 'unauthorized');
  assert.equal(code(closed, { host, authorization: `Bearer ${token}` }), undefined);
  assert.equal(code(closed, { host, authorization: `bearer  ${token} ` }), undefined);
  assert.equal(code(closed, { host }, '/cgi-bin/health'), undefined);
  for (const path of [
    '/cgi-bin/health/',
    '/cgi-bin/healthz',
    '/cgi-bin/health/../api',
    '/metrics',
    '/',
    '',
  ]) {
    assert.equal(code(closed, { host }, path), 'unauthorized', path);
  }
  assert.equal(
    closed.check({ path: '/cgi-bin/api/sandboxes', headers: {}, transport: 'unix', peer: 'unknown' }),
    operator,
  );
  assert.equal(code(open, { host, authorization: 'Bearer whatever' }), undefined);
});

test('Gate lets in no other token', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 64 }), (other) => {
      if (other.trim() === token) return;
      assert.equal(code(closed, { host: 'localhost', authorization: `Bearer ${other}` }), 'unauthorized');
    }),
  );
});

test('hostName() never throws and never returns a separator', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 80 }), (host) => {
      const name = hostName(host);
      if (name !== undefined) assert.doesNotMatch(name, /[/?#@\s]/);
    }),
  );
});
