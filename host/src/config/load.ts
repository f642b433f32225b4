/**
 * Reads the configuration: environment over `.env` in the working directory over defaults.
 *
 * A newcomer would let a wrong variable pass with a warning. All problems are collected and refuse the start
 * together: a daemon that runs with other limits or another token rule than its operator wrote is a hole.
 */
import { accessSync, closeSync, constants, fstatSync, openSync, readFileSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { ownPrefixes, type Setting, type SettingName, settings } from '@squash/contract/config';
import { dataDirectory } from '@squash/contract/data-directory';
import { AppError } from '@squash/contract/errors';
import { nearest } from '@squash/contract/nearest';
import { Secret } from '@squash/base/secret';
import type { Config, ExplainedSetting } from './config.ts';
import { listenProblem, tokenProblem } from './listen.ts';
import { bucketOf, bucketProblem } from './bucket.ts';
import { parseSetting, type SettingValue } from './values.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface LoadedConfig {
  readonly config: Config;
  /** Every variable with its effective value and where that came from; secrets are masked. */
  readonly explained: readonly ExplainedSetting[];
}

/** Where pinned settings came from, which in the process they are pinned for is the environment. For display only. */
const sourcesVariable = 'PINNED_SQUASH_SOURCES';

/** A `.env` larger than this is some other file. */
const dotEnvBytesMax = 65_536;

interface Found {
  readonly setting: Setting;
  readonly text: string;
  readonly source: ExplainedSetting['source'];
}

/** @throws config_invalid, with one line per problem */
export function loadConfig(env: Environment, cwd: string): Config {
  return readConfig(env, cwd, checkOwner).config;
}

/**
 * Every setting's text as it holds in this working directory, for a process that starts in another one: there a
 * `.env`, or its absence, must not change what was read here. Empty means default, whatever a file says.
 */
export function pinnedSettings(env: Environment, cwd: string): Readonly<Record<string, string>> {
  const file = readDotEnv(cwd);
  const sources = settings.map((setting) => `${setting.name}=${find(setting, env, file).source}`);
  return {
    ...Object.fromEntries(settings.map(({ name }) => [name, env[name] ?? file[name] ?? ''])),
    [sourcesVariable]: sources.join(' '),
  };
}

/** The effective values for `squash doctor --config`. @throws config_invalid */
export function explainConfig(env: Environment, cwd: string): readonly ExplainedSetting[] {
  return readConfig(env, cwd).explained;
}

export function readConfig(env: Environment, cwd: string, check?: typeof checkOwner): LoadedConfig {
  const file = readDotEnv(cwd, check);
  const problems = [...unknownVariables(env, 'the environment'), ...unknownVariables(file, '.env')];
  const found = settings.map((setting) => find(setting, env, file));
  const values = new Map<string, SettingValue>();
  for (const each of found) {
    // What has no effect of its own may be there for another program, in whatever form that one takes.
    if (each.setting.completes !== undefined) continue;
    const parsed = parseSetting(each.setting, each.text);
    if (parsed.ok) values.set(each.setting.name, parsed.value);
    else problems.push(`${each.setting.name} ${parsed.problem}`);
    problems.push(...missingPart(each));
  }
  const merged: Environment = Object.fromEntries(found.map((each) => [each.setting.name, each.text]));
  const data = dataDirectory(directoryFacts({ ...env, ...merged }));
  problems.push(...twoDataDirectories(merged, cwd));
  if (problems.length > 0) throw invalid(problems);
  const config = {
    ...assemble(values, resolve(cwd, data.path), cwd),
    s3: bucketOf((name) => merged[name] ?? '', values),
  };
  const refused = [tokenProblem(config), listenProblem(config), bucketProblem(config)].filter(
    (each) => each !== undefined,
  );
  if (refused.length > 0) throw invalid(refused);
  return { config, explained: found.map((each) => explain(sourced(each, env), config)) };
}

function invalid(problems: readonly string[]): AppError {
  return new AppError('config_invalid', `Cannot use the configuration: ${problems.join('; ')}`);
}

/** @param check of the file that is read, opened already: whoever owns the directory could exchange it meanwhile */
function readDotEnv(cwd: string, check?: typeof checkOwner): Environment {
  const path = join(cwd, '.env');
  let file: number | undefined;
  let text: string;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const status = fstatSync(file);
    if (!status.isFile()) return {};
    check?.(path, status.uid);
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (isMissing(error)) return {};
    if (error instanceof AppError) throw error;
    // An unreadable file may hold the token: starting without it would open the API.
    throw new AppError('config_invalid', `Cannot read "${path}": ${(error as Error).message}`, {
      cause: error,
    });
  } finally {
    if (file !== undefined) closeSync(file);
  }
  if (text.length > dotEnvBytesMax) {
    throw new AppError('config_invalid', `Cannot use "${path}": it is larger than ${dotEnvBytesMax} bytes`);
  }
  return parseEnv(text);
}

