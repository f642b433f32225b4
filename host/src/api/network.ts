/** `policy.*` and `egress.decisions`: what a sandbox may reach (looking, setting, asking, learning), and what it asked for. */
import type { PolicyLearnAnswer, SandboxPolicy } from '@squash/contract/egress';
import type { EgressJudged, EgressQuestion } from '@squash/contract/egress-protocol';
import { callerServiceName, hostServiceName } from '@squash/contract/destination';
import { AppError } from '@squash/contract/errors';
import { parseUpstream, upstreamOf, type Upstreams } from '@squash/contract/upstreams';
import type { SandboxId } from '@squash/contract/ids';
import { issueSentence } from '@squash/contract/issue-sentence';
import { limits } from '@squash/contract/limits';
import type { networkOperations } from '@squash/contract/operations/network';
import { type PolicySource, policySchema } from '@squash/contract/policy';
import { knownPresets } from '@squash/contract/presets';
import { parseCidr } from '@squash/policy/address/cidr';
import { compilePolicy } from '@squash/policy/compile';
import { explain, withAddresses } from '@squash/policy/explain';
import { refusedToProxy } from '@squash/policy/private-names';
import { type LearnedFrom, learn } from '@squash/policy/learn';
import { json } from '../http/reply.ts';
import type { Engine } from '../engine/engine.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { type DecisionLog, readingDecisions } from './decisions.ts';

/** What holds for all sandboxes, from the configuration. */
export interface EgressRules {
  readonly ceiling: PolicySource | undefined;
  /** In CIDR notation. */
  readonly allowRanges: readonly string[];
  readonly hostPorts: 'off' | 'boxes';
  readonly upstreams: Upstreams;
}

export interface NetworkParts {
  readonly rules: EgressRules;
  readonly log: DecisionLog & AddressJudge;
}

type NetworkOperations = typeof networkOperations;

export function networkHandlers(engine: Engine, parts: NetworkParts): HandlersOf<NetworkOperations> {
  const { rules, log } = parts;
  return {
    'policy.get': ({ params }) => json(shown(engine, params.id, rules)),
    'policy.set': setting(engine, rules),
    'policy.test': testing(engine, parts),
    'policy.learn': async ({ params }) => {
      engine.sandboxes.get(params.id);
      return json(learn(await everything(log, params.id)) satisfies PolicyLearnAnswer);
    },
    'policy.presets': () => json(knownPresets().map((preset) => ({ ...preset, hosts: [...preset.hosts] }))),
    'egress.decisions': readingDecisions(engine.sandboxes, log),
  };
}

function shown(engine: Engine, id: SandboxId, { ceiling, upstreams }: EgressRules): SandboxPolicy {
  const { policy, secrets, ownSecrets, upstream, pending } = engine.network.rules(id);
  // Plain copies: the schema's types are those of JSON.
  return structuredClone({
    policy,
    ceiling: ceiling ?? null,
    secrets,
    own_secrets: ownSecrets,
    own_secret_hosts: engine.network.ownSecretHosts(id),
    upstream: upstreamOf(upstream, upstreams) ?? null,
    in_force: pending === undefined,
    pending: pending ?? null,
  }) as SandboxPolicy;
}

function setting(engine: Engine, rules: EgressRules): Handler<NetworkOperations['policy.set']> {
  return async ({ params, body }) => {
    const policy = policySchema.safeParse(body, { error: issueSentence });
    if (!policy.success) {
      throw new AppError('invalid_request', policy.error.issues[0]?.message ?? 'the policy is malformed');
    }
    await engine.network.setPolicy(params.id, policy.data);
    return json(shown(engine, params.id, rules));
  };
}

type PolicyAsked = Omit<EgressQuestion, 'policy'> & { readonly policy: PolicySource };

/** Knows where names lead; `EgressClient` is one. */
export interface AddressJudge {
  judge(question: PolicyAsked): Promise<EgressJudged>;
}

function testing(engine: Engine, { rules, log }: NetworkParts): Handler<NetworkOperations['policy.test']> {
  const allowRanges = rules.allowRanges.flatMap((text) => parseCidr(text) ?? []);
  return async ({ params, body }) => {
    const own = engine.network.rules(params.id);
    const source = body.policy ?? own.policy;
    const approved = engine.approvals.approved();
    const reachesHost = own.isBox && rules.hostPorts === 'boxes';
    const policy = compiled({ policy: source, ceiling: rules.ceiling, allowRanges, approved, reachesHost });
    const answer = explain(policy, body.to, body.method);
    // No query leaves the host for a name that is refused.
    if (!answer.allowed) return json(answer);
    const { host, address, port } = answer;
    if (host === callerServiceName)
      return json({ ...answer, not_resolved: 'whoever offers the port is asked' });
    const proxy = upstreamOf(own.upstream, rules.upstreams);
    const isLeft =
      proxy !== undefined && parseUpstream(rules.upstreams[proxy] ?? '')?.resolvesNames !== false;
    if (isLeft && host !== null && host !== hostServiceName) {
      const refusal = refusedToProxy(policy, host, port);
      if (refusal !== undefined) {
        const step = { step: 'connection', allowed: false, rule: refusal.rule } as const;
        return json({
          ...answer,
          allowed: false,
          steps: [...answer.steps, step],
          not_resolved: 'it is refused before that',
        });
      }
      return json({ ...answer, not_resolved: `the proxy "${proxy}" looks names up` });
    }
    try {
      return json(
        withAddresses(answer, await log.judge({ policy: source, reachesHost, host, address, port })),
      );
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'egress_unavailable') throw error;
      return json({ ...answer, not_resolved: 'the egress process does not answer' });
    }
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

/** @throws invalid_request for a proxy that the operator does not have */
export function checkUpstream(name: string | undefined, upstreams: EgressRules['upstreams']): void {
  if (name === undefined || Object.hasOwn(upstreams, name)) return;
  const known = Object.keys(upstreams).join(', ') || 'none';
  throw new AppError(
    'invalid_request',
    `upstream: "${name}" is no proxy of egress-upstreams.json, which has: ${known}`,
  );
}
