/** The audit's files: what is written and read back, turned over, flooded, torn, and on a disk that is full. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { AuditEntry } from '@squash/contract/audit';
import { limits } from '@squash/contract/limits';
import { type Clock, systemClock } from '@squash/base/clock';
import fc from 'fast-check';
import { keptLog } from '../../../tests/support/kept-log.ts';
import { needsRoot, smallDisk } from '../../../tests/support/small-disk.ts';
import { AuditLog } from './audit-log.ts';

type Line = Parameters<AuditLog['write']>[0];

function line(change: Partial<Line> = {}): Line {
  return {
    request_id: 'r-1',
    caller: { kind: 'operator' },
    peer: { address: 'unix', uid: null },
    operation: 'seed.exec',
    sandbox: 'box',
    stage: 'whole',
    decision: 'allowed',
    code: null,
    status: 200,
    duration_ms: 1.5,
    ...change,
  };
}

/** Its monotonic time stands still unless a test moves it. */
class TestClock implements Clock {
  ms = 1_000;
  wallMs = (): ReturnType<Clock['wallMs']> => systemClock.wallMs();
  monoMs = (): ReturnType<Clock['monoMs']> => this.ms as ReturnType<Clock['monoMs']>;
}

function open(directory: string, options: { clock?: Clock; fileBytesMax?: number } = {}): AuditLog {
  const { log } = keptLog('warn');
  return new AuditLog({ directory, log, clock: systemClock, ...options });
}

/** Pages of seven to the end. */
async function everything(audit: AuditLog, limit = 7): Promise<readonly AuditEntry[]> {
  const items: AuditEntry[] = [];
  let cursor: string | undefined;
  do {
    const page = await audit.read({ filters: {}, limit, cursor });
    items.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return items;
}

test('lines are read back newest first, by page and by filter, over files that turn over meanwhile', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-audit-'));
  t.after(() => rmSync(directory, { recursive: true }));
  using audit = open(directory, { fileBytesMax: 2_000 });
  const team = { kind: 'key', key: 'key_1', name: 'ci', owner: 'team', scope: 'exec' } as const;
  for (let n = 0; n < 25; n += 1)
    audit.write(
      line({
        request_id: `r-${n}`,
        sandbox: n % 2 === 0 ? 'even' : 'odd',
        ...(n % 5 === 0 && { caller: team }),
      }),
    );
  assert.ok(readdirSync(directory).length > 2);
  for (const name of readdirSync(directory))
    assert.equal(statSync(join(directory, name)).mode & 0o777, 0o600);
  const newest = Array.from({ length: 25 }, (_, n) => `r-${24 - n}`);
  assert.deepEqual(
    (await everything(audit)).map((each) => each.request_id),
    newest,
  );
  const page = await audit.read({ filters: { owner: 'team', sandbox: 'odd' }, limit: 10, cursor: undefined });
  assert.deepEqual(
    page.items.map((each) => each.request_id),
    ['r-15', 'r-5'],
  );
  const half = await audit.read({ filters: {}, limit: 12, cursor: undefined });
  for (let n = 25; n < 40; n += 1) audit.write(line({ request_id: `r-${n}` }));
  assert.ok(half.next !== null);
  const rest = await audit.read({ filters: {}, limit: 100, cursor: half.next });
  assert.deepEqual(
    rest.items.map((each) => each.request_id),
    newest.slice(12),
  );
  const later = await audit.read({ filters: { since: '2999-01-01T00:00:00Z' }, limit: 5, cursor: undefined });
  assert.deepEqual(later, { items: [], next: null });
  for (const cursor of ['', 'x', '1', '1-', '-1', '1e3-4', '../1-1'])
    await assert.rejects(audit.read({ filters: {}, limit: 5, cursor }), { code: 'invalid_request' });
  assert.deepEqual(
    await audit.read({ filters: {}, limit: 5, cursor: '1-999999999' }).then(({ items }) => items.length),
    5,
  );
});

test('files have a bound in size and number', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-audit-'));
  t.after(() => rmSync(directory, { recursive: true }));
  using audit = open(directory, { fileBytesMax: 1_000 });
  for (let n = 0; n < 200; n += 1) audit.write(line({ request_id: `r-${n}` }));
  const names = readdirSync(directory);
  assert.equal(names.length, limits.auditFilesMax);
  for (const name of names) assert.ok(statSync(join(directory, name)).size < 1_500);
  const [first] = await everything(audit);
  assert.equal(first?.request_id, 'r-199');
  // The next daemon goes on where this one was.
  audit[Symbol.dispose]();
  using next = open(directory, { fileBytesMax: 1_000 });
  next.write(line({ request_id: 'next' }));
  assert.deepEqual(
    (await everything(next)).slice(0, 2).map((each) => each.request_id),
    ['next', 'r-199'],
  );
});

