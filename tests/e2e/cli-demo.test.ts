/** `squash demo`: that it finds nothing where the walls stand, and does find what it looks for where they do not. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import type { ProcessResult } from '@squash/contract/process';
import { attempts } from '../../cli/src/demo/attempts.ts';
import { Bait } from '../../cli/src/demo/bait.ts';
import { endOf, squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';

interface Told {
  readonly attempts: readonly { readonly id: string; readonly outcome: string; readonly by: string }[];
}

describe('squash demo', () => {
  let daemon: TestDaemon;
  before(async () => {
    daemon = await TestDaemon.start();
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });
  const leftovers = (): readonly string[] =>
    readdirSync(homedir()).filter((name) => name.startsWith('.squash-demo-'));

  it('has everything stopped, or says that it was not tried or is not enforced, and leaves nothing', async () => {
    const end = await squash(daemon, ['demo', '--json']);
    assert.equal(end.code, 0, `${end.stdout.toString()}${end.stderr}`);
    const told = JSON.parse(end.stdout.toString()) as Told;
    assert.deepEqual(
      told.attempts.map(({ id }) => id),
      attempts.map(({ id }) => id),
    );
    const certain = [
      'home',
      'shadow',
      'processes',
      'kill',
      'layers',
      'mount',
      'settings',
      'secret',
      'metadata',
      'loopback',
    ];
    for (const { id, outcome, by } of told.attempts) {
      assert.notEqual(outcome, 'succeeded', `${id}: ${by}`);
      if (certain.includes(id)) assert.equal(outcome, 'stopped', `${id}: ${by}`);
    }
    assert.equal(await squashOk(daemon, ['ls', '-q']), '');
    assert.deepEqual(leftovers(), []);
  });

  it('removes what it made where it is interrupted', async () => {
    const child = startCli(daemon, ['demo'], { stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = endOf(child);
    child.stdout?.once('data', () => child.kill('SIGINT'));
    assert.equal((await ended).signal, 'SIGINT');
    assert.equal(await squashOk(daemon, ['ls', '-q']), '');
    assert.deepEqual(leftovers(), []);
  });
});

describe('the attempts of squash demo where there is no sandbox', () => {
  // Only those that do no harm there.
  for (const id of ['home', 'shadow', 'processes', 'loopback', 'kill']) {
    it(`${id} gets through`, async () => {
      const attempt = attempts.find((each) => each.id === id);
      assert.ok(attempt);
      await using bait = await Bait.lay();
      const script = attempt.script(bait);
      const options = { timeout: 20_000, maxBuffer: 16_777_216 };
      const run = promisify(execFile)('/bin/sh', ['-c', script], options);
      // Some of it fails there, too: what counts is the bait.
      const said = await run.catch(
        (cause: unknown) => cause as { readonly stdout: string; readonly stderr: string },
      );
      const { stdout, stderr } = said;
      const result = { stdout, stderr, exit_code: 0 } as ProcessResult;
      const neighbour = async (): Promise<string> => await Promise.resolve('');
      const verdict = await attempt.judge({ bait, result, decisions: [], weaker: new Set(), neighbour });
      assert.equal(verdict.outcome, 'succeeded', `${verdict.by} ${stderr}`);
    });
  }
});
