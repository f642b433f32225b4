/** Sockets and devices that a policy grants, held against what it closes: a path that somebody hides is not reached by a socket at it either. */
import { absolutePath, canonical } from '../host-paths.ts';
import { PolicyProblem } from '../policy-problem.ts';
import { sourceText } from './layers.ts';
import { isClosed } from './levels.ts';
import type { ResolvedPolicy } from './merge.ts';
import { isRestating } from './merge-paths.ts';
import { longestMatch } from './paths.ts';

/** @throws PolicyProblem where another rule closes one */
export function namedWords(
  what: 'sockets' | 'devices',
  policy: Pick<ResolvedPolicy, 'sockets' | 'devices' | 'paths'>,
  grounds: { readonly home: string; readonly repository: string },
): readonly string[] {
  const { paths, [what]: named } = policy;
  for (const { value, source } of named) {
    if (!/^[~/]/.test(value)) continue;
    const written = absolutePath(value, { cwd: '/', home: grounds.home });
    const match = longestMatch(paths, canonical(written) ?? written);
    if (match === undefined || !isClosed(match.rule.level) || match.rule.source.origin === 'default')
      continue;
    if (isRestating(match.path, match.rule, grounds)) continue;
    throw new PolicyProblem([
      `${what}.allow ${JSON.stringify(value)} of ${sourceText(source)}: it is ${match.rule.level} by ${JSON.stringify(match.rule.written)} of ${sourceText(match.rule.source)}`,
    ]);
  }
  return named.map(({ value }) => value);
}