/** In a directory that others may write to, /tmp say, another user's words must not configure our daemon. */
function checkOwner(path: string, owner: number): void {
  if (owner === 0 || owner === process.geteuid?.()) return;
  throw new AppError(
    'config_invalid',
    `Cannot use "${path}": it belongs to uid ${owner}; remove it or start elsewhere`,
  );
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}

/**
 * Names that are none of the daemon's and may stand beside them: mirrors are the layer builder's, and the original's README has
 * users export the keys of models' vendors under such names.
 */
const others =
  /^SQUASH_(?:MIRROR_[A-Z0-9]+|(?:ANTHROPIC|DEEPSEEK|GEMINI|GROQ|MISTRAL|OPENAI|OPENROUTER)_(?:API_)?KEY)$/;

function unknownVariables(env: Environment, where: string): readonly string[] {
  const names: readonly string[] = settings.map((setting) => setting.name);
  return Object.keys(env)
    .filter((name) => ownPrefixes.some((prefix) => name.startsWith(prefix)))
    .filter((name) => !names.includes(name) && !others.test(name))
    .map((name) => `${name} in ${where} is unknown: did you mean ${nearest(name, names)}?`);
}

/** An empty variable counts as not set, in the environment too: it lets a caller take back what `.env` says. */
function find(setting: Setting, env: Environment, file: Environment): Found {
  const fromEnv = env[setting.name];
  const fromFile = file[setting.name];
  if (fromEnv !== undefined) {
    if (fromEnv === '') return { setting, text: setting.default, source: 'default' };
    return { setting, text: fromEnv, source: 'environment' };
  }
  if (fromFile !== undefined && fromFile !== '') return { setting, text: fromFile, source: '.env' };
  return { setting, text: setting.default, source: 'default' };
}

/** A variable of a missing part may be present as long as it asks for nothing. */
function missingPart(each: Found): readonly string[] {
  const { setting, text } = each;
  if (setting.part === undefined || text === setting.default) return [];
  if (isOffFlag(setting, text)) return [];
  const value = setting.kind.type === 'secret' ? '' : ` (set to "${text}")`;
  return [`${setting.name}${value} needs ${setting.part}, which this Squash does not have: remove it`];
}

function isOffFlag(setting: Setting, text: string): boolean {
  const parsed = parseSetting(setting, text);
  return setting.kind.type === 'flag' && parsed.ok && parsed.value === false;
}

function twoDataDirectories(env: Environment, cwd: string): readonly string[] {
  const one = env['SQUASH_DATA'];
  const other = env['SQUASH_DATA_DIR'];
  if (!one || !other || resolve(cwd, one) === resolve(cwd, other)) return [];
  return [`SQUASH_DATA ("${one}") and SQUASH_DATA_DIR ("${other}") name two directories: remove one`];
}

function directoryFacts(env: Environment) {
  return { env, uid: process.geteuid?.() ?? -1, home: homeDirectory(env), isWritableDirectory };
}

function homeDirectory(env: Environment): string {
  try {
    return userInfo().homedir;
  } catch {
    // A container's user without a row in the password database has only the variable.
    return env['HOME'] ?? '/';
  }
}

function isWritableDirectory(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return statSync(path).isDirectory();
  } catch {
    // Missing or not ours: the rule goes on to the next place.
    return false;
  }
}

const bytesPerMb = 1_048_576;

