/**
 * A policy file: its form, and what is wrong with one in words that a person can act on. Unknown keys are errors: a rule
 * that is misspelt would be no rule.
 *
 * What a newcomer would get wrong: `net` has the form of a sandbox's network policy but for one thing. There, `allow` that is
 * left out means everything public; here it adds nothing, for a file is one of several.
 */
import { hostRootLimits } from '@squash/contract/host-root';
import { limits } from '@squash/contract/limits';
import { processesMin } from '@squash/contract/processes-limit';
import { pathLevels } from '@squash/contract/path-levels';
import { nearest } from '@squash/contract/nearest';
import { issueSentence } from '@squash/contract/issue-sentence';
import { type PolicySource, policySchema, policyShape } from '@squash/contract/policy';
import { safeParse } from '@squash/contract/safe-parse';
import { ownSecretsSchema, secretNameSchema, secretSurfaces } from '@squash/contract/secrets';
import { z } from 'zod';
import { bundleNames, cacheModes, type CacheName, cacheNames, cachePaths } from './bundles.ts';
import type { PolicyDocument } from './document.ts';
import { PolicyProblem, placeIn } from '../policy-problem.ts';

export const fileLimits = {
  /** Of one file; longer ones are generated. */
  bytesMax: 262_144,
  rulesMax: 1_000,
  extendsMax: 16,
  extendsDepthMax: 8,
} as const;

const patternSchema = z
  .string()
  .min(1)
  .max(500)
  .regex(/^(?:\/|~(?:\/|$)|\.(?:\/|$)|\$REPO(?:\/|$))/, {
    error: 'a path begins with "/", "~/", "./" or "$REPO/"',
  })
  .refine((path) => !/(?:^|\/)\.\.(?:\/|$)|\/\.(?:\/|$)|\/\/|\p{Cc}/u.test(path), {
    error: 'a path has no "..", no "/./", no "//" and no control characters',
  });

const maskSchema = z.strictObject({
  mask: z.string().max(hostRootLimits.masksBytesMax).describe('what stands there instead of the contents'),
});
const levelSchema = z.union([z.enum(pathLevels), maskSchema], {
  error: (issue) =>
    `fs ${JSON.stringify(issue.path?.at(-1))}: a level is ${pathLevels.join(', ')} or {"mask": "text"}`,
});

const workdirShape = z.strictObject({
  source: patternSchema.default('.').describe('default ".": the repository'),
  mode: z.enum(['ro', 'cow', 'rw']).default('cow').describe('cow: what is written waits for `apply`'),
});

const layersRootShape = z.strictObject({
  image: z.string().min(1).max(512).optional().describe('an OCI image'),
  layers: z.array(z.string().min(1).max(255)).max(64).optional().describe('layers, above the image'),
});
const rootSchema = z.union([z.literal('host'), layersRootShape], {
  error: 'root: "host", or {"image": "python:3.12"} or {"layers": ["910-node"]}',
});

const variableSchema = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,254}$/, { error: 'a variable’s name' });
const variablePatternSchema = z.string().regex(/^(?:[A-Za-z_][A-Za-z0-9_]{0,254}\*?|\*)$/, {
  error: 'env.pass: names of variables, or a beginning of names with "*" behind it',
});
const envShape = z.strictObject({
  pass: z.array(variablePatternSchema).max(256).optional().describe('names, `LC_*` for all that begin so'),
  set: z.record(variableSchema, z.string().max(32_768)).optional(),
});

const netShape = policyShape.omit({ allow: true, dns: true }).extend({
  allow: policyShape.shape.allow
    .unwrap()
    .optional()
    .describe('what may be reached; left out: nothing is added'),
  dns: policyShape.shape.dns.unwrap().optional().describe('how a refused name is answered; see network.md'),
});
/** What of `net` a file says: what it leaves out is left out here. */
export interface NetPart {
  readonly allow: PolicySource['allow'];
  readonly deny: PolicySource['deny'];
  readonly ask: PolicySource['allow'];
  readonly dns?: 'refuse' | 'nxdomain';
  readonly ask_timeout_ms?: number;
}
const netSchema = netShape.transform((net, context): NetPart => {
  const checked = policySchema.safeParse({ ...net, allow: net.allow ?? [], dns: net.dns ?? 'refuse' });
  if (!checked.success) {
    for (const { path, message } of checked.error.issues)
      context.issues.push({ code: 'custom', path, message: `net.${message}`, input: net });
    return z.NEVER;
  }
  const { allow, deny, ask = [] } = checked.data;
  return {
    allow: allow.filter((rule) => rule !== 'none'),
    deny,
    ask,
    ...(net.dns !== undefined && { dns: net.dns }),
    ...(net.ask_timeout_ms !== undefined && { ask_timeout_ms: net.ask_timeout_ms }),
  };
});

