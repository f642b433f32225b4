/**
 * The attempts at file operations are proven here: against the same squash-init without a sandbox around it they
 * succeed. Where the operation itself keeps its caller safe, a careless one in its place does not.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { FrameConnection } from '../../host/src/guest/frame-connection.ts';
import { guestIsMissing, RealGuest } from '../support/real-guest.ts';
import { fileOperationAttempts } from './attempts/file-operations.ts';
import { attemptOutcome, Bait } from './file-attempt.ts';
import { type AttackTool, attackTool } from './tool.ts';

const skip = guestIsMissing || (process.getuid?.() === 0 ? false : 'the weakened ground needs root');
const stack = new AsyncDisposableStack();
const secret = `environment-${randomBytes(8).toString('hex')}`;
let tool: AttackTool;
let guest: RealGuest;

before(async () => {
  if (skip !== false) return;
  tool = await attackTool();
  // What squash-init of a sandbox must not have is in the environment of this one.
  process.env['SQUASH_CONTROL_SECRET'] = secret;
  guest = stack.use(await RealGuest.start({ isPidOne: true }));
  delete process.env['SQUASH_CONTROL_SECRET'];
  await chmod(guest.directory, 0o755);
});

after(() => stack.disposeAsync());

for (const attempt of fileOperationAttempts) {
  const { control } = attempt;
  if (control.kind === 'none') continue;
  test(`ground without walls lets ${attempt.id} succeed`, { skip }, async () => {
    await using bait = await Bait.make();
    const directory = join(guest.directory, attempt.id);
    await mkdir(directory);
    await chmod(directory, 0o777);
    const ground = {
      guest: guest.client,
      ask: async (frame: Uint8Array) => {
        using connection = new FrameConnection(await guest.connect());
        connection.post(frame);
        return connection.next(10_000);
      },
      tool: tool.program,
      directory,
      bait,
      secrets: [secret],
      hasUsers: true,
    };
    const operate = control.kind === 'careless' ? control.operate : attempt.operate;
    const outcome = await attemptOutcome(ground, attempt, operate);
    assert.ok(outcome.isBreach, outcome.why);
  });
}

test('attempts at file operations have names of their own', () => {
  const ids = fileOperationAttempts.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
});