function assemble(
  values: ReadonlyMap<string, SettingValue>,
  dataDir: string,
  cwd: string,
): Omit<Config, 's3'> {
  const text = (name: SettingName): string => String(values.get(name) ?? '');
  const flag = (name: SettingName): boolean => values.get(name) === true;
  const number = (name: SettingName): number => Number(values.get(name));
  const choice = <T extends string>(name: SettingName): T => text(name) as T;
  const hosts = values.get('SQUASH_ALLOWED_HOSTS');
  const ranges = values.get('SQUASH_EGRESS_ALLOW_CIDRS');
  const webhookRanges = values.get('SQUASH_WEBHOOK_RANGES');
  const resolvers = values.get('SQUASH_EGRESS_RESOLVERS');
  const run = text('SQUASH_RUN');
  const token = text('SQUASH_AUTH_TOKEN');
  return {
    dataDir,
    runDir: run === '' ? join(dataDir, 'run') : resolve(cwd, run),
    backend: text('SQUASH_BACKEND') === 'chroot' ? 'chroot' : 'vm',
    firecracker: firecrackerOf(text, cwd),
    vmAccelerator: choice<Config['vmAccelerator']>('SQUASH_VM_ACCEL'),
    listen: {
      host: text('SQUASH_HOST'),
      port: values.get('SQUASH_PORT') === 'off' ? undefined : number('SQUASH_PORT'),
    },
    authToken: token === '' ? undefined : new Secret(token),
    allowedHosts: Array.isArray(hosts) ? hosts : [],
    isStrictContentType: flag('SQUASH_STRICT_CONTENT_TYPE'),
    previewTlsPort:
      values.get('SQUASH_PREVIEW_TLS_PORT') === 'off' ? undefined : number('SQUASH_PREVIEW_TLS_PORT'),
    previewDomain: text('SQUASH_PREVIEW_DOMAIN') || undefined,
    ssh:
      values.get('SQUASH_SSH_PORT') === 'off'
        ? undefined
        : { host: text('SQUASH_SSH_HOST'), port: number('SQUASH_SSH_PORT') },
    sandboxesMax: number('SQUASH_MAX_SANDBOXES'),
    upperLimitBytes: number('SQUASH_UPPER_LIMIT_MB') * bytesPerMb,
    ceilings: {
      cpuMax: number('SQUASH_MAX_CPU'),
      memoryMbMax: number('SQUASH_MAX_MEMORY_MB'),
      lifetimeSMax: number('SQUASH_MAX_LIFETIME_S'),
    },
    admission: {
      memoryReserveBytes: number('SQUASH_MEMORY_RESERVE_MB') * bytesPerMb,
      memoryPercentMax: number('SQUASH_MEMORY_OVERCOMMIT'),
      cpuPercentMax: number('SQUASH_CPU_OVERCOMMIT'),
      diskPercentMax: number('SQUASH_DISK_OVERCOMMIT'),
    },
    requiresLimits: flag('SQUASH_REQUIRE_LIMITS'),
    offersHostRoot: flag('SQUASH_HOST_ROOT'),
    hostPorts: choice<Config['hostPorts']>('SQUASH_HOST_PORTS'),
    idleExitMs: number('SQUASH_IDLE_EXIT_S') * 1_000,
    upper: choice<Config['upper']>('SQUASH_UPPER'),
    overlay: choice<Config['overlay']>('SQUASH_OVERLAY'),
    ids: choice<Config['ids']>('SQUASH_IDS'),
    ephemeralMs: flag('SQUASH_EPHEMERAL') ? number('SQUASH_EPHEMERAL_INTERVAL') * 1_000 : undefined,
    hungMs: number('SQUASH_HUNG_MS'),
    interceptsTls: flag('SQUASH_PROXY_HTTPS'),
    egressAllowRanges: Array.isArray(ranges) ? ranges : [],
    egressResolvers: Array.isArray(resolvers) ? resolvers : [],
    webhookRanges: Array.isArray(webhookRanges) ? webhookRanges : [],
    registries: registriesOf(values, cwd),
    egressHostsFile:
      text('SQUASH_EGRESS_HOSTS') === '' ? undefined : resolve(cwd, text('SQUASH_EGRESS_HOSTS')),
    log: {
      level: choice<Config['log']['level']>('SQUASH_LOG_LEVEL'),
      format: choice<Config['log']['format']>('SQUASH_LOG_FORMAT'),
    },
  };
}

function firecrackerOf(text: (name: SettingName) => string, cwd: string): Config['firecracker'] {
  const path = text('SQUASH_FIRECRACKER');
  if (path === '') return text('SQUASH_BACKEND') === 'firecracker' ? { path: undefined } : undefined;
  return { path: resolve(cwd, path) };
}

function registriesOf(values: ReadonlyMap<string, SettingValue>, cwd: string): Config['registries'] {
  const file = String(values.get('SQUASH_REGISTRY_AUTH_FILE') ?? '');
  const insecure = values.get('SQUASH_INSECURE_REGISTRIES');
  return {
    authFile: file === '' ? undefined : resolve(cwd, file),
    insecure: Array.isArray(insecure) ? insecure : [],
  };
}

/** With the source that the setting was pinned with, where it was. */
function sourced(each: Found, env: Environment): Found {
  const pinned = new Map((env[sourcesVariable] ?? '').split(' ').map((word) => [word.split('=')[0], word]));
  const source = sources.find((known) => pinned.get(each.setting.name) === `${each.setting.name}=${known}`);
  return source === undefined ? each : { ...each, source };
}

const sources = ['environment', '.env', 'default'] as const;

function explain(each: Found, config: Config): ExplainedSetting {
  const { name, kind, meaning } = each.setting;
  const effective =
    name === 'SQUASH_DATA' ? config.dataDir : name === 'SQUASH_RUN' ? config.runDir : each.text;
  const value = kind.type === 'secret' && each.text !== '' ? '[redacted]' : effective;
  return { name, value, source: each.source, meaning };
}
