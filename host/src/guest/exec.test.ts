/** Commands through the client and a real PID 1: bytes, exits, signals, terminals. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drain, guestIsMissing, RealGuest, specOf } from './real-guest.ts';

const options = { skip: guestIsMissing };

test('exec keeps stdout and stderr apart and tells the exit code', options, async () => {
  await using guest = await RealGuest.start();
  const ran = await drain(await guest.client.exec(specOf(['sh', '-c', 'echo out; echo err >&2; exit 3'])));
  assert.equal(ran.stdout, 'out\n');
  assert.equal(ran.stderr, 'err\n');
  assert.equal(ran.outcome.exitCode, 3);
  assert.equal(ran.outcome.signal, undefined);
  assert.deepEqual([ran.outcome.stdoutBytes, ran.outcome.stderrBytes], [4, 4]);
});
