/**
 * An untrusted group whose agent attacks: other groups, the queue, schedules, what waits for a person, the host. Each attack's success is what
 * fails. Where a tier's rule is the wall the same attack is tried by a group whose tier lacks it, and has to succeed there.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Action } from '@squash/contract/actions';
import { groupLimits } from '@squash/contract/group-limits';
import type { Chat, Group } from '@squash/contract/groups';
import type { Schedule } from '@squash/contract/schedules';
import { GroupScene } from '../support/group-scene.ts';
import { processes } from '../support/leaks.ts';

const token = 'the-operator-of-this-test';

interface Attacked {
  /** What the attack printed. */
  readonly out: string;
  /** What was said in the victim's chat, and to its agent. */
  readonly victim: string;
  readonly groups: readonly Group[];
  readonly actions: readonly Action[];
  /** With `V` and `A`, as in the script. */
  readonly schedules: readonly Schedule[];
}

interface Attack {
  readonly name: string;
  /** With `V` for the victim's name and `A` for the attacker's. */
  readonly script: string;
  readonly succeeded: (attacked: Attacked) => boolean;
  /** A tier without the rule lets it through. */
  readonly rule?: true;
}

const send = (chat: string, text: string, more = ''): string =>
  `{"id":"'$RANDOM$RANDOM'","action":"message.send","chat":"${chat}","text":"${text}"${more}}`;
const said =
  (text: string) =>
  ({ victim }: Attacked) =>
    victim.includes(text);
const printed =
  (text: string | RegExp) =>
  ({ out }: Attacked) =>
    new RegExp(text).test(out);

const schedule = (name: string, chat: string, more: string): string =>
  `act '{"id":"'$RANDOM$RANDOM'","action":"schedule.create","chat":"${chat}","name":"${name}","text":"x",${more}}'`;
const change = (what: string, chat: string, name: string): string =>
  `act '{"id":"'$RANDOM$RANDOM'","action":"schedule.${what}","chat":"${chat}","name":"${name}"}'`;
const stands =
  (...wanted: readonly string[]) =>
  ({ schedules }: Attacked) =>
    schedules.some(({ chat, name, state }) => wanted.includes(`${chat} ${name} ${state}`));
const isGone =
  (wanted: string) =>
  ({ schedules }: Attacked) =>
    !schedules.some(({ chat, name }) => `${chat} ${name}` === wanted);
/** The operator's, in the victim's chat and in the attacker's own. */
const operators = ['paused', 'removed', 'rested', 'other'];
const soon = new Date(Date.now() + 1_800_000);
const isSoon = ({ next_at: next }: Schedule): boolean =>
  next?.startsWith(soon.toISOString().slice(0, 16)) === true;

