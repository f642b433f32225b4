/**
 * What a person is asked: programs wait, and go on as he says, or are refused when he does not. Nothing leaves a sandbox before,
 * whatever dies meanwhile.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { ApprovalInfo, StandingApproval } from '@squash/contract/approvals';
import type { EgressDecision } from '@squash/contract/egress-protocol';
import { processesOf } from '../support/leaks.ts';
import { patience, waitFor } from '../support/wait.ts';
import { login, Proxies, proxyPorts } from './proxies.ts';
import { canary } from './world/events.ts';
import { places } from './world/places.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot } from './world/world.ts';

const upstreams = { corp: `http://${login.name}:${login.password}@127.0.0.1:${proxyPorts.http}` };
const world = useWorld({ upstreams });
const skip = { skip: needsRoot };
const curl = 'curl -sS --max-time 30';

/** In the background, its output in a file. @returns what it has written when it has ended */
async function begin(id: string, command: string): Promise<() => Promise<string>> {
  const job = await world().start(id, `(${command}) > /tmp/out 2>&1; echo over >> /tmp/out`);
  return async () =>
    await waitFor(`${job} to end`, async () => {
      const { stdout } = await world().exec(id, 'cat /tmp/out');
      return stdout.endsWith('over\n') && stdout;
    });
}

async function approvals(query: string): Promise<readonly ApprovalInfo[]> {
  const page = await world().daemon.call('GET', `/v1/approvals?${query}`);
  return (page as { readonly items: readonly ApprovalInfo[] }).items;
}

async function asked(id: string): Promise<ApprovalInfo> {
  return await waitFor(`"${id}" to ask`, async () => (await approvals(`sandbox=${id}&state=pending`))[0]);
}

async function decide(id: string, decision: 'allow' | 'deny', scope = 'once'): Promise<ApprovalInfo> {
  const answer = await world().daemon.call('POST', `/v1/approvals/${id}`, { decision, scope });
  return answer as ApprovalInfo;
}

async function settled(id: string): Promise<string> {
  return await waitFor(`${id} to be over`, async () => {
    const { state } = (await world().daemon.call('GET', `/v1/approvals/${id}`)) as ApprovalInfo;
    return state !== 'pending' && state;
  });
}

async function refusedRules(id: string): Promise<readonly string[]> {
  const answer = await world().daemon.call(
    'GET',
    `/v1/sandboxes/${id}/egress?verdict=denied&kind=connection`,
  );
  return (answer as { decisions: readonly EgressDecision[] }).decisions.map(({ rule }) => rule);
}

function egressPid(): number {
  const egress = processesOf(world().daemon.dataDir).find(({ pid }) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('egress/src/main.ts'),
  );
  return egress?.pid ?? assert.fail('no egress process');
}

test('a connection waits until a person allows it, once, and no query leaves before', skip, async () => {
  await world().create('once', { policy: { allow: ['none'], ask: ['*.allowed.test'] } });
  const mark = await world().mark();
  const ended = await begin('once', `${curl} https://www.allowed.test/hello`);
  const approval = await asked('once');
  assert.deepEqual(await world().since(mark), []);
  assert.equal(approval.host, 'www.allowed.test');
  assert.equal(approval.port, 443);
  assert.equal(approval.rule, 'ask[0] *.allowed.test');
  assert.equal(approval.grant, 'www.allowed.test:443');
  const done = await decide(approval.id, 'allow');
  assert.equal(done.state, 'allowed');
  assert.equal(done.decided_by, 'operator');
  assert.ok((await ended()).includes(canary));
  // Who comes next is asked about again, by another question.
  const again = await begin('once', `${curl} https://www.allowed.test/hello`);
  const next = await asked('once');
  assert.notEqual(next.id, approval.id);
  await decide(next.id, 'deny');
  assert.ok(!(await again()).includes(canary));
});

// Before the daemon of this world is replaced: the next one notices seconds later that a process which it has not started is gone.
test('with the egress process its questions end, and what waits is asked for anew', skip, async () => {
  await world().create('anew', { policy: { ask: ['www.allowed.test'] } });
  const mark = await world().mark();
  const ended = await begin('anew', `${curl} https://www.allowed.test/hello`);
  const { id } = await asked('anew');
  process.kill(egressPid(), 'SIGKILL');
  assert.equal(await settled(id), 'withdrawn');
  const next = await asked('anew');
  assert.notEqual(next.id, id);
  assert.deepEqual(await world().since(mark), []);
  await decide(next.id, 'allow');
  assert.ok((await ended()).includes(canary));
});

