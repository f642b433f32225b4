/**
 * What a sandbox may reach: `allow_net`, the short form of the create request, and the full policy.
 *
 * The schemas give back the same form they take, with every destination in its canonical spelling: that is what is
 * stored, shown and numbered in verdicts (`allow[3]`). `policyRules` takes it apart for whoever evaluates it.
 *
 * What a newcomer would get wrong: an empty `allow_net` means everything public, as the original reads it. In the full
 * form an empty list means what it says: nothing.
 */
import { z } from 'zod';
import {
  type DestinationPattern,
  everythingPublic,
  formatPattern,
  hostServiceName,
  isServiceName,
  isLoopbackName,
  nothing,
  type PortRange,
  parsePattern,
  patternCharsMax,
} from './destination.ts';
import { placeOf } from './issue-sentence.ts';
import { findPreset, knownPresets } from './presets.ts';

export const policyLimits = {
  /** Rules in one list: longer lists are generated, and those belong into ranges and wildcards. */
  rulesMax: 256,
  /** Destinations of one rule, and port ranges, methods or paths of one. */
  partsMax: 64,
  /** Destinations of a whole policy: compiling them takes milliseconds. */
  destinationsMax: 4_096,
  pathCharsMax: 512,
  /** How long a connection waits for a person: below it nobody has read the question, above it no program waits. */
  askTimeoutMs: { least: 1_000, default: 60_000, most: 600_000 },
} as const;

const parts = (what: string) =>
  z.array(z.string().max(patternCharsMax)).min(1).max(policyLimits.partsMax).describe(what);

const ruleObjectSchema = z.strictObject({
  to: z
    .union([z.string().max(patternCharsMax), parts('')])
    .describe(
      'destinations: `host`, `*.host`, an address, a range, `*`, `preset:name`; each but the last with `:port`',
    ),
  ports: z
    .array(z.union([z.int().min(1).max(65_535), z.string().max(11)]))
    .min(1)
    .max(policyLimits.partsMax)
    .optional()
    .describe('443 or "8000-8999"; for destinations that name no port'),
  methods: parts('HTTP methods').optional(),
  paths: parts('HTTP paths, each with everything below it: `/v1` is `/v1` and `/v1/…`').optional(),
  upgrades: parts(
    'protocols that a request may change to where methods or paths are looked at, such as `websocket`; what follows is no request',
  ).optional(),
});

const ruleSchema = z.union([z.string().max(patternCharsMax), ruleObjectSchema], {
  error: (issue) =>
    typeof issue.input === 'object' && issue.input !== null
      ? `${placeOf(issue.path)}: a rule has "to" (a destination or a list of them) and may have "ports", "methods", "paths" and "upgrades", each a list`
      : `${placeOf(issue.path)}: a rule is a destination or an object with "to"`,
});

/** A rule as it is stored: a destination, or an object whose lists are canonical. */
export type PolicyRuleSource =
  | string
  | {
      readonly to: readonly string[];
      readonly ports?: readonly string[];
      readonly methods?: readonly string[];
      readonly paths?: readonly string[];
      readonly upgrades?: readonly string[];
    };

export interface PolicySource {
  readonly allow: readonly PolicyRuleSource[];
  readonly deny: readonly PolicyRuleSource[];
  /** Left out: nobody is asked. */
  readonly ask?: readonly PolicyRuleSource[];
  readonly dns: 'refuse' | 'nxdomain';
  /** Left out: the default. */
  readonly ask_timeout_ms?: number;
}

/** The shape alone; `policySchema` checks the words too. */
export const policyShape = z.strictObject({
  allow: z
    .array(ruleSchema)
    .max(policyLimits.rulesMax)
    .default([everythingPublic])
    .describe('default `["*"]`, every public host and address; an empty list or `["none"]`: nothing'),
  deny: z.array(ruleSchema).max(policyLimits.rulesMax).default([]).describe('always wins'),
  ask: z
    .array(ruleSchema)
    .max(policyLimits.rulesMax)
    .optional()
    .describe(
      'a person is asked, while the connection or request waits; a rule of `allow` spares the question where it is as narrow or narrower',
    ),
  dns: z
    .enum(['refuse', 'nxdomain'])
    .default('refuse')
    .describe(
      '`refuse`: a name that is not allowed gets an address, and connections to it a refusal that says why; `nxdomain`: it does not exist',
    ),
  ask_timeout_ms: z
    .int()
    .min(policyLimits.askTimeoutMs.least)
    .max(policyLimits.askTimeoutMs.most)
    .optional()
    .describe(`how long is waited for a person, default ${policyLimits.askTimeoutMs.default}`),
});