const onSchedules: readonly Attack[] = [
  {
    name: 'schedules runs in another’s chat',
    script: schedule('there', 'V', '"every_s":86400'),
    succeeded: stands('V there active'),
    rule: true,
  },
  {
    name: 'schedules more often than its tier may, by an interval',
    script: schedule('often', 'A', '"every_s":3599'),
    succeeded: stands('A often active'),
    rule: true,
  },
  {
    name: 'schedules more often than its tier may, by cron',
    script: schedule('crowded', 'A', '"cron":"0,30 5 1 1 *"'),
    succeeded: stands('A crowded active'),
    rule: true,
  },
  {
    name: 'schedules more often than its tier may, around midnight',
    script: schedule('midnight', 'A', '"cron":"0-59/59 0,23 1 1 *","time_zone":"Asia/Kathmandu"'),
    succeeded: stands('A midnight active'),
    rule: true,
  },
  {
    name: 'schedules a run sooner than its tier may',
    script: schedule('soon', 'A', `"at":"${soon.toISOString()}"`),
    succeeded: stands('A soon active'),
    rule: true,
  },
  {
    name: 'schedules a run sooner than its tier may, by a cron that comes once a day',
    script: schedule('sooner', 'A', `"cron":"${soon.getUTCMinutes()} ${soon.getUTCHours()} * * *"`),
    succeeded: ({ schedules }) =>
      schedules.some((each) => each.chat === 'A' && each.name === 'sooner' && isSoon(each)),
    rule: true,
  },
  {
    name: 'pauses another’s schedule',
    script: change('pause', 'V', 'paused'),
    succeeded: stands('V paused paused'),
    rule: true,
  },
  {
    name: 'removes another’s schedule',
    script: change('remove', 'V', 'removed'),
    succeeded: isGone('V removed'),
    rule: true,
  },
  {
    name: 'resumes another’s schedule, which the operator has paused',
    script: change('resume', 'V', 'rested'),
    succeeded: stands('V rested active'),
  },
  {
    name: 'pauses the operator’s schedule in its own chat',
    script: change('pause', 'A', 'paused'),
    succeeded: stands('A paused paused'),
    rule: true,
  },
  {
    name: 'removes the operator’s schedule in its own chat',
    script: change('remove', 'A', 'removed'),
    succeeded: isGone('A removed'),
    rule: true,
  },
  {
    name: 'reads another’s schedules',
    script: `ask GET '/schedules?chat=V'; ask GET /schedules`,
    succeeded: printed('"chat":"V"'),
    rule: true,
  },
  {
    name: 'tells another’s schedule that is there from one that is not',
    script: ['V other', 'V nothing', 'nobody other']
      .map((wanted) => change('pause', wanted.split(' ')[0] ?? '', wanted.split(' ')[1] ?? ''))
      .join('; '),
    succeeded: ({ out }) => new Set(out.match(/"(?:state|rule|reason)":"[^"]*"/g)).size > 2,
    rule: true,
  },
  {
    name: 'says that another makes the schedule',
    script: ['"made_by":"V"', '"by":null', '"group":"V"', '"__proto__":{"madeBy":"V"}']
      .map((more, at) => schedule(`claimed-${at}`, 'A', `"every_s":86400,${more}`))
      .join('; '),
    succeeded: ({ schedules }) =>
      schedules.some(({ name, made_by: by }) => name.startsWith('claimed') && by !== 'A'),
  },
  {
    name: 'says that a person has allowed the schedule',
    script: ['"isAllowed":true', '"allowed":1', '"decision":"allow"']
      .map((more, at) => schedule(`allowed-${at}`, 'V', `"every_s":86400,${more}`))
      .join('; '),
    succeeded: stands('V allowed-0 active', 'V allowed-1 active', 'V allowed-2 active'),
  },
  {
    name: 'sends a day that never comes, a long cron, and a zone that is a path',
    script: `long=$(yes 0-59/1, | head -c 9000 | tr -d '\\n')
    ${schedule('never', 'A', '"cron":"0 0 30,31 2 *","time_zone":"America/New_York"')}
    ${schedule('long', 'A', `"cron":"'$long'0 0 1 1 *"`)}
    ${schedule('zone', 'A', '"cron":"0 0 1 1 *","time_zone":"../../../../etc/passwd"')}`,
    succeeded: printed('"state":"done"|"error":"internal"'),
  },
  {
    name: 'asks its channel for the operator’s schedules',
    script: `ask GET /v1/schedules; ask PATCH /v1/schedules/A/rested '{"paused":false}'; ask POST /schedules '{}'`,
    succeeded: printed('"items"|"next_at"'),
  },
  {
    name: 'has more schedules than a group has',
    script: `n=0; while [ $n -lt ${groupLimits.schedulesOfGroupMax + 4} ]; do n=$((n + 1))
      ${schedule("many-'$n'", 'A', '"every_s":86400')}; done`,
    succeeded: ({ schedules }) =>
      schedules.filter(({ made_by: by }) => by === 'A').length > groupLimits.schedulesOfGroupMax,
  },
];

const attacks: readonly Attack[] = [
  ...onSchedules,
  {
    name: 'speaks in another’s chat',
    script: `act '${send('V', 'spoken')}'`,
    succeeded: said('spoken'),
    rule: true,
  },
  {
    name: 'tells a chat that is there from one that is not',
    script: `act '${send('V', 'oracle')}'; act '${send('nobody', 'oracle')}'`,
    succeeded: ({ out }) => new Set([...out.matchAll(/"state":"(\w+)"/g)].map(([, state]) => state)).size > 1,
    rule: true,
  },
  {
    name: 'starts a run in another’s chat',
    script: `act '{"id":"start","action":"run.start","chat":"V","text":"started"}'`,
    succeeded: said('started'),
    rule: true,
  },
  {
    name: 'reads what was said to another',
    script: `ask GET '/messages?chat=V'`,
    succeeded: printed('private-words'),
    rule: true,
  },
  {
    name: 'lists another’s runs',
    script: `ask GET '/runs?group=V'`,
    succeeded: printed('"group":"V"'),
    rule: true,
  },
  { name: 'lists other groups', script: `ask GET /groups`, succeeded: printed('"V"'), rule: true },
  { name: 'lists other chats', script: `ask GET /chats`, succeeded: printed('"V"'), rule: true },
  {
    name: 'makes a group',
    script: `act '{"id":"make","action":"group.create","name":"A-made","tier":"untrusted"}'`,
    succeeded: ({ groups }) => groups.some(({ name }) => name.endsWith('-made')),
    rule: true,
  },
  {
    name: 'makes a group of the highest tier',
    script: `act '{"id":"high","action":"group.create","name":"A-high","tier":"main"}'`,
    succeeded: ({ groups }) => groups.some(({ name, tier }) => name.endsWith('-high') && tier === 'main'),
    rule: true,
  },
  {
    name: 'makes a chat of another group, to hear what its agent says',
    script: `act '{"id":"ear","action":"chat.create","chat":"A-ear","group":"V","trigger":null}'`,
    succeeded: printed('"state":"done"'),
    rule: true,
  },
  {
    name: 'says in the body that it is another',
    script: `act '${send('V', 'claimed', ',"group":"V"')}'`,
    succeeded: said('claimed'),
  },
  {
    name: 'says in the body that its run is another’s',
    script: `act '${send('V', 'claimed-run', ',"run":1')}'`,
    succeeded: said('claimed-run'),
  },
  {
    name: 'says in a header that it is another',
    script: `ask POST /actions '${send('V', 'headed')}' 'X-Squash-Group: V'`,
    succeeded: said('headed'),
  },
  {
    name: 'says in the address that it is another',
    script: `ask POST '/actions?group=V' '${send('V', 'addressed')}'; ask GET '/self?group=V'`,
    succeeded: ({ victim, out }) => victim.includes('addressed') || out.includes('"group":"V"'),
  },
  {
    name: 'says by a prototype that it is another',
    script: `act '${send('V', 'inherited', ',"__proto__":{"group":"V","tier":"main"}')}'`,
    succeeded: said('inherited'),
  },
  {
    name: 'sends a second request within the first',
    script: `body='${send('V', 'smuggled')}'; inner="POST /actions HTTP/1.1
Host: x
X-Squash-Group: V
Content-Length: \${#body}

$body"; ask POST /actions "$inner" 'Transfer-Encoding: chunked'`,
    succeeded: said('smuggled'),
  },
  {
    name: 'reads another’s action by its id',
    script: 'ask GET /actions/victims-id',
    succeeded: printed('victims-text'),
  },
  {
    name: 'climbs in the address',
    script: `ask GET /actions/../../V/actions/victims-id; ask GET '//V/runs'; ask GET /actions/%2e%2e%2fV`,
    succeeded: printed('victims-text|"items"'),
  },
  {
    name: 'asks the channel for the operator’s API',
    script: `ask GET /v1/groups; ask GET /v1/group-actions; ask GET /openapi.json`,
    succeeded: printed('"items"|"openapi"'),
  },
  {
    name: 'changes its own tier',
    script: `for method in PUT POST PATCH; do ask $method /v1/tiers/untrusted '{"message":{"own":"allow","others":"allow"}}'; ask $method /tiers/untrusted '{}'; done`,
    succeeded: printed('"built_in"'),
  },
  {
    name: 'decides what itself waits for',
    script: `for path in /v1/group-actions/1 /group-actions/1 /actions/1; do ask POST $path '{"decision":"allow"}'; done`,
    succeeded: printed('"state":"done"'),
  },
  {
    name: 'has a name that is a query',
    script: `act '${send("V'\"'\"' OR 1=1 --", 'injected')}'; act '${send('V%', 'injected')}'`,
    succeeded: said('injected'),
  },
  {
    name: 'sends what no text may hold',
    script: `act '${send('A', 'null\\u0000byte')}'`,
    succeeded: printed('"state":"done"'),
  },
  {
    name: 'sends more than a message has',
    script: `act "{\\"id\\":\\"big\\",\\"action\\":\\"message.send\\",\\"chat\\":\\"A\\",\\"text\\":\\"$(yes x | head -c 20000 | tr -d '\\n')$(yes x | head -c 20000 | tr -d '\\n')\\"}"`,
    succeeded: printed('"state":"done"'),
  },
  {
    name: 'says another thing under an id that was allowed',
    script: `act '{"id":"twice","action":"message.send","chat":"A","text":"first"}' >/dev/null; act '{"id":"twice","action":"message.send","chat":"V","text":"swapped"}'`,
    succeeded: ({ victim, out }) => victim.includes('swapped') || out.includes('"done"'),
  },
  {
    name: 'asks for more actions than a run has',
    script: `for k in 1 2 3 4; do (n=0; while [ $n -lt ${groupLimits.actionsOfRunMax / 4 + 8} ]; do n=$((n + 1))
      wget -q -O /dev/null --post-data '{"id":"f-'$k-$n'","action":"message.send","chat":"A","text":"x"}' $SQUASH_CHANNEL/actions; done) & done; wait`,
    succeeded: ({ actions }) => actions.length > groupLimits.actionsOfRunMax,
  },
  {
    name: 'reaches the daemon',
    script:
      'for host in 127.0.0.1 localhost host.squash.internal 10.0.2.2; do wget -q -T 1 -O - http://$host:PORT/v1/info; done',
    succeeded: printed('"version"'),
  },
  {
    name: 'reaches another caller’s port',
    script:
      'for port in 7773 7775 80 443; do wget -q -T 1 -O - http://caller.squash.internal:$port/self; done',
    succeeded: printed('"group"'),
  },
  {
    name: 'finds another’s folder',
    script:
      'ls /workspace; find /workspace /tmp /mnt /var /home /run -type f -exec grep -l victims-file {} + 2>/dev/null | grep -v ask',
    succeeded: printed('/secret'),
  },
  {
    name: 'finds the operator’s token',
    script: `env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'`,
    succeeded: printed(token),
  },
  {
    name: 'is root',
    script:
      'id -u; su -c "id -u" 2>/dev/null; cp /bin/busybox ./su; chmod u+s ./su; ./su id -u; touch /etc/mine && echo written',
    succeeded: printed(/^0$|written/m),
  },
  {
    name: 'leaves a process behind',
    script: 'setsid sleep 98765.4321 >/dev/null 2>&1 </dev/null & echo',
    succeeded: () => processes().some(({ command }) => command.includes('98765.4321')),
  },
];

describe('an untrusted group', () => {
  let scene: GroupScene;
  const caught = new Map<string, Attacked>();
  const freed = new Map<string, Attacked>();

  before(async () => {
    scene = await GroupScene.start({ env: { SQUASH_AUTH_TOKEN: token } });
    const open = { own: 'allow', others: 'allow' };
    await scene.call('PUT', '/v1/tiers/open', {
      message: open,
      start: open,
      read: open,
      schedule: open,
      schedule_every_s_min: 1,
      create: 'allow',
      create_tiers: ['main', 'untrusted'],
      reach: [],
      secrets: [],
    });
    await Promise.all([attack('attacker', 'untrusted', caught), attack('freed', 'open', freed)]);
  });
  after(() => scene[Symbol.asyncDispose]());

  async function attack(name: string, tier: string, found: Map<string, Attacked>): Promise<void> {
    const victim = `${name}-victim`;
    await scene.group(victim, 'untrusted', {
      script: `cat; echo victims-file > secret; act '{"id":"victims-id","action":"message.send","chat":"${victim}","text":"victims-text"}' >/dev/null`,
    });
    await scene.answer(victim, 'private-words');
    const words = (text: string): string =>
      text.replaceAll(/\bV\b/g, victim).replaceAll(/\bA\b/g, name).replaceAll('PORT', `${scene.daemon.port}`);
    const tried = attacks.filter(({ rule }) => tier === 'untrusted' || rule === true);
    await scene.group(name, tier, {
      script: tried.map(({ script }, at) => `echo "== ${at}"; ${words(script)}\n`).join(''),
    });
    for (const chat of [victim, name]) await operatorsIn(chat);
    const parts = (await scene.answer(name)).split(/^== \d+$/m).slice(1);
    assert.equal(parts.length, tried.length);
    const named = (text: string): string => (text === victim ? 'V' : text === name ? 'A' : text);
    const after = {
      victim: await afterwards(victim),
      groups: (await scene.call<{ items: Group[] }>('GET', '/v1/groups')).items.filter(
        (each) => each.created_by === name,
      ),
      actions: await scene.actions(`?group=${name}&limit=1000`),
      schedules: (await scene.call<{ items: Schedule[] }>('GET', '/v1/schedules')).items.map((each) => ({
        ...each,
        chat: named(each.chat),
        made_by: each.made_by === null ? null : named(each.made_by),
      })),
    };
    for (const [at, { name: attack }] of tried.entries())
      found.set(attack, { ...after, out: (parts[at] ?? '').replaceAll(victim, 'V') });
  }

  async function operatorsIn(chat: string): Promise<void> {
    for (const name of operators)
      await scene.call('POST', '/v1/schedules', { chat, name, text: 'victims-prompt', cron: '0 0 1 1 *' });
    await scene.call('PATCH', `/v1/schedules/${chat}/rested`, { paused: true });
  }

  /** When the runs that were started there have ended. */
  async function afterwards(victim: string): Promise<string> {
    for (const { run } of await scene.runs(victim)) await scene.ended(victim, run);
    return await scene.heard(victim);
  }

  for (const { name, succeeded, rule } of attacks) {
    it(`is held where it ${name}`, () => {
      const attacked = caught.get(name);
      assert.ok(attacked !== undefined);
      assert.ok(!succeeded(attacked), attacked.out);
    });
    if (rule === undefined) continue;
    it(`is not held without the tier’s rule where it ${name}`, () => {
      const attacked = freed.get(name);
      assert.ok(attacked !== undefined && succeeded(attacked), attacked?.out);
    });
  }

  it('keeps no more waiting for a person than is read', async () => {
    const many = groupLimits.heldMax + 8;
    const ask = `wget -q -O /dev/null --post-data '{"id":"h-'$n'","action":"message.send","chat":"attacker","text":"x"}' $SQUASH_CHANNEL/actions`;
    await scene.group('nagging', 'trusted', {
      script: `n=0; while [ $n -lt ${many} ]; do n=$((n + 1)); ${ask}; done`,
    });
    await scene.answer('nagging');
    const states = (await scene.actions('?group=nagging')).map(({ state }) => state);
    assert.equal(states.filter((state) => state === 'held').length, groupLimits.heldMax);
    assert.equal(states.filter((state) => state === 'denied').length, many - groupLimits.heldMax);
  });

  it('starts itself no deeper than the bound', async () => {
    const again = `act '{"id":"'$SQUASH_RUN'","action":"run.start","chat":"loop","text":"again"}'`;
    await scene.group('loop', 'untrusted', { script: again });
    await scene.answer('loop');
    let runs = await scene.runs('loop');
    for (let at = 0; at < runs.length; at += 1) {
      for (const { run } of runs) await scene.ended('loop', run);
      runs = await scene.runs('loop');
    }
    assert.equal(runs.length, groupLimits.depthMax + 1);
    const [last] = await scene.actions('?group=loop');
    assert.match(last?.rule ?? '', /^depth: /);
  });

  it('resumes what it has paused of its own, and nothing that a person has paused', async () => {
    await scene.group('resting', 'untrusted', {
      script: `case "$(cat)" in
      *make*) ${schedule('mine', 'resting', '"every_s":86400')};;
      *) ${change('pause', 'resting', 'mine')}; ${change('resume', 'resting', 'mine')};; esac`,
    });
    await scene.answer('resting', 'make');
    const state = async (): Promise<string> =>
      (await scene.call<Schedule>('GET', '/v1/schedules/resting/mine')).state;
    await scene.call('PATCH', '/v1/schedules/resting/mine', { paused: true });
    assert.match(await scene.answer('resting'), /"state":"failed".*others have paused it/);
    assert.equal(await state(), 'paused');
    await scene.call('PATCH', '/v1/schedules/resting/mine', { paused: false });
    assert.match(await scene.answer('resting'), /"state":"done"/);
    assert.equal(await state(), 'active');
  });

  it('has its folder removed without anything that its links lead to', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'squash-canary-'));
    const canary = join(directory, 'canary');
    await writeFile(canary, 'alive');
    const script = `ln -s ${directory} out; ln -s ${canary} file; ln -s / root; mkfifo pipe; mkdir -p a/b; ln -s ../../../../../../../../..${directory} a/b/up`;
    await scene.group('linker', 'untrusted', { script });
    await scene.answer('linker');
    await scene.call('DELETE', '/v1/groups/linker');
    assert.equal(await readFile(canary, 'utf8'), 'alive');
    await rm(directory, { recursive: true });
    const all = async <T>(what: string) =>
      (await scene.call<{ items: readonly T[] }>('GET', `/v1/${what}`)).items;
    const folders = (await all<Group>('groups')).map(({ volume }) => volume);
    const sessions = (await all<Chat>('chats')).map(({ session }) => session);
    const owned = [...folders, ...sessions].filter((each) => each !== null);
    assert.equal((await all('volumes')).length, owned.length + 1, 'and the memory of all groups');
  });
});
