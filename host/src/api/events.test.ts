/** Who sees which events, and how a follower is served: the real table and router, and callers made by hand. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { systemClock } from '@squash/base/clock';
import { limits } from '@squash/contract/limits';
import { keptLog } from '../../../tests/support/kept-log.ts';
import { sandboxRow, type TestStore, testStore } from '../../../tests/support/store.ts';
import { thinEgress, thinEngine, thinGroups, thinWebhooks } from '../../../tests/support/thin-engine.ts';
import { LocalEvents } from '../engine/events.ts';
import { type Caller, operator } from '../http/caller.ts';
import { HttpCounters } from '../http/counters.ts';
import { buildRouter } from '../http/router.ts';
import { Tickets } from '../http/tickets.ts';
import { handlers } from './handlers.ts';

const alice: Caller = { key: 'k1', owner: 'alice', scope: 'read', held: null };

const asked = { requestId: 'r', peer: { address: 'unix', uid: null } };

/** Nobody looks at what is written. */
const audit = {
  write: () => undefined,
  writeBounded: () => undefined,
  read: () => assert.fail('not asked'),
  problems: () => [],
  metrics: () => [],
};

interface Scene {
  readonly events: LocalEvents;
  readonly file: TestStore;
  readonly ask: (
    query: string,
    caller?: Caller,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Response>;
  readonly tell: (owner: string) => void;
}

function scene(file: TestStore): Scene {
  const { log } = keptLog('warn');
  const { store } = file;
  const events = new LocalEvents(store, systemClock, log);
  const counters = new HttpCounters();
  const router = buildRouter({
    handlers: handlers({
      engine: thinEngine({
        events: { page: (page) => events.page(page), follow: (...all) => events.follow(...all) },
      }),
      counters,
      temporaryDir: tmpdir(),
      info: () => assert.fail('not asked'),
      host: () => assert.fail('not asked'),
      egress: thinEgress,
      webhooks: thinWebhooks,
      groups: thinGroups,
      audit,
      links: { urlOf: () => null, linkOf: () => assert.fail('not asked') },
      tickets: new Tickets(
        () => systemClock.monoMs(),
        () => true,
      ),
    }),
    isStrictContentType: false,
    sandboxesMax: 1,
    counters,
    log,
    stopping: new AbortController().signal,
    monoMs: () => systemClock.monoMs(),
    audit,
    checkOwner: () => undefined,
  });
  return {
    events,
    file,
    ask: async (query, caller = operator, headers = {}) => {
      const incoming = { url: `/v1/events${query}`, method: 'GET', headers } as unknown as IncomingMessage;
      const outgoing = new EventEmitter() as unknown as ServerResponse;
      const { status, body, headers: own } = await router({ incoming, outgoing, caller, asked });
      return new Response(body, { status, headers: own });
    },
    tell: (owner) =>
      store.transaction(() => events.tell({ ...sandboxRow('dev'), owner }, { type: 'sandbox.created' })),
  };
}

async function itemsOf(answer: Response): Promise<readonly { id: number; owner: string }[]> {
  assert.equal(answer.status, 200);
  return ((await answer.json()) as { items: { id: number; owner: string }[] }).items;
}

test('an owner sees his own events only, also where the sandbox has another owner by now', async () => {
  using file = testStore();
  const { ask, tell } = scene(file);
  for (const owner of ['alice', 'bob', 'alice']) tell(owner);
  const mine = (await itemsOf(await ask('', alice))).map(({ id }) => id);
  assert.deepEqual(mine, [1, 3]);
  assert.deepEqual((await itemsOf(await ask('?sandbox=dev', alice))).length, 2);
  assert.deepEqual((await itemsOf(await ask('?owner=alice', alice))).length, 2);
  assert.equal((await ask('?owner=bob', alice)).status, 403);
  assert.equal((await ask('?owner=bob&follow=true', alice)).status, 403);
  assert.deepEqual(
    (await itemsOf(await ask('?owner=bob'))).map(({ id }) => id),
    [2],
  );
  assert.equal((await itemsOf(await ask(''))).length, 3);
});

test('a follower is woken by his events alone, and resumes behind the last one', async () => {
  using file = testStore();
  const { ask, tell } = scene(file);
  tell('alice');
  const answer = await ask('?follow=true', alice);
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.equal((await reader?.read())?.value, 'id: 1\n\n');
  const next = reader?.read();
  tell('bob');
  tell('alice');
  assert.match(
    (await next)?.value ?? '',
    /^id: 3\nevent: sandbox\.created\ndata: \{.*"owner":"alice".*\}\n\n$/,
  );
  await reader?.cancel();
  tell('alice');
  const again = await ask('?follow=true', alice, { 'last-event-id': '3' });
  const more = again.body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.equal((await more?.read())?.value, 'id: 3\n\n');
  assert.match((await more?.read())?.value ?? '', /^id: 4\n/);
  await more?.cancel();
});

test('a follower who does not read holds a page, and is told what was removed meanwhile', async () => {
  using file = testStore();
  const { ask, events } = scene(file);
  const { store } = file;
  const answer = await ask('?follow=true&after=0');
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  await reader?.read();
  store.transaction(() => {
    while (!store.events.isOverfull) events.tell(sandboxRow('dev'), { type: 'sandbox.created' });
  });
  store.transaction(() => store.events.prune());
  const page = events.page.bind(events);
  let largest = 0;
  events.page = (asked) => {
    largest = Math.max(largest, asked.limit);
    return page(asked);
  };
  const gap = (await reader?.read())?.value ?? '';
  const removed = /^event: gap\ndata: \{"removed_before":(\d+)\}\n\n$/.exec(gap)?.[1];
  assert.match((await reader?.read())?.value ?? '', new RegExp(`^id: ${removed}\n`));
  for (let at = 0; at < 2 * limits.eventsFollowedPage; at += 1) await reader?.read();
  assert.equal(largest, limits.eventsFollowedPage);
  await reader?.cancel();
});

test('who resumes behind what a rebuilt database holds is told, and begins with all that it has', async () => {
  using file = testStore();
  const { ask, tell } = scene(file);
  tell('anon');
  const answer = await ask('?follow=true&after=500');
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.equal((await reader?.read())?.value, 'event: gap\ndata: {"removed_before":500}\n\n');
  assert.equal((await reader?.read())?.value, 'id: 0\n\n');
  assert.match((await reader?.read())?.value ?? '', /^id: 1\n/);
  await reader?.cancel();
});
