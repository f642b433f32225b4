/**
 * A microVM whose commands leave each other no memory to run in: PID 1 of its guest ends that, as its kernel would not for minutes, and
 * takes nobody for it who reads more than fits into memory.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';

const sandboxes = '/cgi-bin/api/sandboxes';
let daemon: TestDaemon;

before(async () => {
  daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule() },
    env: { SQUASH_BACKEND: 'vm' },
  });
  await send('POST', sandboxes, { id: 'dev', layers: ['000-base-debian'], memory_mb: 128 });
});
after(async () => await daemon[Symbol.asyncDispose]());

async function send(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await daemon.request(method, path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

async function run(cmd: string, timeoutS = 240): Promise<Answer['json']> {
  return (await send('POST', `${sandboxes}/dev/exec`, { cmd, timeout: timeoutS })).json;
}

async function output(cmd: string): Promise<string> {
  const { exit_code: code, stdout, stderr } = await run(cmd);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

/** One that has so many MB for good. */
const holder = (mb: number): string =>
  `perl -e 'push @a, "x" x 1e6 for 1..${mb}; open F, ">/root/has"; close F; sleep 1000'`;

test('who reads more than fits beside other programs is left alone', async () => {
  await output('dd if=/dev/zero of=/root/large bs=1M count=150 2>/dev/null');
  await output(`nohup ${holder(33)} >/dev/null 2>&1 & until test -e /root/has; do sleep 0.2; done`);
  // For long enough that it would be seen some times.
  assert.equal(await output('for i in 1 2; do cat /root/large >/dev/null || exit; done'), '');
  assert.equal(await output('pkill -c perl; rm /root/large /root/has'), '1');
});

test('programs that leave each other nothing to run in come to an end that is told', async () => {
  // Each wants a little more each time that it gets on. By itself that takes more than the time that it has here.
  const { exit_code: code, reason } = await run(
    `perl -e '
      for (1..6) {
        next if fork;
        open STDOUT, ">/dev/null"; open STDERR, ">/dev/null";
        while (1) { $_ = \`ls -l /usr/bin | sort -r | md5sum\`; push @a, "x" x 100_000 }
      }
      push @a, "x" x 1e6 for 1..20;
      sleep 1000'`,
    100,
  );
  assert.deepEqual([code, reason], [137, 'oom_killed']);
  await output('pkill perl; while pgrep -x perl >/dev/null; do sleep 0.1; done');
});

test('nothing is left of it when it is gone', async () => {
  await send('DELETE', `${sandboxes}/dev`);
  assert.deepEqual(
    processesOf(daemon.dataDir).filter(({ command }) => command.includes('qemu-system')),
    [],
  );
});
