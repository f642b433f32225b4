/** What a look of an agent costs: it may look twenty times a second, however many groups and chats there are. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chatCreateSchema, groupCreateSchema } from '@squash/contract/groups';
import { testStore } from '../../tests/support/store.ts';
import { Registry } from './registry.ts';
import { Schedules } from './schedules.ts';
import { Views } from './views.ts';

test('a look reads the tier once, and no row whole', () => {
  using made = testStore();
  const rows = made.store.groups;
  const registry = new Registry(rows);
  const making = { nowMs: 1, by: null };
  for (const [name, tier] of [
    ['own', 'untrusted'],
    ['sees', 'trusted'],
  ])
    registry.createGroup(groupCreateSchema.parse({ name, tier, command: ['cat'] }), making);
  const schedules = new Schedules(made.store.schedules, registry);
  for (let at = 0; at < 40; at += 1) {
    const chat = `chat-${`${at}`.padStart(2, '0')}`;
    registry.createChat(chatCreateSchema.parse({ name: chat, group: at % 2 === 0 ? 'own' : 'sees' }), making);
    const body = {
      chat,
      name: 'daily',
      text: 'x',
      every_s: 86_400,
      context: 'group',
      missed: 'skip',
    } as const;
    schedules.create(body, { ...making, isAllowed: false });
  }
  const reads = { tiers: 0, whole: 0 };
  const count = <T>(what: keyof typeof reads, value: T): T => ((reads[what] += 1), value);
  const counted = Object.create(rows, {
    tiers: { value: () => count('tiers', rows.tiers()) },
    groups: { value: () => count('whole', rows.groups()) },
    chats: { value: () => count('whole', rows.chats()) },
    group: { value: (name: string) => rows.group(name) },
    groupNames: { value: (group?: string) => rows.groupNames(group) },
    chatNames: { value: (group?: string) => rows.chatNames(group) },
  }) as typeof rows;
  const witness = { decided: () => undefined };
  const views = new Views({ rows: counted, registry: new Registry(counted), schedules, witness });
  const lengths = (group: string): readonly number[] => {
    const actor = { group, run: 1, depth: 0 };
    return [views.groups(actor), views.chats(actor), views.schedules(actor, undefined)].map(
      (view) => (view as { readonly items: readonly unknown[] }).items.length,
    );
  };
  assert.deepEqual(lengths('own'), [1, 20, 20]);
  assert.deepEqual(lengths('sees'), [2, 40, 40]);
  assert.deepEqual(reads, { tiers: 6, whole: 0 });
});
