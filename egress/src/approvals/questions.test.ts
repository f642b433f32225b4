/** Questions by themselves: who shares one, what is too much, and that a place is always given back. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { EgressAsked } from '@squash/contract/egress-protocol';
import type { Question, Verdict } from '@squash/policy/policy';
import { egressLimits as limits } from '../limits.ts';
import { isAsking, Questions } from './questions.ts';

// Questions that a test leaves open would keep the process for their minute.
mock.timers.enable({ apis: ['setTimeout'] });

class Scene {
  nowMs = 1_000;
  readonly asked: EgressAsked[] = [];
  readonly ended: string[] = [];
  readonly questions = new Questions({ wallMs: () => this.nowMs, monoMs: () => this.nowMs });

  constructor() {
    this.questions.follow({
      onAsked: (asked) => this.asked.push(asked),
      onEnded: ({ end }) => this.ended.push(end),
    });
  }

  /** What was said, once it is: nothing is undefined, a refusal its rule. */
  ask(host: string, more: Partial<Question> & { readonly sandbox?: string } = {}) {
    const { sandbox = 'dev', ...changes } = more;
    const place = { host, address: undefined, port: 443, method: undefined, path: undefined };
    const question: Question = { ...place, upgrades: undefined, waitMs: 60_000, ...changes };
    const heard: (Verdict | undefined)[] = [];
    const asking = this.questions.ask({ sandbox, question, rule: 'ask[0] *' }, (refusal) =>
      heard.push(refusal),
    );
    return { heard, asking, rule: isAsking(asking) ? undefined : asking.rule };
  }
}

test('who has the same question shares it, and each is told once', () => {
  const scene = new Scene();
  const [one, two] = [scene.ask('a.test'), scene.ask('a.test')];
  const others = [
    scene.ask('a.test', { port: 80 }),
    scene.ask('a.test', { method: 'POST' }),
    scene.ask('a.test', { sandbox: 'other' }),
  ];
  assert.equal(scene.asked.length, 4);
  assert.equal(scene.questions.answer(scene.asked[0]?.id ?? '', true), true);
  assert.equal(scene.questions.answer(scene.asked[0]?.id ?? '', true), false);
  assert.deepEqual([one.heard, two.heard], [[undefined], [undefined]]);
  assert.deepEqual(
    others.map(({ heard }) => heard),
    [[], [], []],
  );
  for (const { asking } of [one, two, ...others]) if (isAsking(asking)) asking.leave();
  assert.deepEqual(scene.questions.waiting, { questions: 0, askers: 0 });
  assert.deepEqual(scene.ended, ['answered', 'withdrawn', 'withdrawn', 'withdrawn']);
});

test('a question ends with the last who waits for it', () => {
  const scene = new Scene();
  const all = [scene.ask('a.test'), scene.ask('a.test')];
  for (const [at, { asking }] of all.entries()) {
    assert.equal(scene.ended.length, 0);
    if (isAsking(asking)) asking.leave();
    if (isAsking(asking)) asking.leave();
    assert.equal(scene.questions.waiting.askers, 1 - at);
  }
  assert.deepEqual(scene.ended, ['withdrawn']);
});

test('nobody answers: all are refused, and the word is another than for a denial', () => {
  const scene = new Scene();
  const { heard } = scene.ask('a.test', { waitMs: 5_000 });
  mock.timers.tick(4_999);
  assert.deepEqual(heard, []);
  mock.timers.tick(1);
  assert.deepEqual(heard, [{ isAllowed: false, rule: 'ask_timed_out' }]);
  assert.deepEqual(scene.ended, ['timed_out']);
  assert.equal(scene.questions.answer(scene.asked[0]?.id ?? '', true), false);
});

test('what was denied is refused for a while without a question', () => {
  const scene = new Scene();
  const { heard } = scene.ask('a.test');
  scene.questions.answer(scene.asked[0]?.id ?? '', false);
  assert.deepEqual(heard, [{ isAllowed: false, rule: 'ask_denied' }]);
  assert.equal(scene.ask('a.test').rule, 'ask_denied');
  assert.equal(scene.ask('a.test', { port: 80 }).rule, undefined);
  scene.nowMs += limits.deniedMs + 1;
  assert.equal(scene.ask('a.test').rule, undefined);
});

test('a sandbox has so many questions at once, so many new ones in a time, and so many that wait', () => {
  const scene = new Scene();
  const many = Array.from({ length: limits.sandboxQuestionsMax }, (_, at) => scene.ask(`${at}.test`));
  assert.ok(many.every(({ rule }) => rule === undefined));
  assert.equal(scene.ask('more.test').rule, 'ask_limit');
  assert.equal(scene.ask('more.test', { sandbox: 'other' }).rule, undefined);
  for (const { asking } of many) if (isAsking(asking)) asking.leave();
  const left = limits.sandboxQuestionsBurst - limits.sandboxQuestionsMax;
  const next = Array.from({ length: left + 1 }, (_, at) => scene.ask(`next${at}.test`).rule);
  assert.deepEqual(next, [...Array.from({ length: left }, () => undefined), 'ask_limit']);
  scene.nowMs += 1_000 / limits.sandboxQuestionsPerS;
  assert.equal(scene.ask('slow.test').rule, undefined);
  const crowd = Array.from({ length: limits.sandboxAskersMax }, () => scene.ask('slow.test').rule);
  assert.equal(crowd.filter((rule) => rule === 'ask_limit').length, left + 1);
  assert.equal(scene.questions.stats.refused, 2 + left + 1);
});

test('a follower is told what is open before what comes', () => {
  const scene = new Scene();
  scene.ask('a.test');
  const told: string[] = [];
  using following = scene.questions.follow({
    onAsked: ({ host }) => told.push(`asked ${host}`),
    onEnded: ({ end }) => told.push(end),
  });
  assert.deepEqual(
    following.open.map(({ host }) => host),
    ['a.test'],
  );
  scene.ask('b.test');
  assert.deepEqual(told, ['asked b.test']);
});
