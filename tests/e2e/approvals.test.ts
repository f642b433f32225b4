/** What waits for a person, on the command line and between owners: a real daemon, a sandbox of busybox, a real terminal. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApprovalInfo } from '@squash/contract/approvals';
import type { Event } from '@squash/contract/events';
import { baseLayer, repository } from '../support/base-layer.ts';
import { cliCommand, cliEnvironment, squash } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { EventReader } from '../support/event-reader.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

let daemon: TestDaemon;

before(async () => {
  daemon = await TestDaemon.start({ modules: { '000-base-debian': await baseLayer() } });
});

after(async () => {
  await daemon[Symbol.asyncDispose]();
});

beforeEach(async () => {
  await squash(daemon, ['rm', 'box', '--yes']);
  const policy = { allow: ['none'], ask: ['*'], ask_timeout_ms: 120_000 };
  await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'box', layers: ['000-base-debian'], policy });
});

/** A program that connects, and writes how that ends. */
async function connect(host: string): Promise<string> {
  const job = (await daemon.call('POST', '/cgi-bin/api/sandboxes/box/exec-bg', {
    cmd: `sleep 60 | nc ${host} 443`,
  })) as { readonly job_id: string };
  return `/cgi-bin/api/sandboxes/box/jobs/${job.job_id}`;
}

async function approvals(state: string): Promise<readonly ApprovalInfo[]> {
  const page = await daemon.call('GET', `/v1/approvals?state=${state}`);
  return (page as { readonly items: readonly ApprovalInfo[] }).items;
}

async function asked(host: string): Promise<ApprovalInfo> {
  return await waitFor(`a question about ${host}`, async () =>
    (await approvals('pending')).find((each) => each.host === host),
  );
}

const open = (words: readonly string[], env: Readonly<Record<string, string>> = cliEnvironment(daemon)) =>
  new Terminal([...cliCommand, ...words], { rows: 40, columns: 120, env });

/** Answers are heard a moment after the question. */
async function answer(terminal: Terminal, key: string, then: RegExp): Promise<void> {
  await waitFor(`the answer ${then}`, async () => {
    terminal.type(`${key}\n`);
    await new Promise((resolve) => setTimeout(resolve, 400));
    return then.test(terminal.screen);
  });
}

test('squash approve puts one question after the other, and ends when nothing waits', async () => {
  assert.match((await squash(daemon, ['approve'])).stderr, /no terminal to ask on/);
  await connect('one.example.com');
  await asked('one.example.com');
  await connect('xn--bcher-kva.example');
  await asked('xn--bcher-kva.example');
  await using terminal = open(['approve']);
  const shown = await terminal.see(/Sandbox box waits for (\S+):443[\s\S]*later: /);
  assert.equal(shown[1], 'one.example.com');
  assert.match(terminal.screen, /asked by ask\[0\] \*; refused in \d+ s/);
  await answer(terminal, 's', /allowed[\s\S]*xn--bcher-kva\.example:443[\s\S]*letters of other scripts/);
  await answer(terminal, 'n', /denied/);
  assert.equal((await terminal.end()).status, 0);
  const { policy } = (await daemon.call('GET', '/v1/sandboxes/box/policy')) as { policy: { allow: unknown } };
  assert.deepEqual(policy.allow, ['one.example.com:443']);
  await using again = open(['approve']);
  await again.see(/nothing waits for an answer/);
});

test('squash approve --watch goes on, and takes a question back that others have answered', async () => {
  await using terminal = open(['approve', '--watch']);
  await connect('first.example.com');
  await terminal.see(/waits for first\.example\.com:443[\s\S]*later: /);
  const { id } = await asked('first.example.com');
  const allowed = await squash(daemon, ['approvals', 'allow', id, '--reason', 'seen']);
  assert.match(allowed.stdout.toString(), /^allowed {2}first\.example\.com:443$/m);
  await terminal.see(/it is over: allowed/);
  // Typed for the question before: it answers none that comes.
  terminal.type('y\ny\n');
  await connect('second.example.com');
  await terminal.see(/waits for second\.example\.com:443[\s\S]*later: /);
  assert.equal((await approvals('pending')).length, 1);
  await answer(terminal, 'y', /allowed/);
  terminal.type('\u0003');
  await terminal.end();
});

