/**
 * An agent attacks what stands between it and a person: it forges, answers, swaps, floods and outlives what is held, writes into what a person
 * and his tools read, and keeps a run alive of which nothing comes. Where a tier's row or a time is the wall, the same is tried without
 * it, and has to succeed there.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Action, actionStates } from '@squash/contract/actions';
import { auditEntrySchema } from '@squash/contract/audit';
import { groupLimits } from '@squash/contract/group-limits';
import { squash } from '../support/cli.ts';
import { GroupScene } from '../support/group-scene.ts';
import { patience } from '../support/wait.ts';

interface Attacked {
  /** What the attack printed. */
  readonly out: string;
  readonly victim: string;
  readonly actions: readonly Action[];
  /** What the bystander's agent waits for. */
  readonly bystander: readonly Action[];
  readonly audit: string;
  readonly events: string;
  /** `squash group held`, of every state. */
  readonly shown: string;
  /** Names of groups, chats and schedules. */
  readonly made: string;
}

interface Attack {
  readonly name: string;
  /** With `V` for the victim's name, `A` for the attacker's. */
  readonly script: string;
  readonly succeeded: (attacked: Attacked) => boolean;
  /** A tier that holds nothing lets it through. */
  readonly rule?: true;
}

const act = (id: string, more: string): string => `act '{"id":"${id}",${more}}'`;
const send = (text: string, chat = 'V'): string =>
  `"action":"message.send","chat":"${chat}","text":"${text}"`;
const said =
  (text: string) =>
  ({ victim }: Attacked) =>
    victim.includes(text);
const printed =
  (text: string) =>
  ({ out }: Attacked) =>
    new RegExp(text).test(out);
const isMade =
  (name: string) =>
  ({ made }: Attacked) =>
    made.includes(`"A${name}"`);
const decide = `'{"decision":"allow"}'`;
const forged = '\\n{\\"at\\":\\"2026-01-01T00:00:00Z\\",\\"forged\\":1}\\n';

