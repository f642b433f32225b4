/**
 * Limits, network policy, secrets and lifetime: each holds alone and with every other. One sandbox for each combination
 * of them, asked the same questions; what a combination does not have must not be there either.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { patience, waitFor } from '../support/wait.ts';
import { canary } from './world/events.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot } from './world/world.ts';

const secret = { placeholder: 'squash-key-placeholder', value: 'real-key-value-0123' };
/** Long enough for the questions on a loaded machine, short enough to be waited for. */
const lifetimeS = 40 * patience;
const world = useWorld({
  secrets: { KEY: { ...secret, allowed_hosts: ['secret.allowed.test'] } },
});

interface Combination {
  readonly isLimited: boolean;
  readonly network: 'everything' | 'listed' | 'nothing';
  readonly hasSecret: boolean;
  readonly isMortal: boolean;
}

/** The mortal ones first: their lifetimes pass while the others are asked. */
const combinations: readonly Combination[] = [true, false].flatMap((isMortal) =>
  [false, true].flatMap((isLimited) =>
    (['everything', 'listed', 'nothing'] as const).flatMap((network) =>
      [false, true].map((hasSecret) => ({ isLimited, network, hasSecret, isMortal })),
    ),
  ),
);

const policies = { everything: ['*'], listed: ['secret.allowed.test'], nothing: ['none'] } as const;

function nameOf({ isLimited, network, hasSecret, isMortal }: Combination): string {
  const parts = [isLimited && 'limited', network, hasSecret && 'secret', isMortal && 'mortal'];
  return parts.filter((part) => part !== false).join('-');
}

async function create(combination: Combination): Promise<void> {
  const { isLimited, network, hasSecret, isMortal } = combination;
  await world().create(nameOf(combination), {
    allow_net: policies[network],
    secrets: hasSecret ? ['KEY'] : [],
    memory_mb: isLimited ? 128 : 1024,
    max_lifetime_s: isMortal ? lifetimeS : 0,
  });
}

async function expectLimit(id: string, isLimited: boolean): Promise<void> {
  const record = await world().exec(id, `python3 -c 'x = bytearray(300 << 20); print(len(x))'`);
  assert.equal(record.exit_code === 0, !isLimited, JSON.stringify(record));
  if (isLimited) assert.equal(record.reason, 'oom_killed');
}

async function expectNetwork(id: string, network: Combination['network']): Promise<void> {
  const reached = async (host: string): Promise<boolean> =>
    (await world().exec(id, `curl -sS --max-time 10 https://${host}/hello`)).stdout.includes(canary);
  assert.equal(await reached('secret.allowed.test'), network !== 'nothing');
  assert.equal(await reached('other.evil.test'), network === 'everything');
  // Private, whatever is public.
  assert.equal(await reached('private10.allowed.test'), false);
}

async function expectSecret(id: string, { network, hasSecret }: Combination): Promise<void> {
  const mark = await world().mark();
  const { stdout } = await world().exec(
    id,
    'echo "${KEY-none}"; curl -sS --max-time 10 -H "Authorization: Bearer ${KEY-none}" https://secret.allowed.test/hello',
  );
  assert.equal(stdout.split('\n')[0], hasSecret ? secret.placeholder : 'none');
  const sent = (await world().requestsSince(mark)).map(({ headers }) => headers['authorization']);
  if (network === 'nothing') assert.deepEqual(sent, []);
  else assert.deepEqual(sent, [`Bearer ${hasSecret ? secret.value : 'none'}`]);
}

for (const combination of combinations) {
  const id = nameOf(combination);
  test(`every promise holds when a sandbox is ${id}`, { skip: needsRoot }, async () => {
    await create(combination);
    await expectNetwork(id, combination.network);
    await expectSecret(id, combination);
    await expectLimit(id, combination.isLimited);
    // After a command was ended for its memory the network is as before.
    await expectNetwork(id, combination.network);
  });
}

test('those with a lifetime end and the others stay when it is over', { skip: needsRoot }, async () => {
  const mortal = combinations.filter(({ isMortal }) => isMortal).map(nameOf);
  const listed = async (): Promise<readonly string[]> =>
    ((await world().daemon.call('GET', '/cgi-bin/api/sandboxes')) as { readonly id: string }[]).map(
      ({ id }) => id,
    );
  await waitFor(
    'the mortal ones to end',
    async () => !(await listed()).some((id) => mortal.includes(id)),
    (lifetimeS / patience + 60) * 1_000,
  );
  const others = combinations.filter(({ isMortal }) => !isMortal);
  assert.deepEqual([...(await listed())].sort(), others.map(nameOf).sort());
  for (const one of others) await expectNetwork(nameOf(one), one.network);
});