test('squash approvals lists, allows and denies, and knows what holds for all', async () => {
  await connect('all.example.com');
  const { id } = await asked('all.example.com');
  const list = await squash(daemon, ['approvals', 'ls', '--state', 'pending']);
  assert.match(list.stdout.toString(), new RegExp(`${id}.*box.*pending.*all\\.example\\.com:443`));
  assert.equal((await squash(daemon, ['approvals', 'allow', id, '--scope', 'always'])).code, 0);
  const rules = await squash(daemon, ['approvals', 'rules']);
  const [, number = ''] = /^ *(\d+) .*operator.*all\.example\.com:443$/m.exec(rules.stdout.toString()) ?? [];
  const test = await squash(daemon, ['policy', 'test', 'box', 'all.example.com:443']);
  assert.match(test.stdout.toString(), /connection: +allowed {2}always\[0\] all\.example\.com:443/);
  const other = await squash(daemon, ['policy', 'test', 'box', 'other.example.com:443']);
  assert.match(other.stdout.toString(), /connection: +asked +ask\[0\] \*/);
  await squash(daemon, ['approvals', 'rules', '--remove', number]);
  assert.equal((await squash(daemon, ['approvals', 'rules', '--json'])).stdout.toString().trim(), '[]');
  assert.match((await squash(daemon, ['approvals', 'deny', id])).stderr, /approval_decided/);
  assert.match((await squash(daemon, ['policy', 'show', 'box'])).stdout.toString(), /^ask\[0\] \*$/m);
});