const attacks: readonly Attack[] = [
  {
    name: 'speaks without a person',
    script: act('plain', send('plain')),
    succeeded: said('plain'),
    rule: true,
  },
  {
    name: 'has it done by asking again',
    script: `${act('again', send('again'))}; ${act('again', send('again'))}`,
    succeeded: said('again'),
    rule: true,
  },
  {
    name: 'has it done by asking at once over many connections',
    script: `for n in 1 2 3 4 5 6; do wget -q -O /dev/null --post-data '{"id":"once",${send('at-once')}}' $SQUASH_CHANNEL/actions & done; wait`,
    succeeded: said('at-once'),
    rule: true,
  },
  {
    name: 'names its own chat first and another’s behind it',
    script: act('twice', `"chat":"A",${send('second-chat')}`),
    succeeded: said('second-chat'),
    rule: true,
  },
  {
    name: 'starts a run without a person',
    script: act('start', '"action":"run.start","chat":"V","text":"started"'),
    succeeded: said('started'),
    rule: true,
  },
  {
    name: 'makes a group without a person',
    script: act('group', '"action":"group.create","name":"A-child","tier":"untrusted"'),
    succeeded: isMade('-child'),
    rule: true,
  },
  {
    name: 'makes a chat without a person',
    script: act('chat', '"action":"chat.create","chat":"A-chat","group":"A","trigger":null'),
    succeeded: isMade('-chat'),
    rule: true,
  },
  {
    name: 'schedules in another’s chat without a person',
    script: act('plan', '"action":"schedule.create","chat":"V","name":"A-plan","text":"x","every_s":86400'),
    succeeded: isMade('-plan'),
    rule: true,
  },
  {
    name: 'answers for the person over its channel',
    script: `${act('self', send('self-allowed'))}; for way in POST PUT PATCH DELETE; do ask $way /actions/self ${decide}; ask $way /group-actions/1 ${decide}; done`,
    succeeded: said('self-allowed'),
    rule: true,
  },
  {
    name: 'answers for the person with his API’s words and a header',
    script: `for n in 1 2 3; do ask POST /v1/group-actions/$n ${decide} 'Authorization: Bearer operator'; done`,
    succeeded: printed('"state":"(?:done|denied)"'),
  },
  {
    name: 'answers for the person at the daemon’s own door',
    script: `for host in 127.0.0.1 host.squash.internal caller.squash.internal; do wget -q -T 1 -O - --header 'content-type: application/json' --post-data ${decide} http://$host:PORT/v1/group-actions/1; done`,
    succeeded: printed('"state"'),
  },
  {
    name: 'says that it is allowed already',
    script: [
      '"state":"done"',
      '"decision":"allow"',
      '"rule":"main: message.others = allow"',
      '"isAllowed":true',
      '"__proto__":{"effect":"allow"}',
    ]
      .map((more, at) => act(`said-${at}`, `${send('said-allowed')},${more}`))
      .join('; '),
    succeeded: said('said-allowed'),
  },
  {
    name: 'swaps what is held for something else',
    script: `${act('swap', send('harmless'))}; ${act('swap', send('swapped'))}; ${act('swap', '"action":"run.start","chat":"V","text":"swapped"')}`,
    succeeded: said('swapped'),
  },
  {
    name: 'has another’s answer by its id',
    script: `ask GET /actions/bystanders-id; ${act('bystanders-id', send('bystanders-text', 'A'))}`,
    succeeded: printed('bystanders-secret'),
  },
  {
    name: 'writes a line of the audit',
    script: `${act(`line${forged}`, send(forged))}; ${act('line', `"action":"message.send","chat":"A${forged}","text":"x"`)}; ask POST '/actions?${'x'.repeat(40)}%0a%7b' '${forged}'`,
    succeeded: ({ audit }) => audit.includes('forged') || !isAudit(audit),
  },
  {
    name: 'steers the terminal of who reads the audit',
    script: act('\\u001b[2J\\u009b1A\\u202e', send('\\u001b[2J\\u2028')),
    // oxlint-disable-next-line no-control-regex
    succeeded: ({ audit }) => /[^\n\x20-\x7e]/.test(audit),
  },
  {
    name: 'writes into what webhooks get',
    script: act('evented', send(`evented${forged}`)),
    succeeded: ({ events }) => /forged|evented/.test(events),
  },
  {
    name: 'steers the terminal of who lists what is held',
    script: act('steer', send('\\u001b[2J\\u009b1A\\u001b]0;x\\u0007\\b\\r')),
    // oxlint-disable-next-line no-control-regex
    succeeded: ({ shown }) => /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/.test(shown),
  },
  {
    name: 'has what is held shown in another order than it is',
    script: act('bidi', send('\\u202eevil\\u2066\\u200f\\u2029')),
    succeeded: ({ shown }) => /[\p{Cf}\u2028\u2029]/u.test(shown),
  },
  {
    name: 'has a row more in the list of what is held',
    script: act('row', send('x\\n   1  1s  main  held  fake-row')),
    succeeded: ({ shown }) => /^ *1 .*fake-row/m.test(shown),
  },
  {
    name: 'asks for the decision as an action',
    script: `${act('own-1', '"action":"group.decide","number":1,"decision":"allow"')}; ${act('own-2', '"action":"approval.decide","approval":"appr_00000000000000000000","decision":"allow"')}`,
    succeeded: printed('"state"'),
  },
  {
    name: 'lists what waits for a person',
    script: `for path in actions held group-actions '/v1/group-actions?state=held' v1/approvals; do ask GET "/$path"; done`,
    succeeded: printed('"items"|bystanders-secret'),
  },
  {
    name: 'reads the audit or follows events over its channel',
    script: `ask GET '/v1/audit?of=agents'; ask GET '/v1/events?after=0'; ask GET /audit; ask GET /events`,
    succeeded: printed('"items"|"request_id"|action.held'),
  },
  {
    name: 'finds the audit’s files',
    script: `find / -xdev -name 'audit*.jsonl' 2>/dev/null; find / -xdev -name squash.db 2>/dev/null`,
    succeeded: printed('audit[^"]*jsonl|squash.db'),
  },
  {
    name: 'has held what is longer than a person is shown',
    script: `long=$(yes x | head -c 34000 | tr -d '\\n'); ${act("'$long'", send('long-id'))}; ${act('long', send("'$long'"))}`,
    succeeded: ({ actions }) =>
      actions.some(({ id, request }) => `${id}${JSON.stringify(request)}`.length > 17_000),
  },
  {
    name: 'breaks the channel with what is nested deep',
    script: `deep=$(yes '[' | head -c 60000 | tr -d '\\n'); ask POST /actions "$deep"; ${act('deep', send('x","y":\'$deep\''))}; ask GET /self`,
    succeeded: ({ out }) => out.includes('"internal"') || !out.includes('"tier"'),
  },
  {
    name: 'holds more than a person reads',
    script: `n=0; while [ $n -lt ${groupLimits.heldMax + 8} ]; do n=$((n + 1)); wget -q -O /dev/null --post-data '{"id":"f-'$n'",${send('flood')}}' $SQUASH_CHANNEL/actions; done`,
    succeeded: ({ actions }) =>
      actions.filter(({ state }) => state === 'held' || state === 'done').length > groupLimits.heldMax + 8,
    rule: true,
  },
  {
    name: 'floods what another waits for out of the list',
    script: ':',
    succeeded: ({ bystander }) => bystander.length !== 1,
  },
];

