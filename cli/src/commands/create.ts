/** `squash create`: makes a sandbox and prints its id. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { limits } from '@squash/contract/limits';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { isUnknownOperation, sandboxesPath, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { durationSeconds } from '../durations.ts';
import { CliFailure, exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { isPolicyFile, underFiledRoot } from '../filed-policy.ts';
import { mountsOf } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';
import { readCommon } from './create-common.ts';
import { noteWarnings } from '../output/warnings.ts';
import { createNative, nativeOnly, showMade, sourceOf } from './create-native.ts';

export async function run(call: Call): Promise<number> {
  const { flags } = call;
  const [id] = call.positionals;
  const own = nativeOnly.filter((name) => flags.isSet(name));
  const isSeed = id !== undefined || flags.isSet('body') || flags.isSet('task');
  if (own.length > 0 && isSeed) {
    const given = id === undefined ? '--body or --task' : 'an id of yours (--name gives a name)';
    throw usageFailure(`--${own[0]} does not go with ${given}; try: squash help create`);
  }
  const hasFile = isPolicyFile(flags.text('policy'));
  if (isSeed && hasFile)
    throw usageFailure(
      'a policy file of boxes goes with no id of yours (--name gives a name), --body or --task',
    );
  if (!isSeed) {
    const rooted = await underFiledRoot(call);
    try {
      const layers = layersOf(rooted.flags.list('layers'));
      showMade(call, await createNative(rooted, sourceOf(rooted.flags, layers)));
      return exitCodes.ok;
    } catch (error) {
      if (own.length > 0 || hasFile || !isUnknownOperation(error)) throw error;
    }
  }
  const info = await createSandbox(call, id);
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
  const { flags } = call;
  const body = { ...readBody(call), ...requestFromFlags(call, layers) };
  const named = id ?? body['id'] ?? newId();
  const mounts = mountsOf(flags);
  const request = { ...body, id: named, ...(mounts.length > 0 && { mounts }) };
  const info = await whileTold('making the sandbox', call, () =>
    call.client.post<SandboxInfo>(sandboxesPath, request),
  );
  const warnings = info.warnings ?? [];
  if (mounts.length > 0) await checkMounted(call, { ...info, warnings });
  if (!call.json) noteWarnings(warnings);
  return info;
}

/** A daemon of an earlier release passes them over, and a sandbox without what was asked for is none that was asked for. */
async function checkMounted({ client }: Pick<Call, 'client'>, { id, warnings }: SandboxInfo): Promise<void> {
  const isPassedOver = warnings.some(
    ({ code, message }) => code === 'unknown_field' && message.startsWith('"mounts"'),
  );
  if (!isPassedOver) return;
  await client.delete(sandboxPath(id));
  throw new CliFailure(
    'daemon_outdated',
    'the daemon that runs is of an earlier release and gives a sandbox with a name of yours no volumes when it is made: squash stop, then squash serve -d',
  );
}

/** As the daemon's own: a name of a host that nobody guesses. */
function newId(): string {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567';
  return `sb${[...randomBytes(16)].map((byte) => letters[byte % letters.length]).join('')}`;
}

/** Only what was given: every default is the daemon's. */
function requestFromFlags(
  { flags }: Pick<Call, 'flags'>,
  layers: readonly string[],
): Record<string, unknown> {
  const names = layersOf(layers);
  const lifetime = durationSeconds(flags, 'lifetime', { min: 0, max: limits.lifetimeSMax });
  return {
    ...(names.length > 0 && { layers: names }),
    ...(flags.isSet('task') && { task: flags.text('task') }),
    ...(lifetime !== undefined && { max_lifetime_s: lifetime }),
    ...readCommon(flags),
  };
}

/** Of `run` too. */
export function layersOf(lists: readonly string[]): readonly string[] {
  const names = lists.flatMap((list) => list.split(','));
  return names.map((name) => name.trim()).filter((name) => name !== '');
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
