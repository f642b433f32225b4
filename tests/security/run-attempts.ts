/**
 * Registers a test for every attempt against one scene: the attempt's success is the failing condition. After each
 * the daemon answers, the neighbour is as it was and nothing outside has suffered.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { waitFor } from '../support/wait.ts';
import { type Attempt, type Outcome, outcomeOf } from './attempt.ts';
import { attempts } from './attempts/all.ts';
import { differsInVm } from './attempts/in-vm.ts';
import { UnderAttack, type UnderAttackOptions } from './under-attack.ts';

/** Every so manieth attempt: an emulated machine (tests/vm) is given a spread of them, any other all. */
const every = Number(process.env['ATTEMPTS_EVERY'] ?? 1);

/** Returns the scene, which is there when the tests run. */
export function runAttempts(
  where: string,
  options: UnderAttackOptions | (() => Promise<UnderAttackOptions>) = {},
  table: readonly Attempt[] = attempts,
): () => UnderAttack {
  const stack = new AsyncDisposableStack();
  let scene: UnderAttack;

  before(async () => {
    scene = stack.use(await UnderAttack.start(typeof options === 'function' ? await options() : options));
  });

  after(() => stack.disposeAsync());

  for (const attempt of table.filter((_, index) => index % every === 0)) {
    test(`${where} holds when ${attempt.id} is tried`, async (context) => {
      if (attempt.unless !== undefined && scene.warnings.has(attempt.unless)) {
        context.skip(`no cgroup here holds it, which a sandbox's maker is told: ${attempt.unless}`);
        return;
      }
      const own = isOnVms ? differsInVm.get(attempt.id) : undefined;
      const outcome = await outcomeIn(scene, attempt, own !== undefined);
      await scene.expectUnharmed();
      if (own !== undefined && outcome !== 'held') context.skip(own);
    });
  }
  return () => scene;
}

/** @throws when it succeeded, or did not come to its end; where it may succeed, when it has seen a secret */
async function outcomeIn(scene: UnderAttack, attempt: Attempt, maySucceed: boolean): Promise<Outcome> {
  const script = attempt.run(scene.around);
  const output = await scene.exec('attacked', scene.prepared(script));
  const outcome = outcomeOf(script, output, scene.secrets);
  const said = output.stdout + output.stderr;
  const isUntriedHere =
    outcome === 'untried' && attempt.control.kind !== 'none' && attempt.control.optional !== undefined;
  const isOwn = maySucceed && outcome !== 'broken' && !scene.secrets.some((secret) => said.includes(secret));
  assert.ok(
    outcome === 'held' || isUntriedHere || isOwn,
    `${outcome}, exit ${String(output.exitCode)}\n${script}\n${said}`,
  );
  // A bomb's last processes may still be ending, and leave room for one command and none for the next.
  await waitFor('the attacked sandbox to take commands', async () => {
    const answer = await scene.daemon.request('POST', '/cgi-bin/api/sandboxes/attacked/exec', {
      cmd: 'set -- /proc/[0-9]*; echo $#',
    });
    const processes = Number(answer.json.stdout);
    return answer.status === 200 && processes > 0 && processes < scene.around.pidsMax / 2;
  });
  return outcome;
}
