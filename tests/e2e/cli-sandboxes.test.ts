/** The commands of `squash` about sandboxes whose ids the daemon makes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Capability } from '@squash/contract/capability';
import { sandboxSchema } from '@squash/contract/native-sandbox';
import { isOnVms } from '../support/backend.ts';
import { bothSchema, squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';

test('create without an id, set, pause, resume and fork take one of /v1 through its life', async () => {
  await using daemon = await TestDaemon.start();
  const json = async (...words: string[]): Promise<unknown> =>
    JSON.parse(await squashOk(daemon, ['--json', ...words]));

  // Where memory can not be limited a sandbox that asks for a limit is refused.
  const { host } = (await daemon.call('GET', '/v1/info')) as { readonly host: readonly Capability[] };
  const isHeld = host.some(({ name, state }) => name === 'cgroup_memory' && state === 'ok');
  const memory = (megabytes: string): readonly string[] => (isHeld ? ['--memory', megabytes] : []);
  const words = [
    '--name',
    'My build',
    '--label',
    'project=web',
    '--label',
    'odd',
    '-e',
    'A=1',
    ...memory('64'),
  ];
  const id = await squashOk(daemon, [
    'create',
    ...words,
    '--lifetime',
    '2h',
    '--idle',
    '10m',
    '--on-timeout',
    'pause',
  ]);
  assert.match(id, /^sb[a-z2-7]{16}$/);
  const made = bothSchema.parse(await json('info', id));
  assert.deepEqual([made.name, made.labels, made.env], ['My build', { project: 'web', odd: '' }, { A: '1' }]);
  assert.deepEqual([made.lifetime_s, made.idle_timeout_s, made.on_timeout], [7_200, 600, 'pause']);
  const other = await squashOk(daemon, [
    'create',
    ...memory('64'),
    '--allow-net',
    'none',
    '-l',
    '000-base-test',
  ]);
  assert.equal(await squashOk(daemon, ['ls', '-q', '--label', 'project=web', '--label', 'odd']), id);
  assert.equal(await squashOk(daemon, ['ls', '-q', '--name', 'My build', '--state', 'ready']), id);
  assert.equal(await squashOk(daemon, ['ls', '-q', '--state', 'paused']), '');
  assert.match(
    await squashOk(daemon, ['ls']),
    /NAME +LABELS[\s\S]*My build +odd, project=web|project=web, odd/,
  );
  assert.match(await squashOk(daemon, ['policy', 'show', other]), /none/);
  // Of a microVM the memory is changed while it is stopped.
  const change = [
    '--name',
    'b',
    '--label',
    'odd-',
    '--label',
    'k=a\u001bb',
    '-e',
    'B=2',
    '-e',
    'A-',
    '--lifetime',
    '0',
  ];
  const shown = await squashOk(daemon, ['set', id, ...change, ...(isOnVms ? [] : memory('128'))]);
  assert.match(shown, /^labels: +project=web$/m);
  assert.match(shown, /^ +k=a\\u\{1b\}b$/m);
  const changed = sandboxSchema.parse(await json('set', id, '--idle', '0'));
  assert.deepEqual(
    [changed.env, changed.memory_mb, changed.lifetime_s],
    [{ B: '2' }, isHeld && !isOnVms ? 128 : made.memory_mb, null],
  );
  assert.deepEqual([changed.name, changed.idle_timeout_s], ['b', null]);
  assert.equal(await squashOk(daemon, ['pause', id]), 'paused');
  const refused = await squash(daemon, ['exec', id, 'true']);
  assert.match(refused.stderr, /\(sandbox_paused\)/);
  assert.equal(await squashOk(daemon, ['resume', id]), 'ready');
  assert.equal(sandboxSchema.parse(await json('pause', id, '--keep', 'files')).state, 'stopped');
  assert.equal(await squashOk(daemon, ['resume', id]), 'ready');
  await squashOk(daemon, ['exec', id, '-c', 'echo one > /root/file']);
  assert.equal(await squashOk(daemon, ['snapshot', id, 'first', '--label', 'step=1']), 'first');
  await squashOk(daemon, ['exec', id, '-c', 'echo two > /root/file']);
  const fork = await squashOk(daemon, ['fork', id, '--name', 'fork']);
  const old = sandboxSchema.parse(await json('create', '--from', `${id}:first`));
  assert.equal(await squashOk(daemon, ['exec', fork, 'cat', '/root/file']), 'two');
  assert.equal(await squashOk(daemon, ['exec', old.id, 'cat', '/root/file']), 'one');
  assert.equal(old.snapshot, 'origin');
  await squashOk(daemon, ['rm', id, other, fork, old.id]);
  for (const wrong of [
    ['create', 'mine', '--name', 'x'],
    ['create', '--from', 'x', '-l', 'y'],
    ['create', '--from', 'x', '--image', 'registry.invalid/y'],
    ['fork', 'x', '--image', 'registry.invalid/y'],
    ['create', '--idle', '2'],
    ['create', '--lifetime', '5w'],
    ['set', 'x'],
    ['set', 'x', '--label', '=y'],
    ['snapshots', 'label', 'x', 'y'],
  ])
    assert.equal((await squash(daemon, wrong)).code, 2, wrong.join(' '));
});