function isAudit(text: string): boolean {
  try {
    for (const line of text.trim().split('\n')) auditEntrySchema.parse(JSON.parse(line));
    return true;
  } catch {
    return false;
  }
}

/** Ways to look busy, for nearly two seconds at the least. Each is a run, because it ends one. */
const loops: Readonly<Record<string, string>> = {
  'looking about': 'ask GET /self',
  'asking for what is not there': 'ask GET /actions/none; ask GET /nowhere',
  'asking for the same action again': act('same', send('x', 'LOOP')),
  'asking what is refused': `${act('same', send('x', 'LOOP'))}; ${act('same', send('y', 'LOOP'))}`,
  'asking what is no action': 'act nonsense',
  'holding connections': 'sleep 1 | nc caller.squash.internal 7774',
  computing: 'n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done',
  'writing files': 'date >> /workspace/group/log; date > /tmp/log',
  'printing more than is kept': `yes | head -c 4000 >&4`,
};

/** Longer than a loop takes while all the others run. */
const longS = 60 * patience;

let scene: GroupScene;
before(async () => {
  scene = await GroupScene.start();
});
after(() => scene[Symbol.asyncDispose]());

describe('an agent whose tier has a person asked', () => {
  const caught = new Map<string, Attacked>();
  const freed = new Map<string, Attacked>();

  before(async () => {
    const all = (others: string) => ({ own: 'allow', others });
    for (const [name, effect] of Object.entries({ asking: 'hold', open: 'allow' }))
      await scene.call('PUT', `/v1/tiers/${name}`, {
        message: all(effect),
        start: all(effect),
        read: all('deny'),
        schedule: all(effect),
        schedule_every_s_min: 1,
        create: effect,
        create_tiers: ['untrusted'],
        reach: [],
        secrets: [],
      });
    await Promise.all([attack('attacker', 'asking', caught), attack('freed', 'open', freed)]);
  });

  async function attack(name: string, tier: string, found: Map<string, Attacked>): Promise<void> {
    const [victim, bystander] = [`${name}-victim`, `${name}-bystander`];
    await scene.group(victim, 'untrusted', { script: 'cat' });
    await scene.group(bystander, 'asking', {
      script: act('bystanders-id', send('bystanders-secret', victim)),
    });
    await scene.answer(bystander);
    const words = (text: string): string =>
      text.replaceAll(/\bV\b/g, victim).replaceAll(/\bA\b/g, name).replaceAll('PORT', `${scene.daemon.port}`);
    const tried = attacks.filter(({ rule }) => tier === 'asking' || rule === true);
    await scene.group(name, tier, {
      script: tried.map(({ script }, at) => `echo "== ${at}"; ${words(script)}\n`).join(''),
    });
    const parts = (await scene.answer(name)).split(/^== \d+$/m).slice(1);
    assert.equal(parts.length, tried.length);
    const asked = await scene.actions(`?group=${name}&limit=1000`);
    const swap = asked.find(({ id, state }) => id === 'swap' && state === 'held');
    if (swap !== undefined)
      await scene.call('POST', `/v1/group-actions/${swap.number}`, { decision: 'allow' });
    const after = await afterwards({ name, victim, bystander });
    for (const [at, { name: of }] of tried.entries()) found.set(of, { ...after, out: parts[at] ?? '' });
  }

  async function afterwards(names: {
    readonly name: string;
    readonly victim: string;
    readonly bystander: string;
  }) {
    const { name, victim, bystander } = names;
    for (const { run } of await scene.runs(victim)) await scene.ended(victim, run);
    const lists = ['groups', 'chats', 'schedules'];
    const made = await Promise.all(
      lists.map(async (list) => (await scene.daemon.request('GET', `/v1/${list}`)).text),
    );
    const shown = await Promise.all(
      actionStates.map((state) => squash(scene.daemon, ['group', 'held', '--state', state, '--group', name])),
    );
    return {
      victim: await scene.heard(victim),
      actions: await scene.actions(`?group=${name}&limit=1000`),
      bystander: await scene.actions(`?state=held&group=${bystander}`),
      audit: await readFile(join(scene.daemon.dataDir, 'audit/agents/audit.jsonl'), 'latin1'),
      events: (await scene.daemon.request('GET', '/v1/events?type=action.held,action.decided&limit=1000'))
        .text,
      shown: shown.map(({ stdout }) => stdout.toString()).join(''),
      made: made.join('').replaceAll(name, 'A'),
    };
  }

  for (const { name, succeeded, rule } of attacks) {
    it(`is held where it ${name}`, () => {
      const attacked = caught.get(name);
      assert.ok(attacked !== undefined);
      assert.ok(!succeeded(attacked), `${attacked.out}\n${attacked.victim}`);
    });
    if (rule === undefined) continue;
    it(`is not held without the tier’s rule where it ${name}`, () => {
      const attacked = freed.get(name);
      assert.ok(attacked !== undefined && succeeded(attacked), attacked?.out);
    });
  }

  it('can be allowed what it waits for, as it was first, however much else it asks', () => {
    assert.match(caught.get('swaps what is held for something else')?.victim ?? '', /harmless/);
  });

  it('outlives neither a no nor its group by what it asked for', async () => {
    const script = act('mine', send('outlived', 'attacker-victim'));
    await scene.group('mortal', 'asking', { script });
    await scene.answer('mortal');
    const [first] = await scene.actions('?state=held&group=mortal');
    await scene.call('POST', `/v1/group-actions/${first?.number}`, { decision: 'deny', reason: 'no' });
    assert.match(await scene.answer('mortal'), /"state":"denied".*"reason":"no"/);
    await scene.call('DELETE', '/v1/groups/mortal');
    await scene.group('mortal', 'asking', { script });
    assert.equal((await scene.actions('?group=mortal')).length, 0);
    await scene.answer('mortal');
    const [second] = await scene.actions('?state=held&group=mortal');
    await scene.call('DELETE', '/v1/groups/mortal');
    const path = `/v1/group-actions/${second?.number}`;
    assert.equal(await scene.refused('POST', path, { decision: 'allow' }), 'action_not_found');
    assert.doesNotMatch(await scene.heard('attacker-victim'), /outlived/);
  });
});

