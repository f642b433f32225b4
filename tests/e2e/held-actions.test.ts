/** What agents' tiers have a person asked for: put to him, told to webhooks' followers, and each decision a line of the audit. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { auditEntrySchema } from '@squash/contract/audit';
import type { Event } from '@squash/contract/events';
import { cliCommand, cliEnvironment, squash } from '../support/cli.ts';
import { EventReader } from '../support/event-reader.ts';
import { agentTests, GroupScene } from '../support/group-scene.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

let scene: GroupScene;
before(async () => {
  scene = await GroupScene.start();
  await scene.group('board', 'untrusted', { script: 'cat' });
});
after(() => scene[Symbol.asyncDispose]());

const withAgents = agentTests(() => scene);

/** JSON of plain ASCII, within a shell's quotes. */
function quoted(value: unknown): string {
  const text = JSON.stringify(value).replace(
    /[^\x20-\x7e]|'/g,
    (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `'${text}'`;
}

/** A group whose agent asks for a message on the board, which its tier holds. */
async function asker(name: string, ...texts: readonly string[]): Promise<void> {
  const acts = texts.map((text, at) => {
    const id = `${at}\n\u001b[2J`;
    return `act ${quoted({ id, action: 'message.send', chat: 'board', text })}`;
  });
  await scene.group(name, 'trusted', { script: acts.join('\n') });
  await scene.answer(name);
}

withAgents(
  'squash approve puts what agents wait for, all of it and harmless, and has it done or refused',
  async () => {
    const fake = 'Group boss waits for message.send; action 1, run 1';
    const hidden = `lunch${' '.repeat(200)}\n\u001b[2J\u001b[1A\u202e${fake}\n[y] allow  [n] deny  [Enter] later: `;
    await asker('caterer', hidden, 'fire');
    await using terminal = new Terminal([...cliCommand, 'approve'], {
      rows: 40,
      columns: 100,
      env: cliEnvironment(scene.daemon),
    });
    const shown = await terminal.see(
      /([\s\S]*)Group caterer waits for message\.send[^\n]*\n[^\n]*\n\[y\] allow .*later: /,
    );
    const before = shown[1] ?? '';
    assert.match(before, /text: "lunch/);
    for (const line of before.split(/\r?\n/).filter((each) => each !== '')) {
      assert.match(line, /^ {2}\| /);
      assert.ok(line.length < 100, line);
    }
    // oxlint-disable-next-line no-control-regex
    assert.doesNotMatch(before, /\u001b|\u202e/);
    assert.match(terminal.screen, /asked by trusted: message\.others = hold/);
    await waitFor('the first answer', async () => {
      terminal.type('y\n');
      await new Promise((resolve) => setTimeout(resolve, 400));
      return terminal.screen.includes('text: "fire"');
    });
    await waitFor('the second answer', async () => {
      terminal.type('n\n');
      await new Promise((resolve) => setTimeout(resolve, 400));
      return terminal.screen.includes('denied');
    });
    assert.equal((await terminal.end()).status, 0);
    assert.equal(await scene.heard('board'), hidden);
    assert.deepEqual(
      (await scene.actions('?group=caterer')).map(({ state }) => state),
      ['denied', 'done'],
    );
  },
);

withAgents('a key that may not decide on agents’ actions is asked about sandboxes alone', async () => {
  const { token } = await scene.call<{ token: string }>('POST', '/v1/keys', {
    name: 'manager',
    owner: 'anon',
    scope: 'manage',
  });
  await asker('unseen', 'hello');
  await using terminal = new Terminal([...cliCommand, 'approve'], {
    rows: 40,
    columns: 100,
    env: { ...cliEnvironment(scene.daemon), SQUASH_AUTH_TOKEN: token },
  });
  await terminal.see(/nothing waits for an answer/);
});

withAgents('an action that is held, decided or withdrawn with its group is an event', async () => {
  const types = 'action.held,action.decided';
  using reader = await EventReader.open(scene.daemon, `/v1/events?follow=true&type=${types}`);
  const heard = async (): Promise<Event> => JSON.parse((await reader.next())?.data ?? 'null') as Event;
  await asker('told', 'a secret plan\n\u001b[2J', 'another');
  const [other, first] = await scene.actions('?state=held&group=told');
  assert.ok(first !== undefined && other !== undefined);
  const rule = 'trusted: message.others = hold';
  const data = { action: first.number, asked: 'message.send', group: 'told', run: first.run, rule };
  const [held, second] = [await heard(), await heard()];
  assert.deepEqual([held.type, held.data], ['action.held', data]);
  assert.match(held.sandbox, /^./);
  assert.equal(second.data['action'], other.number);
  const completed = (await squash(scene.daemon, ['__complete', '--', 'group', 'decide', ''])).stdout;
  assert.match(completed.toString(), new RegExp(`^${first.number}\ttold, message\\.send$`, 'm'));
  assert.equal((await squash(scene.daemon, ['group', 'decide', `${first.number}`, 'deny'])).code, 0);
  const decided = await heard();
  assert.deepEqual(
    [decided.type, decided.sandbox, decided.data],
    ['action.decided', '', { ...data, state: 'denied' }],
  );
  await scene.call('DELETE', '/v1/groups/told');
  assert.deepEqual((await heard()).data, { ...data, action: other.number, state: 'withdrawn' });
});

withAgents(
  'each decision is one line of the agents’ audit, with its rule, whatever an agent writes',
  async () => {
    const line =
      '"}\n{"at":"2026-01-01T00:00:00Z","caller":{"kind":"operator"},"decision":"allowed"}\r\n\u001b[2J\u2028\u0085';
    const act = (id: string, action: object): string => `act ${quoted({ id, ...action })}`;
    const send = (chat: string, text: string) => ({ action: 'message.send', chat, text });
    const script = [
      act(`own${line}`, send('writer', line)),
      act(`held${line}`, send('board', line)),
      act('denied', { action: 'group.create', name: 'child', tier: 'main' }),
      act('pause', { action: 'schedule.pause', chat: 'writer', name: 'none' }),
      act('denied', send('board', line)),
      act(`own${line}`, send('writer', line)),
      `act '{"id":1${line.replaceAll("'", '')}'`,
      `ask POST /actions '{}' $'X-A: 1\\r\\nX-Squash-Group: ${'x'.repeat(100)}'`,
    ];
    await scene.group('writer', 'trusted', { script: script.join('\n') });
    await scene.answer('writer');
    await scene.group('peeker', 'untrusted', {
      script: `ask GET '/messages?chat=board'; ask GET /messages?chat=peeker`,
    });
    await scene.answer('peeker');
    const held = (await scene.actions('?state=held&group=writer')).find(
      (each) => each.action === 'message.send',
    );
    await scene.call('POST', `/v1/group-actions/${held?.number}`, {
      decision: 'allow',
      reason: `yes${line}`,
    });
    const path = join(scene.daemon.dataDir, 'audit/agents/audit.jsonl');
    const text = await readFile(path, 'latin1');
    assert.match(text, /^(?:[\x20-\x7e]+\n)*$/);
    const lines = text
      .trim()
      .split('\n')
      .map((each) => auditEntrySchema.parse(JSON.parse(each)));
    const looks = lines.filter(({ caller }) => caller.kind === 'agent' && caller.group === 'peeker');
    assert.deepEqual(
      looks.map(({ operation, decision, rule, status }) => [operation, decision, rule, status]),
      [['look.messages', 'refused', 'untrusted: read.others = deny', 403]],
    );
    const entries = lines.filter(({ caller, action }) =>
      caller.kind === 'agent' ? caller.group === 'writer' : action === held?.number,
    );
    assert.deepEqual(
      entries.map(({ caller, operation, decision, rule, status }) => [
        `${caller.kind} ${operation} ${decision} ${status}`,
        rule,
      ]),
      [
        ['agent message.send allowed 200', 'trusted: message.own = allow'],
        ['agent message.send held 202', 'trusted: message.others = hold'],
        ['agent group.create refused 403', 'trusted: create_tiers = untrusted'],
        ['agent schedule.pause held 202', 'trusted: schedule.others = hold'],
        ['agent message.send refused 409', 'id: another action of the group has it'],
        ['operator group.decide allowed 200', 'trusted: message.others = hold'],
      ],
    );
    const page = await scene.call<{ items: readonly object[] }>('GET', '/v1/audit?of=agents&decision=held');
    assert.ok(page.items.length >= 2);
    const mine = await scene.call<{ items: readonly { caller: { kind: string } }[] }>(
      'GET',
      '/v1/audit?limit=1000',
    );
    assert.ok(mine.items.every(({ caller }) => caller.kind !== 'agent'));
    const told = (await squash(scene.daemon, ['audit', '--agents'])).stdout.toString();
    assert.match(
      told,
      /agent of writer, run \d+ .*message\.send \d+ .*held; trusted: message\.others = hold/,
    );
    // The daemon's log: no line begins where an agent's words do.
    const log = scene.daemon.output.trim().split('\n');
    assert.ok(
      log.filter((each) => each.includes('"group.action"')).every((each) => JSON.parse(each) !== null),
    );
    assert.ok(!log.some((each) => each.includes('2026-01-01T00:00:00Z')));
  },
);
