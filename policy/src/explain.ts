/**
 * Asks a policy as a connection would, step by step, and says what each step answered. Where the name leads is the egress
 * process's knowledge: `withAddresses` adds what it said.
 */
import type { PolicyQuestion, PolicyTestAnswer } from '@squash/contract/egress';
import { isLoopbackName } from '@squash/contract/destination';
import type { EgressJudged } from '@squash/contract/egress-protocol';
import type { Policy, Verdict } from './policy.ts';
import { remedyOf } from './remedy.ts';

/** Whatever the policy says of the name: no query for it leaves the sandbox. */
const ownLoopback: Verdict = { isAllowed: false, rule: 'loopback_address' };

/** Up to the first refusal, as a program would get. The request is asked only where it would be read. */
export function explain(policy: Policy, question: PolicyQuestion, method: string): PolicyTestAnswer {
  const { host, address, port } = question;
  const destination = { host, address, port };
  const readsRequests = policy.needsRequests(destination);
  const steps: PolicyTestAnswer['steps'] = [];
  const take = (step: 'name' | 'connection' | 'request', verdict: Verdict): boolean => {
    const { isAllowed, isAsked = false, rule } = verdict;
    const remedy = isAllowed || isAsked ? undefined : remedyOf(rule, address ?? host ?? '');
    steps.push({
      step,
      allowed: isAllowed,
      rule,
      ...(isAsked && { asked: true }),
      ...(remedy !== undefined && { remedy }),
    });
    return isAllowed || isAsked;
  };
  const isPassed =
    (host === undefined || take('name', isLoopbackName(host) ? ownLoopback : policy.decideName(host))) &&
    take('connection', policy.decideConnection(destination)) &&
    (!readsRequests ||
      take('request', policy.decideRequest(destination, { method, path: question.path ?? '/' })));
  const isAsked = isPassed && steps.some(({ asked }) => asked === true);
  return {
    allowed: isPassed && !isAsked,
    ...(isAsked && { asked: true }),
    host: host ?? null,
    address: address ?? null,
    port,
    steps,
    not_resolved: isAsked
      ? 'a person is asked before that'
      : isPassed
        ? 'nobody was asked'
        : 'it is refused before that',
    reads_requests: readsRequests,
  };
}

/** A program tries one address after the other: one that may be dialled is enough. */
export function withAddresses(answer: PolicyTestAnswer, judged: EgressJudged): PolicyTestAnswer {
  const steps = judged.addresses.map(({ address, allowed, rule }): PolicyTestAnswer['steps'][number] => {
    const remedy = allowed ? undefined : remedyOf(rule, address);
    return { step: 'address', allowed, rule, address, ...(remedy !== undefined && { remedy }) };
  });
  const isRefused = steps.length > 0 && !steps.some(({ allowed }) => allowed);
  return {
    ...answer,
    allowed: answer.allowed && !isRefused,
    steps: [...answer.steps, ...steps],
    not_resolved: judged.code === null ? null : `the name has no address (${judged.code})`,
  };
}
