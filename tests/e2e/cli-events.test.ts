/** `squash stats`, `squash events` and `squash webhook` against a real daemon, their `--json` held to the contract. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventSchema } from '@squash/contract/events';
import { sandboxUsageSchema } from '@squash/contract/usage';
import { webhookMadeSchema, webhookSchema } from '@squash/contract/webhooks';
import { cliCommand, cliEnvironment, endOf, squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';
import { WebhookReceiver } from '../support/webhook-receiver.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await TestDaemon.start({ env: { SQUASH_WEBHOOK_RANGES: '127.0.0.1' } });
  await squashOk(daemon, ['create', 'box', '--owner', 'a\u001bnn']);
});
after(() => daemon[Symbol.asyncDispose]());

async function json(...words: readonly string[]): Promise<unknown> {
  return JSON.parse(await squashOk(daemon, [...words, '--json'])) as unknown;
}

test('events are listed and followed, and what an owner is called moves no cursor', async () => {
  assert.match(await squashOk(daemon, ['events']), /sandbox\.created +box +a\\u\{1b\}nn +cpu=/);
  const { items } = (await json('events', '--sandbox', 'box', '--after', '0')) as { items: unknown };
  assert.equal(eventSchema.array().parse(items).length, 1);
  assert.deepEqual(((await json('events', '--owner', 'nobody')) as { items: unknown }).items, []);
  const follower = startCli(daemon, ['events', '--follow', '--type', 'sandbox.destroyed'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let lines = '';
  follower.stdout?.setEncoding('utf8').on('data', (text: string) => {
    lines += text;
  });
  // It asks for the newest event first: what happens before that is none of its.
  await waitFor('the first event', async () => {
    await squashOk(daemon, ['create', 'gone']);
    await squashOk(daemon, ['rm', 'gone', '--yes']);
    return lines !== '';
  });
  assert.match(lines, /^\S+Z sandbox\.destroyed {2}gone \(anon\)/);
  follower.kill();
  await endOf(follower);
});

test('top shows the busiest first, in place on a terminal and once elsewhere', async () => {
  assert.match(
    await squashOk(daemon, ['top']),
    /^\S+ {2}sandboxes: 1 [^\n]*\nID +CPU % [^\n]*\nbox +[^\n]*$/,
  );
  assert.deepEqual(
    ((await json('top')) as { id: string }[]).map(({ id }) => id),
    ['box'],
  );
  const [program, script] = cliCommand;
  const size = { rows: 10, columns: 40, env: cliEnvironment(daemon) };
  await using terminal = new Terminal([program, script, 'top'], size);
  // Two frames, each from the top.
  await waitFor(
    'two frames',
    () => terminal.screen.split('\u001b[H').filter((frame) => /sandboxes: 1[^]*box /.test(frame)).length > 1,
  );
  terminal.type('\u0003');
  assert.equal((await terminal.end()).restored, true);
});

test('stats show one sandbox, or all', async () => {
  assert.match(await squashOk(daemon, ['stats']), /^ID +CPU % +CPU S +MEMORY[^\n]*\nbox +/);
  sandboxUsageSchema.extend({ id: eventSchema.shape.sandbox }).parse(await json('stats', 'box'));
  assert.equal(((await json('stats')) as unknown[]).length, 1);
  assert.equal((await squash(daemon, ['stats', 'none'])).code, 1);
});

test('a webhook is made, tried, listed, completed and removed', async () => {
  let status = 204;
  await using receiver = await WebhookReceiver.listen(() => status);
  const made = webhookMadeSchema.parse(
    await json('webhook', 'create', receiver.url, '--type', 'sandbox.failed'),
  );
  assert.match(await squashOk(daemon, ['webhook', 'test', made.id]), /^taken with status 204/);
  status = 500;
  const failed = await squash(daemon, ['webhook', 'test', made.id]);
  assert.deepEqual([failed.code, failed.stdout.toString()], [1, 'not taken: answered 500\n']);
  const listed = await squashOk(daemon, ['webhook', 'ls']);
  assert.ok(listed.includes(made.id) && !listed.includes(made.secret));
  const { items } = (await json('webhook', 'ls')) as { items: unknown };
  assert.deepEqual(
    webhookSchema
      .array()
      .parse(items)
      .map(({ types }) => types),
    [['sandbox.failed']],
  );
  assert.match(
    await squashOk(daemon, ['__complete', '--', 'webhook', 'rm', '']),
    new RegExp(`^${made.id}\t`),
  );
  assert.match(
    await squashOk(daemon, ['__complete', '--', 'events', '--type', 'sandbox.f']),
    /^sandbox\.failed/,
  );
  assert.equal(await squashOk(daemon, ['webhook', 'rm', made.id]), made.id);
  assert.equal((await squash(daemon, ['webhook', 'test', made.id])).code, 1);
  const refused = await squash(daemon, ['webhook', 'create', 'http://10.0.0.1/']);
  assert.match(refused.stderr, /SQUASH_WEBHOOK_RANGES.*\(webhook_address_refused\)/);
});
