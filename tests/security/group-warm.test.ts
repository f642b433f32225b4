/**
 * A sandbox that is kept for a chat's next run, and what an agent leaves in it to get at that run: programs that live on, connections that
 * stay open, files. Each attempt is looked for in the run that makes it as well, where it has to be found.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Action } from '@squash/contract/actions';
import { isSingleId } from '../support/data-session.ts';
import { GroupScene } from '../support/group-scene.ts';
import { processes } from '../support/leaks.ts';

interface Attempt {
  readonly name: string;
  /** What the first run does … */
  readonly leave: string;
  /** … and what prints `found` as long as that works. */
  readonly look: string;
  /** An agent may be unable to do it at all. */
  readonly may?: true;
}

/** Prints `found` where the file becomes longer. */
const grows = (file: string): string =>
  `was=$(wc -c <${file}); sleep 0.5; [ "$(wc -c <${file})" -gt "$was" ] && echo found`;
const act = (id: string): string =>
  `{"id":"${id}","action":"message.send","chat":"keeper","text":"by a ghost"}`;

const attempts: readonly Attempt[] = [
  {
    name: 'leaves a program that no signal of a terminal ends',
    leave: `setsid sh -c 'trap "" TERM HUP INT; while :; do echo x >>/tmp/beat; sleep 0.05; done' >/dev/null 2>&1 </dev/null &`,
    look: grows('/tmp/beat'),
  },
  {
    name: 'leaves a program that is another one all the while',
    leave: `echo 'echo x >>/tmp/hydra; sleep 0.02; setsid sh /tmp/heads &' >/tmp/heads; setsid sh /tmp/heads >/dev/null 2>&1 </dev/null &`,
    look: grows('/tmp/hydra'),
  },
  {
    name: 'leaves a program that stands still',
    leave: `sh -c 'kill -STOP $$' sleeper-$((98764 + 1)) >/dev/null 2>&1 </dev/null &`,
    look: `grep -q 'sleeper-9876[5]' /proc/[0-9]*/cmdline && echo found`,
  },
  {
    name: 'leaves a program in namespaces of its own',
    leave: `setsid unshare -Urpf sh -c 'while :; do echo x >>/tmp/apart; sleep 0.05; done' >/dev/null 2>&1 </dev/null &`,
    look: grows('/tmp/apart'),
    may: true,
  },
  {
    name: 'answers on a port that the next run asks',
    leave: `setsid sh -c 'while :; do echo found | nc -l -p 4444; done' >/dev/null 2>&1 </dev/null &`,
    look: `echo | timeout 2 nc 127.0.0.1 4444`,
  },
  {
    name: 'holds a connection to the channel, and ends its request later',
    leave: `rm -f /tmp/held.in; mkfifo /tmp/held.in
      setsid sh -c 'nc caller.squash.internal 7774 </tmp/held.in >/tmp/held.out' >/dev/null 2>&1 &
      setsid sh -c 'exec 9>/tmp/held.in; printf "GET /self HTTP/1.1\\r\\nHost: channel\\r\\n" >&9; until [ -e /tmp/now ]; do sleep 0.1; done; printf "\\r\\n" >&9; sleep 2' >/dev/null 2>&1 </dev/null &`,
    look: `rm -f /tmp/now; : >/tmp/held.out; touch /tmp/now; sleep 0.7; grep -q '"run"' /tmp/held.out && echo found`,
  },
  {
    name: 'keeps a segment of memory that is no file',
    leave: `echo found >/dev/shm/left`,
    look: `cat /dev/shm/left`,
  },
];

/** Asks for actions until it is ended, each under an id that says which run began it. */
const ghost = `echo 'n=0; while :; do n=$((n + 1)); wget -q -O /dev/null --post-data "$(echo "$GHOST" | sed s/N/$n/)" http://caller.squash.internal:7774/actions; sleep 0.1; done' >/tmp/ghost
  GHOST='${act("ghost-'$SQUASH_RUN'-N")}' setsid sh /tmp/ghost >/dev/null 2>&1 </dev/null &`;