export const policySchema = policyShape.transform((policy, context): PolicySource => {
  const report: Report = (path, message) =>
    context.issues.push({ code: 'custom', path: [...path], message, input: policy });
  const allow = checkRules('allow', policy.allow.length === 0 ? [nothing] : policy.allow, report);
  const deny = checkRules('deny', policy.deny, report);
  const ask = checkRules('ask', policy.ask ?? [], report);
  const count = [...allow, ...deny, ...ask].reduce(
    (sum, rule) => sum + (typeof rule === 'string' ? 1 : rule.to.length),
    0,
  );
  if (count > policyLimits.destinationsMax) {
    report([], `the policy names ${count} destinations: ${policyLimits.destinationsMax} at most`);
  }
  const { dns, ask_timeout_ms } = policy;
  return {
    allow,
    deny,
    ...(ask.length > 0 && { ask }),
    dns,
    ...(ask_timeout_ms !== undefined && { ask_timeout_ms }),
  };
});

/** What no policy can exceed. It asks nobody: a question that two policies put would need two answers. */
export const ceilingSchema = policySchema.refine((policy) => policy.ask === undefined, {
  error: '"ask" stands in a sandbox\'s policy only',
});

/** What the operator has approved for all sandboxes whose policies ask: rules of `allow`. */
export const approvedSchema = z.array(ruleSchema).transform((allow, context): readonly PolicyRuleSource[] => {
  if (allow.length === 0) return [];
  const checked = policySchema.safeParse({ allow: allow.slice(0, policyLimits.rulesMax) });
  if (checked.success) return checked.data.allow;
  for (const { message } of checked.error.issues)
    context.issues.push({ code: 'custom', message, input: allow });
  return [];
});

type List = 'allow' | 'deny' | 'ask';
type Report = (path: readonly (string | number)[], message: string) => void;

function checkRules(
  list: List,
  rules: readonly z.infer<typeof ruleSchema>[],
  report: Report,
): readonly PolicyRuleSource[] {
  return rules.map((rule, at) => {
    const complain: Report = (path, message) => report([list, at, ...path], `${list}[${at}]${message}`);
    if (rule === nothing) {
      if (list !== 'allow' || rules.length > 1) complain([], ` "${nothing}" stands alone, in "allow"`);
      return rule;
    }
    const checked =
      typeof rule === 'string' ? checkDestination(rule, complain) : checkRule(list, rule, complain);
    if (list !== 'deny') checkReached(checked, complain);
    return checked;
  });
}

function checkRule(list: List, rule: z.infer<typeof ruleObjectSchema>, complain: Report): PolicyRuleSource {
  const to = (typeof rule.to === 'string' ? [rule.to] : rule.to).map((each) =>
    checkDestination(each, complain),
  );
  const ports = rule.ports?.map((port) => checkPorts(`${port}`, complain));
  const withPort = to.find((each) => portsOf(each));
  if (ports !== undefined && withPort !== undefined) {
    complain(['ports'], `: "${withPort}" brings its own port: write it in one place`);
  }
  const isConditional = rule.methods !== undefined || rule.paths !== undefined;
  const range = list !== 'allow' && isConditional ? to.find((each) => isNetwork(each)) : undefined;
  if (range !== undefined) {
    complain(
      [],
      `: "${range}" can not be ${list === 'deny' ? 'denied' : 'asked for'} by method or path: a name behind the range would get past it`,
    );
  }
  const methods = rule.methods?.map((method) => checkMethod(method, complain));
  const paths = rule.paths?.map((path) => checkPath(path, complain));
  if (rule.upgrades !== undefined && list === 'deny') {
    complain(['upgrades'], '.upgrades stands in "allow": what no rule names there is refused');
  }
  const upgrades = rule.upgrades?.map((protocol) => checkUpgrade(protocol, complain));
  return {
    to,
    ...(ports !== undefined && { ports }),
    ...(methods !== undefined && { methods }),
    ...(paths !== undefined && { paths }),
    ...(upgrades !== undefined && { upgrades }),
  };
}

