/** What is recorded is found again, in bounds, by every filter, and by those who follow. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { sandboxIdSchema } from '@squash/contract/ids';
import {
  type EgressDecision,
  egressDecisionQuerySchema,
  egressDecisionSchema,
} from '@squash/contract/egress-protocol';
import { keptLog } from '../../../tests/support/kept-log.ts';
import { EgressLocked, openEgressDatabase } from '../database.ts';
import { egressLimits } from '../limits.ts';
import type { Decision } from '../ports.ts';
import { DecisionLog } from './decision-log.ts';
import { DecisionRows } from './decision-rows.ts';

const { log } = keptLog('error');

function decision(changes: Partial<Decision> = {}): Decision {
  return {
    kind: 'connection',
    host: 'www.example.com',
    address: undefined,
    port: 443,
    verdict: 'allowed',
    rule: 'allow[0] *',
    ...changes,
  };
}

const query = (fields: Record<string, unknown> = {}) => egressDecisionQuerySchema.parse(fields);

class Place implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), 'squash-decisions-'));
  readonly path = join(this.#directory, 'egress.db');
  readonly #stack = new DisposableStack();

  open(): { rows: DecisionRows; decisions: DecisionLog } {
    const database = this.#stack.adopt(
      openEgressDatabase(this.path, () => assert.fail('a good file is kept')),
      (one) => one.close(),
    );
    const rows = new DecisionRows(database);
    return { rows, decisions: this.#stack.use(new DecisionLog({ rows, nowMs: () => 1_000, log })) };
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
    rmSync(this.#directory, { recursive: true });
  }
}

test('a decision is read back as the contract shows it, also by the next process', () => {
  using place = new Place();
  const { decisions } = place.open();
  decisions
    .open('a', decision({ secrets: ['KEY'], method: 'GET', path: '/x' }))
    .end({ bytesUp: 1, bytesDown: 2, durationMs: 3.5 });
  const [row] = decisions.read(query()).decisions;
  assert.deepEqual(egressDecisionSchema.parse(row), row);
  assert.deepEqual(row, {
    id: 1,
    time: '1970-01-01T00:00:01.000Z',
    sandbox: 'a',
    kind: 'connection',
    host: 'www.example.com',
    address: null,
    port: 443,
    method: 'GET',
    path: '/x',
    verdict: 'allowed',
    rule: 'allow[0] *',
    bytes_up: 1,
    bytes_down: 2,
    duration_ms: 3.5,
    secrets: ['KEY'],
    count: 1,
  });
});

test('a connection is seen while it is open, and has its figures when it has ended', () => {
  using place = new Place();
  const { decisions } = place.open();
  const open = decisions.open('a', decision());
  assert.equal(decisions.read(query()).decisions[0]?.bytes_up, null);
  open.end({ bytesUp: 10, bytesDown: 20, durationMs: 30 });
  open.end({ bytesUp: 11, bytesDown: 20, durationMs: 30 });
  const rows = decisions.read(query()).decisions;
  assert.deepEqual([rows.length, rows[0]?.bytes_up], [1, 10]);
});

test('equal decisions of one moment are one row with a count', () => {
  using place = new Place();
  const { decisions } = place.open();
  for (let at = 0; at < 50; at += 1) decisions.record('a', decision({ verdict: 'denied' }));
  decisions.record('b', decision({ verdict: 'denied' }));
  assert.deepEqual(
    decisions.read(query()).decisions.map(({ sandbox, count }) => [sandbox, count]),
    [
      ['a', 50],
      ['b', 1],
    ],
  );
});

test('every filter finds the same rows for a reader and for a follower', () => {
  using place = new Place();
  const { decisions } = place.open();
  const hosts = ['example.com', 'www.example.com', 'a.www.example.com', 'badexample.com', undefined];
  const followed = new Map<string, EgressDecision[]>();
  const filters: Record<string, unknown>[] = [
    {},
    { sandbox: sandboxIdSchema.parse('a') },
    { kind: 'dns' },
    { verdict: 'denied' },
    { verdict: 'refused' },
    { host: 'Example.com' },
    { host: '*.example.com' },
    { host: '*.example.com', verdict: 'allowed', sandbox: 'b', kind: 'request' },
  ];
  for (const filter of filters) {
    const rows: EgressDecision[] = [];
    followed.set(JSON.stringify(filter), rows);
    decisions.follow(query({ ...filter, limit: 1_000 }), (more) => void rows.push(...more));
  }
  for (const sandbox of ['a', 'b']) {
    for (const kind of ['dns', 'connection', 'request'] as const) {
      for (const verdict of ['allowed', 'denied', 'blocked'] as const) {
        for (const host of hosts) decisions.record(sandbox, decision({ kind, verdict, host }));
      }
    }
  }
  const expected = [90, 45, 30, 30, 60, 18, 36, 2];
  for (const [at, filter] of filters.entries()) {
    const read = decisions.read(query({ ...filter, limit: 1_000 })).decisions;
    assert.equal(read.length, expected[at], JSON.stringify(filter));
    assert.deepEqual(followed.get(JSON.stringify(filter)), read);
  }
  const last = decisions.read(query({ limit: 2 })).decisions.map(({ id }) => id);
  assert.deepEqual(last, [89, 90]);
  assert.deepEqual(
    decisions.read(query({ after: 10, limit: 2 })).decisions.map(({ id }) => id),
    [11, 12],
  );
});

test('the oldest rows of a sandbox go, and it is said that they are gone', () => {
  using place = new Place();
  const { decisions, rows } = place.open();
  decisions.record('quiet', decision());
  const all = Math.ceil(egressLimits.sandboxDecisionsMax * 1.1);
  for (let at = 0; at < all; at += 1) {
    decisions.record('loud', decision({ path: String(at) }));
    if (at % 5_000 === 4_999) decisions.flush();
  }
  decisions.flush();
  assert.ok(rows.stored <= egressLimits.sandboxDecisionsMax * 1.05 + 1);
  const oldest = decisions.read(query({ sandbox: 'loud', after: 0, limit: 1 }));
  assert.equal(oldest.removed_before, oldest.decisions[0]?.id);
  assert.equal(decisions.read(query({ sandbox: 'quiet' })).removed_before, 0);
  decisions.forget('loud');
  assert.equal(rows.stored, 1);
});

test('a batch has a bound, what is above it is counted', () => {
  using place = new Place();
  const { decisions } = place.open();
  for (let at = 0; at < egressLimits.decisionsPendingMax + 5; at += 1) {
    decisions.record('a', decision({ path: String(at) }));
  }
  decisions.flush();
  assert.deepEqual(decisions.stats, { stored: egressLimits.decisionsPendingMax, dropped: 5 });
});

test('only one process works with the file, and an unreadable one is set aside', () => {
  using place = new Place();
  const first = openEgressDatabase(place.path, () => undefined);
  assert.throws(() => openEgressDatabase(place.path, () => undefined), EgressLocked);
  first.close();
  writeFileSync(place.path, 'no database, but longer than the header that SQLite looks for: '.repeat(20));
  let why = '';
  openEgressDatabase(place.path, (reason) => {
    why = reason;
  }).close();
  assert.match(why, /not a database/);
  assert.match(readFileSync(`${place.path}.broken`, 'utf8'), /^no database/);
});
