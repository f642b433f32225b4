/** What a QEMU may say that somebody has taken over. What the real one says is in tests/e2e/microvm-memory.test.ts. */
import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import { Qmp } from './qmp.ts';

const greeting = '{"QMP": {"version": {}, "capabilities": ["oob"]}}\r\n';
const fine = '{"return": {}}\r\n';
const event = '{"timestamp": {"seconds": 1}, "event": "STOP"}\r\n';

/** Says all of it at once, whatever is asked. */
async function opened(said: string, signal = AbortSignal.timeout(10_000)): Promise<Qmp> {
  const [ours, qemus] = duplexPair();
  qemus.on('error', () => undefined).resume();
  qemus.write(said);
  if (!said.endsWith('\n')) qemus.end();
  return await Qmp.open(ours, signal);
}

test('an answer is found between events, and what QEMU refuses is told', async () => {
  const qmp = await opened(
    `${greeting}${event}${fine}${event.repeat(3)}{"return": {"status": "paused"}}\r\n{"error": {"class": "GenericError", "desc": "no such thing"}}\r\n`,
  );
  assert.deepEqual(await qmp.ask('query-status'), { status: 'paused' });
  await assert.rejects(qmp.ask('migrate'), { code: 'guest_failed', message: /migrate: no such thing/ });
});

test('what is none of its messages ends it', async () => {
  const lies = {
    'no greeting': fine,
    'an end': '{"QMP"',
    'no JSON': 'hello\n',
    'another shape': '{"QMP": 1}\n',
    'a line without an end': `${'x'.repeat(70_000)}\n`,
    'two greetings': `${greeting}${greeting}`,
    'a flood of events': `${greeting}${event.repeat(200)}`,
    'a long reason': `${greeting}{"error": {"desc": "${'y'.repeat(2000)}"}}\n`,
  };
  for (const [what, said] of Object.entries(lies))
    await assert.rejects(opened(said), { code: 'guest_failed' }, what);
});

test('who says nothing is waited for no longer than is asked', async () => {
  await assert.rejects(opened(greeting, AbortSignal.timeout(50)), { name: 'AbortError' });
});