describe('a run of which nothing comes', () => {
  const heard = new Map<string, string>();

  before(async () => {
    await Promise.all(Object.keys(loops).flatMap((_, at) => [busy(at, 1), busy(at, longS)]));
  });

  /** Descriptor 4 is its output; all else that the loop prints is dropped. */
  async function busy(at: number, idleS: number): Promise<void> {
    const group = `busy-${at}-${idleS}`;
    const loop = (Object.values(loops)[at] ?? '').replaceAll('LOOP', group);
    const script = `exec 4>&1 >/dev/null 2>/dev/null
      turn=0; until [ $turn -ge 7 ]; do turn=$((turn + 1)); { ${loop}; }; sleep 0.25; done`;
    await scene.group(group, 'main', {
      script,
      idle_timeout_s: idleS,
      output_bytes_max: 1_000,
    });
    await scene.answer(group);
    const [run] = await scene.runs(group);
    heard.set(group, `${run?.state} ${run?.reason}`);
  }

  for (const [at, name] of Object.keys(loops).entries()) {
    it(`is ended though it goes on ${name}`, () => {
      assert.match(
        heard.get(`busy-${at}-1`) ?? '',
        /^failed neither output nor an action came for "idle_timeout_s"/,
      );
    });
    it(`is not ended without the time where it goes on ${name}`, () => {
      assert.equal(heard.get(`busy-${at}-${longS}`), 'done null');
    });
  }
});
