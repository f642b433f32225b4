/** Asks a policy as a connection would, step by step, and says what each step answered. Nothing is resolved. */
import type { PolicyQuestion, PolicyTestAnswer } from '@squash/contract/egress';
import type { Policy, Verdict } from './policy.ts';

/** Up to the first refusal, as a program would get. The request is asked only where it would be read. */
export function explain(policy: Policy, question: PolicyQuestion, method: string): PolicyTestAnswer {
  const { host, address, port } = question;
  const destination = { host, address, port };
  const readsRequests = policy.needsRequests(destination);
  const steps: PolicyTestAnswer['steps'] = [];
  const take = (step: 'name' | 'connection' | 'request', { isAllowed, rule }: Verdict): boolean => {
    steps.push({ step, allowed: isAllowed, rule });
    return isAllowed;
  };
  const isAllowed =
    (host === undefined || take('name', policy.decideName(host))) &&
    take('connection', policy.decideConnection(destination)) &&
    (!readsRequests ||
      take('request', policy.decideRequest(destination, { method, path: question.path ?? '/' })));
  return {
    allowed: isAllowed,
    host: host ?? null,
    address: address ?? null,
    port,
    steps,
    reads_requests: readsRequests,
  };
}
