/** Groups: from a message to the agent's first word, beside a fresh container; and what a hundred of them take that do nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { timeToFirstByte } from '../measure/process.ts';
import { cpuMs, rssBytes } from '../measure/proc-memory.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

const idleGroups = 100;
const waitMsMax = 20_000;
/** Between two looks at the chat: as a front end that hurries. */
const lookMs = 2;
/** After work the daemon gives back what it took, see memory.ts. */
const settleMs = 8_000;
const windowMs = 20_000;

export async function groupsScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'groups',
    title: 'Groups',
    about: `"first word" is from a message of a chat to the first look at the chat that finds what the agent printed, which is asked for each ${lookMs} ms: the message is stored, a fresh sandbox made, the group's folder attached, the agent started, its line told. Warm: in the sandbox that its chat's last run has left, by the row "warm_s" of its tier. Peers: a fresh container of the same root that prints a line, from spawn to first byte, as the original starts one for each conversation. "idle" is what ${idleGroups} groups add, each with a chat and a schedule for midnight, and the daemon's processor time beside them.`,
    metrics: [
      { id: 'first', title: 'message → first word', unit: 'ms' },
      { id: 'rss', title: `daemon, more resident for ${idleGroups} groups`, unit: 'MB' },
      { id: 'cpu', title: `daemon with ${idleGroups} idle groups, share of one processor`, unit: '%' },
    ],
    warmups: 1,
    rounds: rounds(context, 60),
    secondsMax: 300,
    subjects: [
      ...(await squashSubjects(context, async (squash) => {
        await makeGroup(squash, { name: 'bench', tier: 'untrusted' }, stack);
        await makeWarmTier(squash, 'warm', stack);
        await makeGroup(squash, { name: 'bench-warm', tier: 'warm' }, stack);
        return [
          messageSubject(squash, { name: 'Squash', chat: 'bench', isWarm: false }),
          messageSubject(squash, { name: 'Squash, warm', chat: 'bench-warm', isWarm: true }),
          idleSubject(squash, context.quick),
        ];
      })),
      ...context.peers.present.map((peer): Subject => {
        const argv = peer.once(['/bin/echo', 'ok']);
        return {
          name: peer.name,
          every: peer.every,
          cycle: async () => ({ first: await timeToFirstByte(argv, peer.env) }),
        };
      }),
      ...context.peers.absent,
    ],
  };
}

/** As `untrusted`, and sandboxes are kept. */
async function makeWarmTier(
  { client }: SquashUnderTest,
  name: string,
  stack: AsyncDisposableStack,
): Promise<void> {
  const { items } = JSON.parse(await sent(client.send('GET', '/v1/tiers'), 200)) as {
    readonly items: readonly { readonly name: string; readonly built_in: boolean }[];
  };
  const known = items.find((tier) => tier.name === 'untrusted');
  if (known === undefined) throw new Error('there is no tier "untrusted"');
  const { name: _name, built_in: _builtIn, ...rows } = known;
  await sent(client.send('PUT', `/v1/tiers/${name}`, { ...rows, warm_s: 600 }), 200);
  stack.defer(async () => void (await client.send('DELETE', `/v1/tiers/${name}`)));
}

/** A group, and a chat of its name. */
async function makeGroup(
  { client, layers }: SquashUnderTest,
  { name, tier }: { readonly name: string; readonly tier: string },
  stack: AsyncDisposableStack,
): Promise<void> {
  const command = ['/bin/sh', '-c', 'echo ok'];
  await sent(client.send('POST', '/v1/groups', { name, tier, command, layers }), 201);
  stack.defer(async () => void (await client.send('DELETE', `/v1/groups/${name}`)));
  await sent(client.send('POST', '/v1/chats', { name, group: name }), 201);
}

function messageSubject(
  { client }: SquashUnderTest,
  { name, chat, isWarm }: { readonly name: string; readonly chat: string; readonly isWarm: boolean },
): Subject {
  let after = 0;
  return {
    name,
    cycle: async (): Promise<Sample> => {
      const beganMs = performance.now();
      await sent(client.send('POST', `/v1/chats/${chat}/messages`, { text: 'hello', sender: 'bench' }), 202);
      const heard = async (): Promise<boolean> => {
        const text = await sent(client.send('GET', `/v1/chats/${chat}/messages?after=${after}`), 200);
        const { items } = JSON.parse(text) as { items: readonly { message: number }[] };
        after = items.at(-1)?.message ?? after;
        return items.length > 0;
      };
      await until(heard, 'the agent says nothing');
      const first = performance.now() - beganMs;
      // The next one begins at rest.
      const isOver = async (): Promise<boolean> => {
        const text = await sent(client.send('GET', `/v1/groups/${chat}/runs`), 200);
        const { items } = JSON.parse(text) as {
          items: readonly { finished_at: string | null; warm_until: string | null }[];
        };
        const isKept = items.some(({ warm_until }) => warm_until !== null);
        return isKept === isWarm && items.every(({ finished_at }) => finished_at !== null);
      };
      await until(isOver, 'the run does not end');
      return { first };
    },
  };
}

function idleSubject(squash: SquashUnderTest, quick: boolean): Subject {
  return {
    name: `Squash, ${idleGroups} idle groups`,
    // Waiting for rest is most of it: once is enough.
    every: Number.MAX_SAFE_INTEGER,
    cycle: async () => {
      await using stack = new AsyncDisposableStack();
      await sleep(settleMs);
      const before = await rssBytes(squash.daemonPid);
      for (let count = 0; count < idleGroups; count += 1) {
        const name = `idle-${count}`;
        await makeGroup(squash, { name, tier: 'untrusted' }, stack);
        const schedule = {
          chat: name,
          name: 'night',
          text: 'good night',
          cron: '0 0 * * *',
          time_zone: 'UTC',
        };
        await sent(squash.client.send('POST', `/v1/schedules`, schedule), 201);
      }
      await sleep(settleMs);
      const rss = ((await rssBytes(squash.daemonPid)) - before) / 1e6;
      const busyBefore = await cpuMs(squash.daemonPid);
      const ms = quick ? 2_000 : windowMs;
      await sleep(ms);
      return { rss, cpu: (((await cpuMs(squash.daemonPid)) - busyBefore) / ms) * 100 };
    },
  };
}

async function until(isSo: () => Promise<boolean>, otherwise: string): Promise<void> {
  const deadline = performance.now() + waitMsMax;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(otherwise);
    await sleep(lookMs);
  }
}

async function sent(
  answer: Promise<{ readonly status: number; readonly body: string }>,
  wanted: number,
): Promise<string> {
  const { status, body } = await answer;
  if (status !== wanted) throw new Error(`status ${status} instead of ${wanted}: ${body}`);
  return body;
}