const hostsSchema = z
  .array(z.string())
  .min(1)
  .max(64)
  .transform((hosts, context): readonly string[] => {
    // One schema says what a secret's host is; a stand-in for the value lets it be asked.
    const asked = ownSecretsSchema.safeParse({ NAME: { value: 'a'.repeat(16), allowed_hosts: hosts } });
    if (asked.success) return asked.data['NAME']?.allowed_hosts ?? [];
    for (const { message } of asked.error.issues)
      context.issues.push({
        code: 'custom',
        message: message.replace('allowed_hosts', 'hosts'),
        input: hosts,
      });
    return z.NEVER;
  });
const secretShape = z.strictObject({
  from: z
    .string()
    .max(4_096)
    .regex(/^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:(?:\/|~\/).+|cmd:.*\S.*)$/, {
      error:
        'secrets: "from" is "env:VARIABLE", "file:/PATH", "file:~/PATH" or "cmd:COMMAND": never the value itself',
    })
    .optional()
    .describe('where its value is read on this machine; left out: a secret of another file gets fewer hosts'),
  hosts: hostsSchema.describe('hosts that get the value'),
  surfaces: z.array(z.enum(secretSurfaces)).min(1).optional().describe('default: headers'),
});

const portSchema = z.int().min(1).max(65_535);
const isPort = (word: string): boolean => /^[1-9]\d{0,4}$/.test(word) && Number(word) <= 65_535;
const publishSchema = z.union(
  [
    portSchema,
    z.string().refine((word) => {
      const [local = '', port = '', ...more] = word.split(':');
      return more.length === 0 && isPort(port) && (local === '0' || isPort(local));
    }),
  ],
  { error: 'ports.publish: a port of the box, or "LOCAL:PORT"; LOCAL 0: a free one' },
);
/** As a file says it: the number alone where both ports are the same. */
export function publishedPort(word: string): string | number {
  return word.includes(':') ? word : Number(word);
}

const portsShape = z.strictObject({
  host: z
    .array(portSchema)
    .max(64)
    .optional()
    .describe('ports of this machine that the box reaches as host.squash.internal'),
  publish: z
    .array(publishSchema)
    .max(64)
    .optional()
    .describe(
      'ports of the box that this machine reaches on 127.0.0.1 while the command line runs: 3000, or "8080:3000" for another one here',
    ),
});

const socketSchema = z
  .string()
  .max(500)
  .regex(/^(?:\/|~\/|ssh-agent(?:=.+)?$|\$SSH_AUTH_SOCK$)/s, {
    error: 'sockets.allow: a path that begins with "/" or "~/", "ssh-agent" or "ssh-agent=KEY"',
  });
const deviceWordSchema = z
  .string()
  .max(500)
  .regex(/^(?:\/dev\/.+|gpu|kvm|fuse)$/, {
    error: 'devices.allow: "gpu", "kvm", "fuse" or a path that begins with "/dev/"',
  });
const socketsShape = z.strictObject({
  allow: z
    .array(socketSchema)
    .max(hostRootLimits.socketsMax)
    .optional()
    .describe(
      'Unix sockets of this machine that the box reaches; "ssh-agent" (or "$SSH_AUTH_SOCK"): to list keys and sign, "ssh-agent=KEY" with one, by fingerprint or comment',
    ),
});

const devicesShape = z.strictObject({
  allow: z
    .array(deviceWordSchema)
    .max(hostRootLimits.devicesMax)
    .optional()
    .describe('devices of this machine that the box opens: "gpu", "kvm", "fuse" or a path below /dev'),
});

const limitsShape = z.strictObject({
  memory_mb: z.int().min(16).max(16_777_216).optional(),
  cpu: z.number().min(0.05).max(4_096).optional().describe('processors'),
  processes: z
    .int()
    .min(processesMin)
    .max(limits.sandboxPidsMax)
    .optional()
    .describe('processes and threads at once'),
  time_s: z.int().min(1).max(604_800).optional().describe('the command is ended after so many seconds'),
});

const forbidShape = z.strictObject({
  rw: z.boolean().optional().describe('rw of other layers becomes cow'),
  net: z.boolean().optional().describe('no other layer’s net.allow and net.ask count'),
  ports: z.boolean().optional().describe('no other layer’s ports count'),
  sockets: z.boolean().optional().describe('no other layer’s sockets count'),
  devices: z.boolean().optional().describe('no other layer’s devices count'),
  nesting: z.boolean().optional().describe('no other layer’s nesting counts'),
  env: z.array(variablePatternSchema).max(256).optional().describe('variables that no other layer passes'),
  secrets: z.array(variablePatternSchema).max(256).optional().describe('secrets that no other layer gives'),
});