test(
  'a decision may be said twice, not taken back, and is heard while somebody waits only',
  skip,
  async () => {
    await world().create('twice', { policy: { ask: ['www.allowed.test'], ask_timeout_ms: 1_500 } });
    const ended = await begin('twice', `${curl} http://www.allowed.test/hello`);
    const { id } = await asked('twice');
    await decide(id, 'allow');
    assert.equal((await decide(id, 'allow')).state, 'allowed');
    const other = await world().daemon.request('POST', `/v1/approvals/${id}`, { decision: 'deny' });
    assert.match(other.text, /approval_decided/);
    assert.ok((await ended()).includes(canary));
    const late = await begin('twice', `${curl} http://www.allowed.test/hello`);
    const unanswered = await asked('twice');
    assert.equal(await settled(unanswered.id), 'timed_out');
    const page = await late();
    assert.match(page, /Rule: ask_timed_out/);
    assert.match(page, /squash approve/);
    const refused = await world().daemon.request('POST', `/v1/approvals/${unanswered.id}`, {
      decision: 'allow',
      scope: 'always',
    });
    assert.equal(refused.status, 409);
    assert.match(refused.text, /approval_expired/);
    assert.deepEqual(await world().daemon.call('GET', '/v1/standing-approvals'), []);
  },
);

test('a time-out and a denial are rules of the decision log', skip, async () => {
  await world().create('log', { policy: { ask: ['www.allowed.test'], ask_timeout_ms: 1_000 } });
  const connect = 'python3 /opt/tools/attack.py tcp www.allowed.test 7777 12345';
  await (await begin('log', connect))();
  const ended = await begin('log', connect);
  await decide((await asked('log')).id, 'deny');
  await ended();
  // It tries again at once, and nobody is bothered.
  await world().exec('log', connect);
  assert.deepEqual(new Set(await refusedRules('log')), new Set(['ask_timed_out', 'ask_denied']));
  assert.equal((await approvals('sandbox=log')).length, 2);
});

test('connections with one question share it, and another port is another question', skip, async () => {
  await world().create('shared', { policy: { ask: ['www.allowed.test'] } });
  const five = Array.from({ length: 5 }, () => `${curl} https://www.allowed.test/hello &`).join(' ');
  const ended = await begin('shared', `${five} ${curl} http://www.allowed.test/hello & wait`);
  const both = await waitFor('two questions', async () => {
    const pending = await approvals('sandbox=shared&state=pending');
    return pending.length === 2 && pending;
  });
  assert.deepEqual(new Set(both.map(({ port }) => port)), new Set([80, 443]));
  // One that comes behind the answer is another question.
  await waitFor('all to be connected', async () => {
    const { stdout } = await world().exec('shared', "grep -cE ':01BB 01 ' /proc/net/tcp; true");
    return Number(stdout) === 5;
  });
  for (const { id, port } of both) await decide(id, port === 443 ? 'allow' : 'deny');
  const output = await ended();
  assert.equal(output.split(canary).length - 1, 5);
  assert.match(output, /Rule: ask_denied/);
});

test('what is allowed for the sandbox is a rule of its policy, also for the next daemon', skip, async () => {
  await world().create('lasting', { policy: { allow: ['none'], ask: ['*'] } });
  const ended = await begin('lasting', `${curl} https://www.allowed.test/hello`);
  await decide((await asked('lasting')).id, 'allow', 'sandbox');
  assert.ok((await ended()).includes(canary));
  await world().daemon.stop();
  await world().daemon.start();
  const { policy } = (await world().daemon.call('GET', '/v1/sandboxes/lasting/policy')) as {
    policy: { allow: unknown; ask: unknown };
  };
  assert.deepEqual(policy.allow, ['www.allowed.test:443']);
  assert.deepEqual(policy.ask, ['*']);
  assert.ok((await world().output('lasting', `${curl} https://www.allowed.test/hello`)).includes(canary));
});

test(
  'what is always allowed answers every policy that asks and widens none, until it is removed',
  skip,
  async () => {
    await world().create('asks', { policy: { allow: ['none'], ask: ['*.allowed.test'] } });
    await world().create('asks-too', { policy: { allow: ['none'], ask: ['*'] } });
    await world().create('asks-not', { allow_net: ['other.test'] });
    const reach = async (id: string): Promise<boolean> =>
      (await world().exec(id, 'curl -sS --max-time 3 https://www.allowed.test/hello')).stdout.includes(
        canary,
      );
    const ended = await begin('asks', `${curl} https://www.allowed.test/hello`);
    await decide((await asked('asks')).id, 'allow', 'always');
    await ended();
    assert.equal(await reach('asks'), true);
    assert.equal(await reach('asks-too'), true);
    assert.equal(await reach('asks-not'), false);
    const [standing] = (await world().daemon.call('GET', '/v1/standing-approvals')) as StandingApproval[];
    assert.equal(standing?.rule, 'www.allowed.test:443');
    await world().daemon.call('DELETE', `/v1/standing-approvals/${standing?.id}`);
    assert.equal(await reach('asks-too'), false);
    assert.equal(await settled((await approvals('sandbox=asks-too'))[0]?.id ?? ''), 'withdrawn');
  },
);

test('a person allows a name, and never the address that it leads to', skip, async () => {
  await world().create('guarded', { policy: { ask: ['*'] } });
  const ended = await begin('guarded', `${curl} http://secret-private.allowed.test/hello`);
  await decide((await asked('guarded')).id, 'allow', 'sandbox');
  const page = await ended();
  assert.match(page, /private_address/);
  assert.ok(!page.includes(canary));
  const direct = await world().exec('guarded', `${curl} http://${places.private10}/hello`);
  assert.ok(!direct.stdout.includes(canary));
  assert.deepEqual(await approvals('sandbox=guarded&state=pending'), []);
});