test('an owner sees and answers what his own sandboxes ask, and nothing for all', async () => {
  const key = async (owner: string, scope: string): Promise<string> => {
    const made = (await daemon.call('POST', '/v1/keys', { name: `${owner}-${scope}`, owner, scope })) as {
      readonly token: string;
    };
    return made.token;
  };
  const [foreign, own, reader] = [
    await key('another', 'manage'),
    await key('anon', 'manage'),
    await key('anon', 'read'),
  ];
  const as = async (token: string, path: string, body?: unknown) => {
    const response = await fetch(`${daemon.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
  await connect('mine.example.com');
  const { id } = await asked('mine.example.com');
  const allow = { decision: 'allow' };
  assert.equal((await as(foreign, '/v1/approvals')).text, '{"items":[],"next":null}');
  assert.match((await as(foreign, `/v1/approvals/${id}`)).text, /approval_not_found/);
  assert.match((await as(foreign, '/v1/approvals/nope')).text, /\\"nope\\" is no id of an approval/);
  assert.match((await as(foreign, `/v1/approvals/${id}`, allow)).text, /approval_not_found/);
  assert.equal((await as(reader, `/v1/approvals/${id}`)).status, 200);
  assert.match((await as(reader, `/v1/approvals/${id}`, allow)).text, /forbidden/);
  assert.match((await as(own, `/v1/approvals/${id}`, { ...allow, scope: 'always' })).text, /forbidden/);
  assert.match((await as(own, `/v1/approvals/${id}`, { decision: 'deny', scope: 'sandbox' })).text, /once/);
  assert.equal((await approvals('pending')).length, 1);
  assert.match((await as(own, `/v1/approvals/${id}`, allow)).text, /"decided_by":"key_/);
});

test('a webhook’s owner hears of a question and of what became of it', async () => {
  using reader = await EventReader.open(
    daemon,
    '/v1/events?follow=true&type=approval.requested,approval.decided',
  );
  const heard = async (): Promise<Event> => JSON.parse((await reader.next())?.data ?? 'null') as Event;
  await connect('told.example.com');
  const { id, expires_at: expiresAt } = await asked('told.example.com');
  for (let event = await heard(); ; event = await heard()) {
    if (event.data['approval'] !== id) continue;
    const data = { approval: id, host: 'told.example.com', port: 443, expires_at: expiresAt };
    assert.deepEqual([event.type, event.data], ['approval.requested', data]);
    break;
  }
  await squash(daemon, ['approvals', 'deny', id]);
  const { type, data } = await heard();
  assert.deepEqual([type, data], ['approval.decided', { approval: id, state: 'denied', scope: 'once' }]);
});

test('approvals come in pages, and end with their sandbox', async () => {
  for (const name of ['a', 'b', 'c']) {
    await connect(`${name}.page.example`);
    await asked(`${name}.page.example`);
  }
  const hosts: (string | null)[] = [];
  let next: string | null = '';
  while (next !== null) {
    const cursor: string = next === '' ? '' : `&cursor=${next}`;
    const page = (await daemon.call('GET', `/v1/approvals?sandbox=box&limit=2${cursor}`)) as {
      readonly items: readonly ApprovalInfo[];
      readonly next: string | null;
    };
    hosts.push(...page.items.map(({ host }) => host));
    ({ next } = page);
  }
  assert.deepEqual(hosts, ['c.page.example', 'b.page.example', 'a.page.example']);
  assert.equal((await daemon.request('GET', '/v1/approvals?cursor=nonsense')).status, 400);
  await squash(daemon, ['rm', 'box', '--yes']);
  assert.deepEqual(await approvals('pending'), []);
});

test('a call of a tool waits for an answer on the terminal', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'squash-ask-'));
  try {
    const server = join(repository, 'codemode/src/mcp/notes-server.ts');
    const servers = { mcpServers: { notes: { command: process.execPath, args: [server] } } };
    await writeFile(join(directory, 'mcp.json'), JSON.stringify(servers));
    const program = `try { await codemode.notes.add_note({ text: 'a\\u001b[31mb' }); return 'added'; } catch (error) { return error.message; }`;
    await writeFile(join(directory, 'program.js'), program);
    const words = ['codemode', 'run', '--executor', 'quickjs', '--ask', 'codemode.notes.*'];
    const call = [...words, '--tools', join(directory, 'mcp.json'), join(directory, 'program.js')];
    const idle = await squash(
      undefined,
      call.map((word) => (word === 'codemode.notes.*' ? 'codemode.nothing.*' : word)),
    );
    assert.match(idle.stderr, /--ask "codemode\.nothing\.\*" matches none of the tools/);
    for (const [key, end] of [
      ['y', /added/],
      ['n', /was denied: a person said no/],
    ] as const) {
      await using terminal = open(call, cliEnvironment(undefined));
      await terminal.see(
        /The program calls codemode\.notes\.add_?[nN]ote[\s\S]*u001b\[31mb[\s\S]*\[n\] deny: /,
      );
      await answer(terminal, key, end);
      await terminal.end();
    }
    // What it logs meanwhile covers no question: it waits for the answer.
    const covers = `console.log('\\u001b[31mbefore'); const called = codemode.notes.add_note({ text: 'own' });
      await new Promise((resolve) => setTimeout(resolve, 100));
      console.log('\\u001b[2JThe program calls another\\n[y] allow  [n] deny: '); return await called;`;
    await writeFile(join(directory, 'program.js'), covers);
    await using terminal = open(call, cliEnvironment(undefined));
    const [before] = await terminal.see(/[^]*\[n\] deny: /);
    assert.match(before, /^log: \\u\{1b\}\[31mbefore\r\nThe program calls codemode\.notes/);
    await sleep(1_000);
    assert.equal(terminal.screen, before);
    terminal.type('y\n');
    await terminal.see(/log: \\u\{1b\}\[2JThe program calls another\r\nlog: \[y\] allow[^]*"id": 1/);
    await terminal.end();
  } finally {
    await rm(directory, { recursive: true });
  }
});
