/** `squash create`: makes a sandbox and prints its id. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { limits } from '@squash/contract/limits';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { sandboxesPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';
import { readOwnSecrets } from '../own-secrets.ts';
import { readPolicyFile } from '../policy-file.ts';

export async function run(call: Call): Promise<number> {
  const info = await createSandbox(call, call.positionals[0]);
  if (call.json) printJson(info);
  else printLine(info.id);
  return exitCodes.ok;
}

/** Shared with `run`. Warnings go to standard error: a limit that does not hold should be seen. */
export async function createSandbox(
  call: Pick<Call, 'flags' | 'client' | 'json'>,
  id: string | undefined,
  layers: readonly string[] = call.flags.list('layers'),
): Promise<SandboxInfo> {
  const body = { ...readBody(call), ...requestFromFlags(call, layers) };
  const named = id ?? body['id'] ?? `sb-${randomUUID().slice(0, 8)}`;
  const info = await call.client.post<SandboxInfo>(sandboxesPath, { ...body, id: named });
  if (!call.json) {
    for (const warning of info.warnings ?? []) {
      printNote(`squash: warning: ${visible(warning.message)} (${warning.code})`);
    }
  }
  return info;
}

/** Only what was given: every default is the daemon's. */
function requestFromFlags(
  { flags }: Pick<Call, 'flags'>,
  layers: readonly string[],
): Record<string, unknown> {
  const request: Record<string, unknown> = {};
  const names = layers.flatMap((list) => list.split(',')).filter((name) => name.trim() !== '');
  if (names.length > 0) request['layers'] = names.map((name) => name.trim());
  for (const name of ['owner', 'task', 'upstream']) {
    if (flags.isSet(name)) request[name] = flags.text(name);
  }
  if (flags.isSet('cpu')) request['cpu'] = flags.number('cpu', { min: limits.cpuMin, max: limits.cpuMax });
  if (flags.isSet('memory')) {
    request['memory_mb'] = flags.integer('memory', { min: limits.memoryMbMin, max: limits.memoryMbMax });
  }
  if (flags.isSet('lifetime')) {
    request['max_lifetime_s'] = flags.integer('lifetime', { min: 0, max: limits.lifetimeSMax });
  }
  if (flags.isSet('allow-net')) {
    request['allow_net'] = flags
      .list('allow-net')
      .flatMap((list) => list.split(','))
      .map((word) => word.trim());
  }
  if (flags.isSet('policy')) request['policy'] = readPolicyFile(flags.text('policy') ?? '-');
  if (flags.isSet('secret')) {
    const isOwn = (word: string): boolean => word.includes('=');
    const names = flags.list('secret').filter((word) => !isOwn(word));
    // "none" is no variable anybody uses: lower case, as in allow_net.
    const shared = names.flatMap((list) => list.split(',')).filter((name) => name !== 'none');
    const own = flags.list('secret').filter(isOwn);
    if (names.length > 0) request['secrets'] = shared;
    if (own.length > 0) request['own_secrets'] = readOwnSecrets(own);
  }
  return request;
}

function readBody({ flags }: Pick<Call, 'flags'>): Record<string, unknown> {
  const given = flags.isDeclared('body') ? flags.text('body') : undefined;
  if (given === undefined) return {};
  const text =
    given === '-' ? readFileSync(0, 'utf8') : given.startsWith('@') ? readNamed(given.slice(1)) : given;
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw usageFailure('--body must be a JSON object');
  }
  return { ...value };
}

function readNamed(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw usageFailure(`can't read --body @${path}: ${fileProblem(cause)}`);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw usageFailure(`--body is no JSON: ${(cause as Error).message}`);
  }
}