/** What `allow` and `ask` may not name: the sandbox's own loopback, and host or caller without a port. */
function checkReached(rule: PolicyRuleSource, complain: Report): void {
  const { to, ports }: Exclude<PolicyRuleSource, string> = typeof rule === 'string' ? { to: [rule] } : rule;
  for (const text of to) {
    const parsed = parsePattern(text);
    if (!parsed.ok) continue;
    if (isLoopback(parsed.pattern)) {
      complain(
        [],
        ` "${text}" is the sandbox's own loopback, which needs no rule; a service of the host is "${hostServiceName}:PORT"`,
      );
    }
    const { target } = parsed.pattern;
    const service = target.kind === 'host' && isServiceName(target.host) ? target.host : undefined;
    if (service !== undefined && parsed.pattern.ports === undefined && ports === undefined) {
      complain([], ` "${text}" names no service: write its port, "${service}:5432"`);
    }
  }
}

/** Every address of it leads there; what a broader range leads to is decided where it is dialled. */
function isLoopback({ target }: DestinationPattern): boolean {
  if (target.kind === 'host' || target.kind === 'subdomains') {
    return isLoopbackName(target.host);
  }
  if (target.kind !== 'network') return false;
  const [address = '', length] = target.range.split('/');
  if (['0.0.0.0/32', '::1/128', '::/128', '::/127'].includes(target.range)) return true;
  return address.startsWith('127.') && Number(length) >= 8;
}

function portsOf(destination: string): boolean {
  const parsed = parsePattern(destination);
  if (!parsed.ok) return false;
  return parsed.pattern.ports !== undefined || parsed.pattern.target.kind === 'preset';
}

function isNetwork(destination: string): boolean {
  const parsed = parsePattern(destination);
  return parsed.ok && parsed.pattern.target.kind === 'network';
}

/** The canonical spelling; where it is none, the word itself and a complaint. */
function checkDestination(text: string, complain: Report): string {
  const parsed = parsePattern(text);
  if (!parsed.ok) {
    complain([], ` "${text.slice(0, 128)}" ${parsed.problem}`);
    return text;
  }
  const { target } = parsed.pattern;
  if (target.kind === 'preset' && findPreset(target.preset) === undefined) {
    const names = knownPresets()
      .map((preset) => preset.name)
      .join(', ');
    complain([], ` "${text}" is unknown: the presets are ${names}`);
  }
  if (target.kind === 'host' && parsed.pattern.ports === undefined && findPreset(target.host) !== undefined) {
    complain(
      [],
      ` "${text}" is a preset's name: write "preset:${target.host}", or for a host of that name its port, "${target.host}:443"`,
    );
  }
  if (text === nothing) complain([], ` "${nothing}" stands alone, in "allow"`);
  return formatPattern(parsed.pattern);
}

function checkPorts(text: string, complain: Report): string {
  // The same words as behind a destination, so the same parser.
  const parsed = parsePattern(`*:${text}`);
  if (!parsed.ok) complain(['ports'], `.ports ${parsed.problem}`);
  return text;
}

function checkMethod(text: string, complain: Report): string {
  if (!/^[A-Za-z][A-Za-z-]{0,31}$/.test(text))
    complain(['methods'], `.methods "${text.slice(0, 32)}" is no HTTP method`);
  return text.toUpperCase();
}

/** HTTP and TLS under another name would bring requests that nobody reads: they are never changed to. */
function checkUpgrade(text: string, complain: Report): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9./_+-]{0,63}$/.test(text) || /^(?:h2c|h2|http|tls)\b/i.test(text)) {
    complain(['upgrades'], `.upgrades "${text.slice(0, 64)}" is no protocol to change to: write "websocket"`);
  }
  return text.toLowerCase();
}

