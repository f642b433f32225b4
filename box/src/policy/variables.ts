/** Which of our variables a policy passes into a box, and which it sets. Pure. */
import { looksSecret } from '../environment.ts';
import { nameFits } from './layers.ts';
import type { ResolvedPolicy } from './merge.ts';

/**
 * What is named by its whole name is passed whatever it holds; what a pattern finds and looks like a secret is not: nobody
 * meant it.
 */
export function policyVariables(
  { env: policy }: Pick<ResolvedPolicy, 'env'>,
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) continue;
    const rules = policy.pass.filter((rule) => nameFits(rule.value, name));
    const isForbidden = policy.forbidden.some((pattern) => nameFits(pattern, name));
    const counted = rules.filter(({ source }) => !isForbidden || source.origin === 'managed');
    if (counted.some((rule) => rule.value === name) || (counted.length > 0 && !looksSecret(name, value)))
      passed[name] = value;
  }
  for (const [name, { value }] of policy.set) passed[name] = value;
  return passed;
}
