/** The Sandbox Runtime's lists of hosts as a policy's `net`. Pure. */
import { hostServiceName, isLoopbackName, parsePattern } from '@squash/contract/destination';
import { policySchema } from '@squash/contract/policy';
import type { FieldNote } from './field.ts';
import type { SrtSettings } from './settings.ts';

export interface NetworkRules {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  /** Of this machine's loopback. */
  readonly hostPorts: readonly number[];
  readonly notes: readonly FieldNote[];
  readonly refused: readonly FieldNote[];
}

export function networkRules(network: SrtSettings['network']): NetworkRules {
  const notes: FieldNote[] = [];
  const refused: FieldNote[] = [];
  const hostPorts: number[] = [];
  const allow: string[] = [];
  const refuse = (list: string, word: string, why: string): void => {
    refused.push({ field: `network.${list}`, text: `${JSON.stringify(word.slice(0, 256))}: ${why}` });
  };
  for (const word of network.allowedDomains) {
    const port = loopbackPort(word);
    if (port === undefined) {
      const problem = problemOf('allow', word);
      if (problem === undefined) allow.push(word);
      else refuse('allowedDomains', word, problem);
    } else if (port === 'none')
      refuse('allowedDomains', word, 'localhost is the box’s own; name a port of this machine');
    else {
      hostPorts.push(port);
      notes.push({
        field: 'network.allowedDomains',
        text: `${JSON.stringify(word)}: the box reaches this port of this machine as ${hostServiceName}:${port}`,
      });
    }
  }
  const denied = deniedRules(network.deniedDomains, allow, refuse);
  const ranges = (network.deniedResolvedAddresses ?? []).filter((range) => {
    const isRange = parsePattern(range);
    const problem =
      isRange.ok && isRange.pattern.target.kind === 'network' ? undefined : 'it is no range of addresses';
    if (problem !== undefined) refuse('deniedResolvedAddresses', range, problem);
    return problem === undefined;
  });
  const isNothing = network.deniedDomains.includes('*');
  return {
    allow: isNothing ? [] : [...new Set(allow)],
    deny: [...new Set([...denied, ...ranges])],
    hostPorts: isNothing ? [] : [...new Set(hostPorts)],
    notes,
    refused,
  };
}

/** `*` means public hosts here, and everything there: what is allowed by a port that is denied to all is denied by itself as well. */
function deniedRules(
  words: readonly string[],
  allow: readonly string[],
  refuse: (list: string, word: string, why: string) => void,
): readonly string[] {
  return words.flatMap((word): readonly string[] => {
    const problem = problemOf('deny', word);
    if (problem !== undefined) {
      refuse('deniedDomains', word, problem);
      return [];
    }
    const port = /^\*:(\d+)$/.exec(word)?.[1];
    const alike = allow.flatMap((each) => {
      if (port === undefined) return [];
      const parsed = parsePattern(each);
      const hasPort = parsed.ok && parsed.pattern.ports !== undefined;
      if (hasPort) return each.endsWith(`:${port}`) ? [each] : [];
      return [
        parsed.ok && parsed.pattern.target.kind === 'network' && each.includes(':') && !each.startsWith('[')
          ? `[${each}]:${port}`
          : `${each}:${port}`,
      ];
    });
    return [word, ...alike];
  });
}

/** Undefined: it is another host. `none`: it names no port. */
function loopbackPort(word: string): number | 'none' | undefined {
  const match = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(word);
  const host = (match?.[1] ?? '').toLowerCase();
  if (!isLoopbackName(host) && !/^127\.\d+\.\d+\.\d+$/.test(host) && host !== '[::1]') return undefined;
  return match?.[2] === undefined ? 'none' : Number(match[2]);
}

function problemOf(list: 'allow' | 'deny', word: string): string | undefined {
  const checked = policySchema.safeParse(
    list === 'allow' ? { allow: [word] } : { allow: ['none'], deny: [word] },
  );
  if (checked.success) return word === 'none' ? 'it names no host' : undefined;
  const [first] = checked.error.issues;
  return (first?.message ?? 'it is no host').replace(/^(?:allow|deny)\[0\]:? /, '');
}