/** Paths are compared decoded and without `.` and `..`, so a prefix that is not can never match. */
function checkPath(text: string, complain: Report): string {
  const segments = text.split('/').slice(1);
  const isPlain =
    text.startsWith('/') &&
    text.length <= policyLimits.pathCharsMax &&
    !/[\p{Cc}%?#\\]/u.test(text) &&
    !segments.some(
      (segment, at) => segment === '.' || segment === '..' || (segment === '' && at < segments.length - 1),
    );
  if (!isPlain) {
    complain(
      ['paths'],
      `.paths "${text.slice(0, 128)}": a path begins with "/" and is written decoded, without query, "//", "." and ".."`,
    );
  }
  return text;
}

/** `allow_net` as the create request takes it; the answer is canonical. Words of the original's dialect. */
export const allowNetSchema = z
  .array(z.string({ error: 'allow_net must be an array of strings' }), {
    error: 'allow_net must be an array of strings',
  })
  .max(policyLimits.rulesMax, { error: `allow_net: ${policyLimits.rulesMax} entries at most` })
  .transform((entries, context): readonly string[] => {
    const report: Report = (path, message) =>
      context.issues.push({
        code: 'custom',
        path: [...path],
        message: `allow_net${message}`,
        input: entries,
      });
    if (entries.length === 1 && entries[0] === nothing) return entries;
    return entries.map((entry, at) => {
      if (entry === nothing) report([at], `: "${nothing}" stands alone`);
      const complain: Report = (path, message) => report([at, ...path], `[${at}]${message}`);
      const checked = checkDestination(entry, complain);
      checkReached(checked, complain);
      return checked;
    });
  });

/** The full form of `allow_net`. */
export function policyOfAllowNet(allowNet: readonly string[] | null | undefined): PolicySource {
  const allow =
    allowNet === null || allowNet === undefined || allowNet.length === 0 ? [everythingPublic] : allowNet;
  return { allow, deny: [], dns: 'refuse' };
}

/** One destination of one rule, ready to be compared. */
export interface PolicyRule {
  /** As in `allow[3] *.npmjs.org:443`: what a person finds again in the policy. */
  readonly name: string;
  readonly target: Exclude<DestinationPattern['target'], { readonly kind: 'preset' }>;
  /** Undefined: every port. */
  readonly ports: readonly PortRange[] | undefined;
  /** Set: concerns HTTP requests with one of these methods only. */
  readonly methods: readonly string[] | undefined;
  readonly paths: readonly string[] | undefined;
  /** Lower case: what a request that is read may change to. */
  readonly upgrades: readonly string[] | undefined;
}

export interface PolicyRules {
  readonly allow: readonly PolicyRule[];
  readonly deny: readonly PolicyRule[];
  readonly ask: readonly PolicyRule[];
  readonly dns: 'refuse' | 'nxdomain';
}

/** Takes a policy apart, presets spelt out. Precondition: it went through `policySchema` or `policyOfAllowNet`. */
export function policyRules(source: PolicySource): PolicyRules {
  const { allow, deny, ask = [], dns } = source;
  return {
    allow: namedRules('allow', allow),
    deny: namedRules('deny', deny),
    ask: namedRules('ask', ask),
    dns,
  };
}

/** Rules of one list, which is named so in verdicts. Precondition: as `policyRules`. */
export function namedRules(list: string, rules: readonly PolicyRuleSource[]): readonly PolicyRule[] {
  return rules.flatMap((rule, at) => expand(`${list}[${at}]`, rule));
}

function expand(place: string, rule: PolicyRuleSource): readonly PolicyRule[] {
  if (rule === nothing) return [];
  const { to, ports, methods, paths, upgrades }: Exclude<PolicyRuleSource, string> =
    typeof rule === 'string' ? { to: [rule] } : rule;
  const ranges = ports?.map((port) => portRange(port));
  return to.flatMap((text) => {
    const parsed = parsePattern(text);
    if (!parsed.ok) throw new TypeError(`"${text}" ${parsed.problem}: the policy was not checked`);
    return patternsOf(parsed.pattern).map(
      ({ pattern, from }): PolicyRule => ({
        name: `${place} ${from}${formatPattern(pattern)}`,
        target: pattern.target as PolicyRule['target'],
        ports: pattern.ports === undefined ? ranges : [pattern.ports],
        methods,
        paths,
        upgrades,
      }),
    );
  });
}

function patternsOf(
  pattern: DestinationPattern,
): readonly { readonly pattern: DestinationPattern; readonly from: string }[] {
  if (pattern.target.kind !== 'preset') return [{ pattern, from: '' }];
  const preset = findPreset(pattern.target.preset);
  if (preset === undefined) throw new TypeError(`there is no preset "${pattern.target.preset}"`);
  const from = `preset:${preset.name} `;
  return preset.hosts.map((host) => {
    const parsed = parsePattern(host);
    if (!parsed.ok) throw new TypeError(`preset "${preset.name}": "${host}" ${parsed.problem}`);
    return { pattern: parsed.pattern, from };
  });
}

function portRange(text: string): PortRange {
  const [first = '', last = first] = text.split('-');
  return { first: Number(first), last: Number(last) };
}
