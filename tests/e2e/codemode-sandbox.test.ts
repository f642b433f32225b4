/** The shared suite and the soak on the executor `sandbox`: engines in sandboxes of a real daemon. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { allCases } from '../../codemode/src/suite/all-cases.ts';
import { runSuite } from '../../codemode/src/suite/run-suite.ts';
import { soak } from '../../codemode/src/suite/soak.ts';
import { cliCommand, endOf, squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const daemon = await TestDaemon.start();
// The command line finds the daemon by its data directory.
process.env['SQUASH_DATA'] = daemon.dataDir;
after(() => daemon[Symbol.asyncDispose]());

runSuite('sandbox', allCases, { squash: cliCommand });
soak('sandbox', 20, { squash: cliCommand });

test('squash codemode run takes a sandbox where a daemon answers, and removes it when it is ended', async () => {
  assert.equal(await squashOk(daemon, ['codemode', 'run'], { input: 'return 20 + 1' }), '21');
  const owned = async () => {
    const listed: readonly { readonly id: string; readonly owner: string }[] = JSON.parse(
      await squashOk(daemon, ['ls', '--json']),
    );
    return listed.filter((each) => each.owner === 'codemode');
  };
  assert.deepEqual(await owned(), []);
  const program = startCli(daemon, ['codemode', 'run']);
  const end = endOf(program);
  program.stdin?.end('console.log("up"); await new Promise(() => {})');
  const [sandbox] = await waitFor(
    'a sandbox for the program',
    async () => {
      const found = await owned();
      return found.length === 1 ? found : undefined;
    },
    60_000,
  );
  const network = await daemon.call('GET', `/v1/sandboxes/${sandbox?.id}/policy`);
  assert.deepEqual([network.policy.allow, network.secrets], [['none'], []]);
  program.kill('SIGINT');
  const { code, stderr } = await end;
  assert.match(stderr, /aborted/);
  assert.equal(code, 1);
  assert.deepEqual(await owned(), []);
});

test('squash codemode run says in words why there is no sandbox, and what does without', async () => {
  await squashOk(daemon, ['quota', 'set', 'codemode', '--sandboxes', '0']);
  try {
    const { code, stderr } = await squash(daemon, ['codemode', 'run'], { input: 'return 1' });
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^squash: the Squash daemon gives no sandbox: [A-Z][^{}]*; another executor needs none, such as quickjs \(unavailable\)$/m,
    );
  } finally {
    await squashOk(daemon, ['quota', 'set', 'codemode', '--none']);
  }
});

test('squash codemode run says how much of a log is missing', async () => {
  const program = startCli(daemon, ['codemode', 'run', '--executor', 'quickjs']);
  const end = endOf(program);
  program.stdin?.end('for (let i = 0; i < 10_005; i += 1) console.log(i); return "done"');
  const { code, stdout, stderr } = await end;
  assert.deepEqual([code, String(stdout)], [0, 'done\n']);
  assert.match(stderr, /\n9999\nsquash: 5 more lines were logged than a log holds\n$/);
});