test('a flood of refusals at the gate turns no real line away, and is counted', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-audit-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const clock = new TestClock();
  using audit = open(directory, { clock });
  audit.write(line({ request_id: 'real' }));
  for (let n = 0; n < 100_000; n += 1)
    audit.writeBounded(line({ decision: 'refused', code: 'unauthorized', status: 401 }));
  assert.equal(
    readFileSync(join(directory, 'audit.jsonl'), 'utf8').trim().split('\n').length,
    1 + limits.auditRefusedBurst,
  );
  clock.ms += 2_000;
  audit.writeBounded(line({ request_id: 'after', decision: 'refused', code: 'unauthorized', status: 401 }));
  const entries = await everything(audit, 1_000);
  assert.deepEqual(
    [entries[0]?.request_id, entries[0]?.dropped],
    ['after', 100_000 - limits.auditRefusedBurst],
  );
  assert.equal(entries.at(-1)?.request_id, 'real');
  assert.match(JSON.stringify(audit.metrics()), /squash_audit_dropped_total.*"value":99900/);
});

test('whatever clients and sandboxes are called, a line is one line of plain ASCII', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-audit-'));
  t.after(() => rmSync(directory, { recursive: true }));
  using audit = open(directory);
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 200 }), async (sandbox) => {
      audit.write(line({ sandbox }));
      const { items } = await audit.read({ filters: {}, limit: 1, cursor: undefined });
      assert.equal(items[0]?.sandbox, sandbox);
    }),
  );
  assert.match(readFileSync(join(directory, 'audit.jsonl'), 'utf8'), /^(?:[\x20-\x7e]*\n)*$/);
});

test('what a crash has left of a line is skipped, and so is what is none', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-audit-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, 'audit.jsonl');
  {
    using audit = open(directory);
    for (const id of ['one', 'two']) audit.write(line({ request_id: id }));
  }
  truncateSync(path, statSync(path).size - 20);
  using audit = open(directory);
  audit.write(line({ request_id: 'three' }));
  appendFileSync(path, `null\n[]\n{"at":5}\n{"at":"x","caller":null}\n${'x'.repeat(200_000)}\n\n`);
  audit.write(line({ request_id: 'four' }));
  assert.deepEqual(
    (await everything(audit)).map((each) => each.request_id),
    ['four', 'three', 'one'],
  );
});

test('a full disk stops no request, is told, and is over when there is room', {
  skip: needsRoot,
}, async () => {
  using disk = smallDisk(262_144);
  const clock = new TestClock();
  const { log, lines } = keptLog('warn');
  using audit = new AuditLog({ directory: join(disk.path, 'audit'), clock, log });
  using around = new AuditLog({ directory: join(disk.path, 'around'), clock, log, agents: audit });
  audit.write(line({ request_id: 'before' }));
  assert.deepEqual(audit.problems(), []);
  disk.fill();
  // What is left of the file's last block takes some more.
  for (let n = 0; n < 100; n += 1) audit.write(line({ request_id: `full-${n}` }));
  assert.deepEqual(
    audit.problems().map(({ code }) => code),
    ['audit_failing'],
  );
  assert.equal(lines.filter((each) => each.includes('audit.failing')).length, 1);
  // Of agents' lines it is told with the others'.
  assert.deepEqual(around.problems(), audit.problems());
  for (const each of [audit, around])
    assert.doesNotMatch(JSON.stringify(each.metrics()), /squash_audit_lost_total[^}]*"value":0/);
  disk.free();
  clock.ms += limits.auditAgainMs;
  audit.write(line({ request_id: 'after' }));
  assert.deepEqual(audit.problems(), []);
  const entries = await everything(audit, 1_000);
  const kept = entries.filter(({ request_id: id }) => id.startsWith('full-')).length;
  assert.deepEqual([entries[0]?.request_id, entries[0]?.lost], ['after', 100 - kept]);
  assert.equal(entries.at(-1)?.request_id, 'before');
});

test('where its directory can not be made requests are served all the same', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-audit-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const clock = new TestClock();
  writeFileSync(join(directory, 'audit'), '');
  using audit = open(join(directory, 'audit'), { clock });
  audit.write(line());
  assert.equal(audit.problems().length, 1);
  rmSync(join(directory, 'audit'));
  clock.ms += limits.auditAgainMs;
  audit.write(line());
  assert.deepEqual([audit.problems().length, (await everything(audit))[0]?.lost], [0, 1]);
});
