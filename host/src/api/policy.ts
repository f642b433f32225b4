/** `policy.*`: what a sandbox may reach: looking, setting, asking, learning. */
import type { PolicyLearnAnswer, SandboxPolicy } from '@squash/contract/egress';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { issueSentence } from '@squash/contract/issue-sentence';
import { limits } from '@squash/contract/limits';
import type {
  policyGet,
  policyLearn,
  policyPresets,
  policySet,
  policyTest,
} from '@squash/contract/operations/egress';
import { type PolicySource, policySchema } from '@squash/contract/policy';
import { presets } from '@squash/contract/presets';
import { parseCidr } from '@squash/policy/address/cidr';
import { compilePolicy } from '@squash/policy/compile';
import { explain } from '@squash/policy/explain';
import { type LearnedFrom, learn } from '@squash/policy/learn';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';
import type { DecisionLog } from './egress-decisions.ts';

/** What holds for all sandboxes, from the configuration. */
export interface EgressRules {
  readonly ceiling: PolicySource | undefined;
  /** In CIDR notation. */
  readonly allowRanges: readonly string[];
}

function shown(engine: Engine, id: SandboxId, { ceiling }: EgressRules): SandboxPolicy {
  const { policy, secrets, isInForce } = engine.networkRules(id);
  // Plain copies: the schema's types are those of JSON.
  return structuredClone({ policy, ceiling: ceiling ?? null, secrets, in_force: isInForce }) as SandboxPolicy;
}

export function policyGetHandler(engine: Engine, rules: EgressRules): Handler<typeof policyGet> {
  return ({ params }) => json(shown(engine, params.id, rules));
}

export function policySetHandler(engine: Engine, rules: EgressRules): Handler<typeof policySet> {
  return async ({ params, body }) => {
    const policy = policySchema.safeParse(body, { error: issueSentence });
    if (!policy.success) {
      throw new AppError('invalid_request', policy.error.issues[0]?.message ?? 'the policy is malformed');
    }
    await engine.setPolicy(params.id, policy.data);
    return json(shown(engine, params.id, rules));
  };
}

export function policyTestHandler(engine: Engine, rules: EgressRules): Handler<typeof policyTest> {
  const allowRanges = rules.allowRanges.flatMap((text) => parseCidr(text) ?? []);
  return ({ params, body }) => {
    const own = engine.networkRules(params.id).policy;
    const policy = compiled({ policy: body.policy ?? own, ceiling: rules.ceiling, allowRanges });
    return json(explain(policy, body.to, body.method));
  };
}

function compiled(parts: Parameters<typeof compilePolicy>[0]): ReturnType<typeof compilePolicy> {
  try {
    return compilePolicy(parts);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // Stored by an earlier version, before its words were checked.
    throw new AppError('invalid_request', `Cannot use the sandbox's policy: ${error.message}: set another`, {
      cause: error,
    });
  }
}

export function policyLearnHandler(engine: Engine, log: DecisionLog): Handler<typeof policyLearn> {
  return async ({ params }) => {
    engine.networkRules(params.id);
    return json(learn(await everything(log, params.id)) satisfies PolicyLearnAnswer);
  };
}

/** All that is kept of a sandbox, a page at a time. */
async function everything(log: DecisionLog, id: SandboxId): Promise<readonly LearnedFrom[]> {
  const pageRows = 1_000;
  const rows: LearnedFrom[] = [];
  for (let after = 0; rows.length < limits.learnDecisionsMax; ) {
    const { decisions } = await log.decisions({ sandbox: id, after, limit: pageRows });
    rows.push(...decisions);
    const last = decisions.at(-1);
    if (last === undefined || decisions.length < pageRows) break;
    after = last.id;
  }
  return rows;
}

export function policyPresetsHandler(): Handler<typeof policyPresets> {
  return () => json(presets);
}
