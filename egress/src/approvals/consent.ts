/**
 * A policy with what a person has allowed once, for one connection or one request. Whoever is asked is asked about a question; what
 * else the policy says holds as before, and so does its judgement of addresses.
 */
import { type Policy, type Question, questionKey, type Verdict } from '@squash/policy/policy';

/** @param policyOf the sandbox's present policy, however long the asker keeps this object */
export class Consent {
  readonly policy: Policy;
  readonly #given = new Set<string>();

  constructor(policyOf: () => Policy) {
    const heard = (verdict: Verdict): Verdict => this.#heard(verdict);
    this.policy = {
      decideName: (host) => policyOf().decideName(host),
      namesHost: (host, port) => policyOf().namesHost(host, port),
      decideConnection: (destination) => heard(policyOf().decideConnection(destination)),
      decideAddress: (destination, address) => policyOf().decideAddress(destination, address),
      needsRequests: (destination) => policyOf().needsRequests(destination),
      decideRequest: (destination, request) => heard(policyOf().decideRequest(destination, request)),
      get isOpen() {
        return policyOf().isOpen;
      },
      get refusedNames() {
        return policyOf().refusedNames;
      },
    };
  }

  give(question: Question): void {
    this.#given.add(questionKey(question));
  }

  #heard(verdict: Verdict): Verdict {
    const { question, rule } = verdict;
    if (question === undefined || !this.#given.has(questionKey(question))) return verdict;
    return { isAllowed: true, rule: `${rule} (approved once)` };
  }
}
