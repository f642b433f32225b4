/** A service of the host's loopback: by whose word a policy reaches it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostServiceName } from '@squash/contract/destination';
import { policySchema } from '@squash/contract/policy';
import { parseCidr } from './address/cidr.ts';
import { compilePolicy } from './compile.ts';
import type { Destination, Policy } from './policy.ts';

function compiled(
  input: unknown,
  more: { ceiling?: unknown; allow?: readonly string[]; reachesHost?: boolean },
): Policy {
  return compilePolicy({
    policy: policySchema.parse(input),
    ceiling: more.ceiling === undefined ? undefined : policySchema.parse(more.ceiling),
    allowRanges: (more.allow ?? []).map((text) => parseCidr(text) ?? assert.fail(text)),
    reachesHost: more.reachesHost ?? false,
  });
}

const named = (host: string, port: number): Destination => ({ host, address: undefined, port });
const literal = (address: string, port: number): Destination => ({ host: undefined, address, port });

test('a service of the host is reached by its word and port, where the ceiling or a range of the operator permits it', () => {
  const service = named(hostServiceName, 5432);
  const decide = (allow: readonly string[], more: Parameters<typeof compiled>[1], at = service): string => {
    const policy = compiled({ allow }, more);
    for (const verdict of [policy.decideName(hostServiceName), policy.decideConnection(at)]) {
      if (!verdict.isAllowed) return verdict.rule;
    }
    return policy.decideAddress(at, '127.0.0.1').rule;
  };
  const word = `${hostServiceName}:5432`;
  const permitted = { allow: ['127.0.0.1/32'] };
  assert.equal(decide([word], permitted), `allow[0] ${word}`);
  assert.equal(decide([word], {}), 'host_not_permitted');
  assert.equal(decide([word], { allow: ['0.0.0.0/0'] }), 'host_not_permitted');
  assert.equal(decide([word], { ceiling: { allow: ['*', word] } }), `allow[0] ${word}`);
  assert.equal(decide([word], { ...permitted, ceiling: { allow: ['*'] } }), 'ceiling not_allowed');
  assert.equal(decide(['*', '*.squash.internal'], permitted), 'not_allowed');
  assert.equal(decide([word], permitted, named(hostServiceName, 22)), 'not_allowed');
  const box = { reachesHost: true };
  assert.equal(decide([word], box), `allow[0] ${word}`);
  assert.equal(decide([word], { ...box, ceiling: { allow: ['*'] } }), 'ceiling not_allowed');
  assert.equal(decide(['*', '*.squash.internal', '*.internal', '0.0.0.0/0'], box), 'not_allowed');
  assert.equal(decide([word], box, named(hostServiceName, 22)), 'not_allowed');
  for (const at of [named('rebound.example', 5432), literal('127.0.0.1', 5432)])
    assert.match(
      compiled({ allow: ['*', word, 'rebound.example'] }, box).decideAddress(at, '127.0.0.1').rule,
      /^loopback_address$/,
    );
});