const looks = attempts
  .map(({ look }, at) => `echo "== ${at}"; (${look}) 2>/dev/null`)
  .concat('echo "== end"')
  .join('\n');
const script = `case "$(cat)" in
*leave*) echo planted >/tmp/planted; ${attempts.map(({ leave }) => leave).join('\n')}
  ${ghost}
  setsid sleep 87654.321 >/dev/null 2>&1 </dev/null &
  sleep 0.5
${looks};;
*look*) ${looks}
  sleep 1; cat /tmp/planted 2>/dev/null;;
*bomb*) sh -c 'sleep 0.3; b() { b | b & }; b; b' >/dev/null 2>&1 </dev/null & exec sleep 1;;
*) cat /tmp/planted 2>/dev/null || echo nothing;; esac`;

describe('a sandbox that is kept for the next run of its chat', () => {
  let scene: GroupScene;
  let isSingle = false;
  let leaving: readonly string[] = [];
  let looking: readonly string[] = [];
  let first = 0;
  let second = 0;
  let outside = 0;
  let actions: readonly Action[] = [];

  before(async () => {
    scene = await GroupScene.start();
    isSingle = await isSingleId(scene.daemon);
    if (isSingle) return;
    await scene.tier('warm', { warm_s: 600 });
    await scene.group('keeper', 'warm', { script });
    await scene.chat({ name: 'beside', group: 'keeper' });
    await scene.group('stranger', 'warm', { script });
    const left = await said('keeper', 'leave');
    outside = processes().filter(({ command }) => command.includes('87654.321')).length;
    const looked = await said('keeper', 'look');
    [first, second] = [left.run, looked.run];
    leaving = parts(left.text);
    looking = parts(looked.text);
    assert.equal((await scene.run('keeper', second))?.warm, true);
    actions = await scene.actions('?group=keeper&limit=1000');
  });
  after(() => scene[Symbol.asyncDispose]());

  async function said(chat: string, text: string, group = chat): Promise<{ run: number; text: string }> {
    const { run } = await scene.say(chat, text);
    await scene.ended(group, run);
    const printed = (await scene.said(chat)).filter((each) => each.run === run && each.action === null);
    return { run: run ?? 0, text: printed.map((each) => each.text).join('') };
  }

  function parts(text: string): readonly string[] {
    const cut = text.split(/^== (?:\d+|end)$/m).slice(1);
    assert.equal(cut.length, attempts.length + 1, text);
    return cut;
  }

  for (const [at, { name, may }] of attempts.entries()) {
    it(`is held where its last run ${name}`, (t) => {
      if (isSingle) return t.skip('single-id mode: there is no uid 1000');
      assert.ok(!looking[at]?.includes('found'), looking[at]);
    });
    if (may) continue;
    it(`is not held in the run that ${name}`, (t) => {
      if (isSingle) return t.skip('single-id mode: there is no uid 1000');
      assert.ok(leaving[at]?.includes('found'), leaving.join('=='));
    });
  }

  it('is held where a program of its last run acts as the next one', (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    const ghosts = actions.filter(({ id }) => id.startsWith('ghost-'));
    assert.ok(ghosts.length > 1, 'it acts while its run goes on');
    assert.deepEqual([...new Set(ghosts.map(({ run }) => run))], [first]);
  });

  it('has no process, while nobody is in it', (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    assert.equal(outside, 0);
  });

  it('has what its last run left in its files, which nobody else has', async (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    assert.equal(looking.at(-1)?.trim(), 'planted');
    assert.equal((await said('beside', 'other', 'keeper')).text, 'nothing\n');
    assert.equal((await said('stranger', 'other')).text, 'nothing\n');
  });

  it('is kept after programs without number, none of which is in the next run', async (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    const { run } = await said('keeper', 'bomb');
    assert.equal((await scene.run('keeper', run))?.state, 'done');
    const next = await said('keeper', 'look');
    assert.equal((await scene.run('keeper', next.run))?.warm, true);
    assert.equal(parts(next.text).at(-1)?.trim(), 'planted');
    for (const part of parts(next.text)) assert.ok(!part.includes('found'), part);
  });
});
