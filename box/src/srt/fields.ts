/** Every field of the Sandbox Runtime's settings, a table for each section, with what becomes of it here. */
import { z } from 'zod';
import type { Fields } from './field.ts';

const listMax = 2_000;
const text = z.string().max(4_096);
const texts = z.array(text).max(listMax);
const port = z.int().min(1).max(65_535);
const isOff = (value: unknown): boolean => value === false || (Array.isArray(value) && value.length === 0);

/** A name, or a pattern unless it is called literal. */
const pathEntry = z.union(
  [text.min(1), z.strictObject({ path: text.min(1), literal: z.boolean().optional() })],
  {
    error: 'an entry is a path, or an object with "path" and "literal"',
  },
);
const paths = z.array(pathEntry).max(listMax);
export type PathEntry = z.infer<typeof pathEntry>;

const hygiene = 'what is done to requests is set by rules of net here: methods, paths and upgrades';
const external = 'connections go through Squash’s own egress process alone';
const macOnly = 'it is for macOS, and does nothing on Linux';
const ownProgram = 'no such program is used here';

export const networkFields = {
  allowedDomains: {
    shape: texts,
    fate: 'mapped',
    note: 'net.allow; programs need no proxy variables, and a name that leads to a private address is refused unless its range is listed too',
  },
  deniedDomains: { shape: texts, fate: 'mapped' },
  deniedDomainReasons: {
    shape: z.record(text, text).optional(),
    fate: 'mapped',
    note: 'the hosts are denied; the program is told the rule, not the reason',
  },
  strictAllowlist: { shape: z.boolean().optional(), fate: 'mapped' },
  deniedResolvedAddresses: { shape: texts.optional(), fate: 'mapped' },
  allowUnixSockets: {
    shape: texts.optional(),
    fate: 'idle',
    note: 'it does nothing on Linux; no socket is opened by it here',
  },
  allowAllUnixSockets: {
    shape: z.boolean().optional(),
    fate: 'mapped',
    note: 'programs may make Unix sockets here in any case; of this machine’s they reach what lies in paths that they see',
  },
  allowLocalBinding: {
    shape: z.boolean().optional(),
    fate: 'idle',
    note: 'on Linux a program may listen on its own loopback in any case; `squash box run -p` publishes a port',
  },
  allowMachLookup: { shape: texts.optional(), fate: 'idle', note: macOnly },
  httpProxyPort: { shape: port.optional(), fate: 'refused', note: external },
  socksProxyPort: { shape: port.optional(), fate: 'refused', note: external },
  mitmProxy: {
    shape: z.strictObject({ socketPath: text, domains: texts }).optional(),
    fate: 'refused',
    note: external,
  },
  parentProxy: {
    shape: z
      .strictObject({ http: text.optional(), https: text.optional(), noProxy: text.optional() })
      .optional(),
    fate: 'refused',
    note: 'a proxy that stands before everything is the daemon’s setting: see network.md',
  },
  tlsTerminate: { shape: z.lazy(() => z.strictObject(tlsShape)).optional(), fate: 'mapped' },
  filterRequest: {
    shape: z.unknown().optional(),
    fate: 'refused',
    note: 'a function can’t be asked about each request; rules of net name methods and paths',
  },
  allowPlaintextHeaderSet: {
    shape: z.unknown().optional(),
    fate: 'refused',
    note: hygiene,
    isHarmless: isOff,
  },
  stripResponseHeaders: { shape: z.unknown().optional(), fate: 'refused', note: hygiene, isHarmless: isOff },
  refuseOpaqueTunnels: { shape: z.unknown().optional(), fate: 'refused', note: hygiene, isHarmless: isOff },
  requireHostMatch: { shape: z.unknown().optional(), fate: 'refused', note: hygiene, isHarmless: isOff },
  ambiguousRequestTarget: {
    shape: z.enum(['refuse', 'asSpelled', 'normalize']).optional(),
    fate: 'refused',
    note: hygiene,
  },
} as const satisfies Fields;

export const tlsFields = {
  caCertPath: {
    shape: text.optional(),
    fate: 'refused',
    note: 'each box has an authority of its own, which its programs trust',
  },
  caKeyPath: {
    shape: text.optional(),
    fate: 'refused',
    note: 'each box has an authority of its own, which its programs trust',
  },
  excludeDomains: {
    shape: texts.optional(),
    fate: 'mapped',
    note: 'only connections to hosts of secrets are read here: all others are left alone as it is',
  },
  extraCaCertPaths: {
    shape: texts.optional(),
    fate: 'refused',
    note: 'the authorities that this machine trusts count',
    isHarmless: isOff,
  },
  maxTunnels: {
    shape: z.int().min(1).optional(),
    fate: 'idle',
    note: 'the egress process has bounds of its own',
  },
  handshakeTimeoutMs: {
    shape: z.int().min(1).optional(),
    fate: 'idle',
    note: 'the egress process has bounds of its own',
  },
} as const satisfies Fields;
const tlsShape = Object.fromEntries(Object.entries(tlsFields).map(([name, { shape }]) => [name, shape])) as {
  [Name in keyof typeof tlsFields]: (typeof tlsFields)[Name]['shape'];
};

