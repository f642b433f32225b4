/** Log lines: shape, redaction, and the rate of what sandboxes can cause. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog, type Log, type LogOptions } from './log.ts';
import { Secret } from './secret.ts';

function collect(options: Partial<LogOptions> = {}): { log: Log; lines: string[]; clock: { nowMs: number } } {
  const lines: string[] = [];
  const clock = { nowMs: 0 };
  const log = createLog({
    level: 'info',
    format: 'json',
    write: (line) => lines.push(line),
    nowMs: () => clock.nowMs,
    rate: { linesMax: 2, windowMs: 1_000, keysMax: 2 },
    ...options,
  });
  return { log, lines, clock };
}

const parsed = (line: string | undefined): unknown => JSON.parse(line ?? 'null');

test('a line is one JSON object with the fields of its log and its own', () => {
  const { log, lines } = collect();
  log.child({ part: 'x' }).info('thing.done', { count: 3 });
  log.debug('thing.hidden');
  assert.equal(lines.length, 1);
  assert.deepEqual(parsed(lines[0]), {
    time: '1970-01-01T00:00:00.000Z',
    level: 'info',
    event: 'thing.done',
    part: 'x',
    count: 3,
  });
});

test('secrets are not written, neither as values nor under names that sound like one', () => {
  const { log, lines } = collect();
  const token = new Secret('hunter2');
  log.info('a', {
    value: token,
    nested: { token },
    Authorization: 'Bearer hunter2',
    text: `${token.toString()}`,
  });
  assert.doesNotMatch(lines.join(''), /hunter2/);
  assert.equal(token.reveal(), 'hunter2');
});

test('an error is its code and message, and a hostile value can not write to the terminal', () => {
  const { log, lines } = collect({ format: 'pretty' });
  log.error('failed', { error: Object.assign(new Error('no \u001b[31mred'), { code: 'EX' }) });
  assert.match(lines[0] ?? '', /EX: no \\u001b\[31mred/);
  for (const format of ['pretty', 'json'] as const) {
    const hostile = collect({ format });
    hostile.log.info('event', { reason: 'a\u009b31m\u202eb\u2028c\u{e0041}' });
    assert.match(hostile.lines[0] ?? '', /^[\x20-\x7e]*\n?$/);
    assert.match(hostile.lines[0] ?? '', /"a\\u009b31m\\u202eb\\u2028c\\udb40\\udc41"/);
  }
});

test('what a sandbox can cause is limited per sandbox and event, and counted', () => {
  const { log, lines, clock } = collect();
  for (let count = 0; count < 10; count += 1) log.guest('a').warn('noise');
  log.guest('a').warn('other');
  log.guest('b').warn('noise');
  assert.equal(lines.length, 4);
  clock.nowMs = 1_000;
  // Two other keys pushed the first one out of the bounded memory, so its count is forgotten.
  log.guest('b').warn('noise');
  assert.equal(lines.length, 5);
});

test('the first line after a noisy time says how many were dropped', () => {
  const { log, lines, clock } = collect();
  for (let count = 0; count < 10; count += 1) log.guest('a').warn('noise');
  clock.nowMs = 1_000;
  log.guest('a').warn('noise');
  assert.equal((parsed(lines.at(-1)) as { suppressed: number }).suppressed, 8);
});