test('a request is asked for by its method and path, before any of it leaves', skip, async () => {
  const rule = { to: 'www.allowed.test', methods: ['POST'], paths: ['/v1'] };
  await world().create('reads', { policy: { ask: [rule] } });
  const url = 'https://www.allowed.test';
  assert.ok((await world().output('reads', `${curl} ${url}/v1/list`)).includes(canary));
  const mark = await world().mark();
  const ended = await begin('reads', `${curl} -d body '${url}/v1/%e2%80%ae%5b31m?token=hidden'`);
  const approval = await asked('reads');
  assert.deepEqual(await world().requestsSince(mark), []);
  assert.equal(approval.method, 'POST');
  assert.equal(approval.path, '/v1/%e2%80%ae%5b31m');
  assert.deepEqual(approval.grant, { to: ['www.allowed.test:443'], methods: ['POST'], paths: ['/v1'] });
  await decide(approval.id, 'allow', 'sandbox');
  assert.ok((await ended()).includes(canary));
  assert.equal((await world().requestsSince(mark))[0]?.body, 'body');
  assert.ok((await world().output('reads', `${curl} -d more ${url}/v1/other`)).includes(canary));
});

test('a program that gives up frees its place, over each way it can wait', skip, async () => {
  const read = { to: 'api.allowed.test', methods: ['GET'] };
  await world().create('leaves', { policy: { ask: ['www.allowed.test', read] } });
  for (const url of ['https://www.allowed.test/', 'https://api.allowed.test/', 'http://api.allowed.test/']) {
    const job = await world().start(
      'leaves',
      `curl -sS --max-time 60 ${url} & sleep ${2 * patience}; kill -9 $!; sleep 60`,
    );
    const { id } = await asked('leaves');
    assert.equal(await settled(id), 'withdrawn', url);
    await world().daemon.call('DELETE', job);
  }
});

test('a policy that is changed answers what waits for a person', skip, async () => {
  await world().create('changed', { policy: { ask: ['www.allowed.test'] } });
  const ended = await begin('changed', `${curl} https://www.allowed.test/hello`);
  const { id } = await asked('changed');
  await world().daemon.call('PUT', '/v1/sandboxes/changed/policy', { allow: ['www.allowed.test'] });
  assert.ok((await ended()).includes(canary));
  assert.equal(await settled(id), 'withdrawn');
});

test('a question outlives the daemon, and the next one hears the answer', skip, async () => {
  await world().create('survives', { policy: { ask: ['www.allowed.test'] } });
  const ended = await begin('survives', `${curl} https://www.allowed.test/hello`);
  const { id } = await asked('survives');
  await world().daemon.kill();
  await world().daemon.start();
  assert.equal((await asked('survives')).id, id);
  await decide(id, 'allow');
  assert.ok((await ended()).includes(canary));
});

async function refusedQuestions(): Promise<number> {
  const metrics = (await world().daemon.request('GET', '/metrics')).text;
  return Number(/^squash_egress_questions_refused_total (\d+)$/m.exec(metrics)?.[1] ?? 0);
}

test('a sandbox that floods is refused beyond some questions, and another one is heard', skip, async () => {
  const before = await refusedQuestions();
  await world().create('floods', { policy: { ask: ['*'] } });
  await world().create('patient', { policy: { ask: ['*'] } });
  const many = Array.from({ length: 40 }, (_, at) => `${curl} http://f${at}.evil.test/ &`).join(' ');
  const ended = await begin('floods', `${many} wait`);
  // Before an answer frees a place, or a late request takes it.
  await waitFor('the bound, and all others refused', async () => (await refusedQuestions()) === before + 24);
  assert.equal((await approvals('sandbox=floods&state=pending')).length, 16);
  const other = await begin('patient', `${curl} http://www.allowed.test/hello`);
  await decide((await asked('patient')).id, 'allow');
  assert.ok((await other()).includes(canary));
  for (const { id } of await approvals('sandbox=floods&state=pending')) await decide(id, 'deny');
  const output = await ended();
  assert.equal(output.split('Rule: ask_limit').length - 1, 24);
  assert.equal(output.split('Rule: ask_denied').length - 1, 16);
  assert.ok((await refusedQuestions()) >= before + 40);
  assert.match((await world().daemon.request('GET', '/metrics')).text, /^squash_egress_questions 0$/m);
});

test('through a proxy of the operator nothing goes before it is allowed', skip, async () => {
  await using proxies = await Proxies.start(world());
  const mark = proxies.mark();
  await world().create('proxied', { upstream: 'corp', policy: { allow: ['none'], ask: ['*.allowed.test'] } });
  const ended = await begin('proxied', `${curl} https://www.allowed.test/hello`);
  const { id } = await asked('proxied');
  assert.equal(proxies.since(mark), '');
  await decide(id, 'allow');
  assert.ok((await ended()).includes(canary));
  assert.match(proxies.since(mark), /www\.allowed\.test:443/);
});
