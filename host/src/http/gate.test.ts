/** Who is let in, as a table of request heads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { Secret } from '@squash/base/secret';
import type { HeldKey } from '@squash/contract/keys';
import { type Caller, callerWith, operator, ownerFor, sees } from './caller.ts';
import { Gate, hostName } from './gate.ts';
import { Tickets } from './tickets.ts';

const token = 'correct-horse';
const tickets = new Tickets(() => 0);
const open = new Gate({ tickets, authToken: undefined, allowedHosts: ['squash.example', '*.box.example'] });
const closed = new Gate({ tickets, authToken: new Secret(token), allowedHosts: [] });

function code(gate: Gate, headers: Record<string, string>, path = '/cgi-bin/api/sandboxes') {
  const found = gate.check({ path, headers, transport: 'tcp', peer: 'own', ticket: undefined });
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
    closed.check({
      path: '/cgi-bin/api/sandboxes',
      headers: {},
      transport: 'unix',
      peer: 'unknown',
      ticket: undefined,
    }),
    operator,
  );
  assert.equal(code(open, { host, authorization: 'Bearer whatever' }), undefined);
});

test('Gate lets a ticket in once, at its path, within its time, and whoever asks for health', () => {
  let nowMs = 0;
  const fresh = new Tickets(() => nowMs);
  const gate = new Gate({ tickets: fresh, authToken: new Secret(token), allowedHosts: [] });
  const caller: Caller = { key: null, owner: 'o', scope: 'read', held: null };
  const found = (path: string, ticket: string, origin?: string) =>
    gate.check({
      path,
      headers: { host: 'localhost', ...(origin === undefined ? {} : { origin }) },
      transport: 'tcp',
      peer: 'unknown',
      ticket,
    });
  const isRefused = (answer: Caller | AppError): boolean => answer instanceof AppError;
  const first = fresh.issue(caller, '/v1/a');
  assert.ok(isRefused(found('/v1/a', first, 'http://evil.test')));
  assert.equal(found('/v1/a', first), caller);
  assert.ok(isRefused(found('/v1/a', first)));
  const other = fresh.issue(caller, '/v1/a');
  assert.ok(isRefused(found('/v1/b', other)));
  assert.ok(isRefused(found('/v1/a', other)));
  const late = fresh.issue(caller, '/v1/a');
  nowMs += 30_000;
  assert.ok(isRefused(found('/v1/a', late)));
  assert.ok(isRefused(found('/v1/a', '')));
  assert.ok(!isRefused(found('/cgi-bin/health', 'x')));
  for (let i = 0; i < limits.ticketsMax; i += 1) fresh.issue(operator, '/v1/a');
  assert.throws(() => fresh.issue(caller, '/v1/a'), { code: 'stream_limit' });
  nowMs += 30_000;
  assert.equal(found('/v1/a', fresh.issue(caller, '/v1/a')), caller);
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

const key = `sqk_${'1'.repeat(40)}`;
const otherKey = `sqk_${'2'.repeat(40)}`;
const held: HeldKey = { id: 'key_1', name: 'ci', owner: 'team', scope: 'exec', expiresMs: null };
const ring = { count: 1, find: (given: string) => (given === key ? held : undefined) };

test('Gate makes a caller of who brings a key, wherever he comes from, and nobody of who brings a wrong one', () => {
  const gates = {
    withToken: new Gate({ authToken: new Secret(token), allowedHosts: [], keys: ring }),
    without: new Gate({ authToken: undefined, allowedHosts: [], keys: ring }),
    withoutKeys: new Gate({ authToken: undefined, allowedHosts: [] }),
  };
  const places = {
    own: { transport: 'tcp', peer: 'own' },
    stranger: { transport: 'tcp', peer: 'stranger' },
    unknown: { transport: 'tcp', peer: 'unknown' },
    unix: { transport: 'unix', peer: 'unknown' },
  } as const;
  const table: readonly (readonly [keyof typeof gates, keyof typeof places, string | undefined, string])[] = [
    ['withToken', 'own', undefined, 'unauthorized'],
    ['withToken', 'stranger', `Bearer ${token}`, 'operator'],
    ['withToken', 'stranger', `Bearer ${key}`, 'key_1'],
    ['withToken', 'own', `Bearer ${otherKey}`, 'unauthorized'],
    ['withToken', 'unix', undefined, 'operator'],
    ['withToken', 'unix', `Bearer ${key}`, 'key_1'],
    ['withToken', 'unix', `Bearer ${token}`, 'operator'],
    ['withToken', 'unix', `Bearer ${otherKey}`, 'unauthorized'],
    ['without', 'own', undefined, 'operator'],
    ['without', 'own', `Bearer ${key}`, 'key_1'],
    ['without', 'own', `Bearer ${otherKey}`, 'unauthorized'],
    ['without', 'own', 'Bearer whatever', 'unauthorized'],
    ['without', 'own', `Basic ${key}`, 'unauthorized'],
    ['without', 'own', 'Bearer', 'unauthorized'],
    ['without', 'own', '', 'unauthorized'],
    ['without', 'stranger', undefined, 'token_required'],
    ['without', 'stranger', `Bearer ${key}`, 'key_1'],
    ['without', 'stranger', `Bearer ${otherKey}`, 'unauthorized'],
    ['without', 'unknown', `Bearer ${key}`, 'key_1'],
    ['without', 'unknown', undefined, 'token_required'],
    ['without', 'unix', `Bearer ${key}`, 'key_1'],
    ['without', 'unix', `Bearer ${otherKey}`, 'unauthorized'],
    // A key that was removed, as the last one.
    ['withoutKeys', 'own', `Bearer ${key}`, 'unauthorized'],
    ['withoutKeys', 'unix', `Bearer ${key}`, 'unauthorized'],
    ['withoutKeys', 'own', 'Bearer whatever', 'operator'],
    ['withoutKeys', 'stranger', 'Bearer whatever', 'token_required'],
  ];
  for (const [gate, place, authorization, expected] of table) {
    const headers = { host: 'localhost', ...(authorization === undefined ? {} : { authorization }) };
    const found = gates[gate].check({ path: '/cgi-bin/api/sandboxes', headers, ...places[place] });
    const who = found instanceof AppError ? found.code : (found.key ?? 'operator');
    assert.equal(who, expected, `${gate} ${place} ${authorization}`);
    const open = gates[gate].check({ path: '/cgi-bin/health', headers, ...places[place] });
    assert.ok(!(open instanceof AppError), 'health');
    assert.equal(open === operator, expected === 'operator', `health ${gate} ${place} ${authorization}`);
  }
});

test('an administrator’s key sees every owner’s, and makes things for its own unless told', () => {
  const admin = callerWith({ ...held, scope: 'admin' });
  const user = callerWith(held);
  assert.deepEqual([sees(admin, 'other'), sees(user, 'other'), sees(user, 'team')], [true, false, true]);
  assert.equal(ownerFor(admin, undefined), 'team');
  assert.equal(ownerFor(admin, 'other'), 'other');
  assert.equal(ownerFor(user, undefined), 'team');
  assert.equal(ownerFor(operator, undefined), 'anon');
  assert.throws(() => ownerFor(user, 'other'), { code: 'forbidden' });
  assert.throws(() => ownerFor(user, ''), { code: 'forbidden' });
});