export const policyFileShape = z.strictObject({
  $schema: z.string().max(2_048).optional(),
  version: z.literal(1),
  extends: z
    .array(z.string().max(4_096))
    .max(fileLimits.extendsMax)
    .optional()
    .describe(
      `builtin:${bundleNames.join(', builtin:')}; in your own file also paths beside it, "./team.toml"`,
    ),
  root: rootSchema
    .optional()
    .describe(
      '"host" (default): of a box; an image, layers or both: of a sandbox, by squash create and squash run',
    ),
  workdir: workdirShape.optional(),
  fs: z
    .record(patternSchema, levelSchema)
    .refine((rules) => Object.keys(rules).length <= fileLimits.rulesMax, {
      error: `fs: ${fileLimits.rulesMax} rules at most`,
    })
    .optional()
    .describe('path or pattern (`*`, `**`, `?`) and its level; the longest match wins'),
  env: envShape.optional(),
  net: netSchema.optional(),
  secrets: z
    .record(secretNameSchema, secretShape)
    .optional()
    .describe('by the variable that holds the placeholder'),
  ports: portsShape.optional(),
  sockets: socketsShape.optional().describe('never from a project’s file'),
  devices: devicesShape.optional().describe('never from a project’s file'),
  nesting: z
    .boolean()
    .optional()
    .describe(
      'true: programs of the box may make user namespaces, as an agent’s own sandbox does; never from a project’s file. false closes it',
    ),
  limits: limitsShape.optional(),
  caches: z
    .partialRecord(z.enum(cacheNames as [CacheName, ...CacheName[]]), z.enum(cacheModes))
    .optional()
    .describe('cow: this machine’s cache, copy-on-write; private: an empty one'),
  forbid: forbidShape.optional().describe('in the managed file alone: what no other layer may grant'),
});
export type PolicyFile = Readonly<z.infer<typeof policyFileShape>>;

/** What files of other systems, or later versions, say, and this version can't hold. */
const notYet: Readonly<Record<string, string>> = {
  protect: 'protected names',
  audit: 'a file of events',
  ask: 'questions about paths',
  tty: 'the terminal',
};

const shapes: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  '': policyFileShape.shape,
  root: layersRootShape.shape,
  workdir: workdirShape.shape,
  env: envShape.shape,
  net: netShape.shape,
  'secrets.*': secretShape.shape,
  ports: portsShape.shape,
  sockets: socketsShape.shape,
  devices: devicesShape.shape,
  limits: limitsShape.shape,
  forbid: forbidShape.shape,
  'fs.*': maskSchema.shape,
  caches: cachePaths,
};

/** @throws PolicyProblem with everything that is wrong */
export function checkPolicy({ value, lineOf }: PolicyDocument, file: string): PolicyFile {
  const checked = safeParse(policyFileShape, value, { error: (issue) => issueSentence(issue) });
  if (checked.success) return checked.data;
  throw new PolicyProblem(
    checked.error.issues.slice(0, 20).flatMap((issue) => {
      if (issue.code !== 'unrecognized_keys')
        return [`${placeIn(file, lineOf(issue.path))}: ${withPlace(issue.path, issue.message)}`];
      return issue.keys.map(
        (key) =>
          `${placeIn(file, lineOf([...issue.path, key]))}: ${unknownKey(key.slice(0, 64), issue.path)}`,
      );
    }),
  );
}

function unknownKey(key: string, path: readonly PropertyKey[]): string {
  const [section = '', name] = path.map(String);
  const where = path.length === 0 ? '' : ` in "${path.map(String).join('.').slice(0, 128)}"`;
  const full = [...path, key].map(String).join('.');
  const later = Object.hasOwn(notYet, full) ? notYet[full] : undefined;
  if (later !== undefined) return `"${key}" (${later}) is not yet supported`;
  const known = Object.keys(shapes[name === undefined ? section : `${section}.*`] ?? {});
  return `"${key}"${where} is unknown; the nearest known key is "${nearest(key, known)}"`;
}

/** Sentences of schemas of their own do not say where they stand. */
function withPlace(path: readonly PropertyKey[], message: string): string {
  const words = path.map(String).join('.').slice(0, 128);
  const [section = ''] = path.map(String);
  if (section === '' || message.startsWith(section)) return message;
  return `${words}: ${message}`;
}