export const filesystemFields = {
  disabled: {
    shape: z.boolean().optional(),
    fate: 'refused',
    note: 'there is no box without rules about files',
    isHarmless: isOff,
  },
  denyRead: {
    shape: paths,
    fate: 'mapped',
    note: 'hidden, also where such a file appears later; a pattern is held against the tree when the box starts',
  },
  allowRead: { shape: paths.optional(), fate: 'mapped' },
  allowWrite: { shape: paths, fate: 'mapped' },
  denyWrite: { shape: paths, fate: 'mapped' },
  allowGitConfig: { shape: z.boolean().optional(), fate: 'mapped' },
} as const satisfies Fields;

const credentialMode = z.enum(['deny', 'mask']);
const extractNote = 'a value is put in whole: no part of it is taken out';
const credentialShape = {
  mode: credentialMode,
  extract: z.unknown().optional(),
  onExtractNoMatch: z.enum(['warn', 'deny', 'error']).optional(),
  decode: z.literal('jwt').optional(),
  maskClaims: z.unknown().optional(),
  injectHosts: texts.optional(),
};
/** Of an entry of `files` or `envVars`: what a mask may say beside its hosts. */
export const extractFields = {
  extract: { shape: credentialShape.extract, fate: 'refused', note: extractNote },
  onExtractNoMatch: { shape: credentialShape.onExtractNoMatch, fate: 'refused', note: extractNote },
  decode: { shape: credentialShape.decode, fate: 'refused', note: extractNote },
  maskClaims: { shape: credentialShape.maskClaims, fate: 'refused', note: extractNote },
} as const satisfies Fields;

export const credentialFields = {
  files: {
    shape: z
      .array(
        z.strictObject({ ...credentialShape, path: text.min(1), maskDuplicates: z.boolean().optional() }),
      )
      .max(listMax)
      .optional(),
    fate: 'mapped',
  },
  envVars: {
    shape: z
      .array(z.strictObject({ ...credentialShape, name: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/) }))
      .max(listMax)
      .optional(),
    fate: 'mapped',
  },
  allowPlaintextInject: {
    shape: z.boolean().optional(),
    fate: 'refused',
    note: 'a value goes over TLS only, or to a host that is written with its port',
    isHarmless: isOff,
  },
  awsPairs: {
    shape: z
      .array(
        z.strictObject({ accessKeyIdVar: text, secretAccessKeyVar: text, sessionTokenVar: text.optional() }),
      )
      .max(listMax)
      .optional(),
    fate: 'refused',
    note: 'requests are not signed again',
    isHarmless: isOff,
  },
  sigv4: {
    shape: z
      .strictObject({
        streaming: z.unknown().optional(),
        presigned: z.unknown().optional(),
        sigv4a: z.enum(['deny', 'passthrough']).optional(),
      })
      .optional(),
    fate: 'refused',
    note: 'requests are not signed again',
  },
} as const satisfies Fields;

export const otherFields = {
  ignoreViolations: {
    shape: z.record(text, texts).optional(),
    fate: 'mapped',
    note: 'it leaves lines out of reports and opens nothing; `squash egress` shows all refusals',
  },
  enableWeakerNestedSandbox: {
    shape: z.boolean().optional(),
    fate: 'mapped',
    note: 'a box is never weaker: where it can’t start it refuses and says what to do',
  },
  allowNestedUserNamespaces: {
    shape: z.boolean().optional(),
    fate: 'mapped',
    note: 'programs of the box may make user namespaces; /proc keeps its covers there, so nobody mounts another one',
  },
  enableWeakerNetworkIsolation: { shape: z.boolean().optional(), fate: 'idle', note: macOnly },
  allowAppleEvents: { shape: z.boolean().optional(), fate: 'idle', note: macOnly },
  allowPty: {
    shape: z.boolean().optional(),
    fate: 'idle',
    note: `${macOnly}; a box has a terminal where you have one`,
  },
  mandatoryDenySearchDepth: { shape: z.int().min(1).max(10).optional(), fate: 'mapped' },
  ripgrep: {
    shape: z.strictObject({ command: text, args: texts.optional(), argv0: text.optional() }).optional(),
    fate: 'idle',
    note: ownProgram,
  },
  seccomp: {
    shape: z.strictObject({ applyPath: text.optional(), argv0: text.optional() }).optional(),
    fate: 'idle',
    note: ownProgram,
  },
  bwrapPath: { shape: text.optional(), fate: 'idle', note: ownProgram },
  socatPath: { shape: text.optional(), fate: 'idle', note: ownProgram },
  javaAgentJarPath: {
    shape: text.optional(),
    fate: 'idle',
    note: 'Java needs no agent: the network needs no proxy',
  },
  git: { shape: z.strictObject({ safeDirectories: texts.optional() }).optional(), fate: 'mapped' },
  windows: {
    shape: z.record(z.string(), z.unknown()).optional(),
    fate: 'idle',
    note: 'it is for Windows, and does nothing on Linux',
  },
} as const satisfies Fields;
