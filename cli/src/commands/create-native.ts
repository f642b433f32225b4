/** Makes a sandbox whose id the daemon makes: of `squash create` without an id, and of `squash fork`. */
import { limits } from '@squash/contract/limits';
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import type { Flags } from '../arguments.ts';
import { nativeSandboxesPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { durationSeconds } from '../durations.ts';
import { usageFailure } from '../failure.ts';
import { filedFields, type FiledFields, isPolicyFile } from '../filed-policy.ts';
import { imageForCreate } from '../images.ts';
import { labelsOf } from '../label-words.ts';
import { mountsOf } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';
import { noteWarnings } from '../output/warnings.ts';
import { readCommon } from './create-common.ts';
import { readEnvironment } from './exec-options.ts';

/** Options that a sandbox with an id of the caller's can't have. */
export const nativeOnly = [
  'name',
  'label',
  'env',
  'idle',
  'on-timeout',
  'from',
  'with-memory',
  'image',
] as const;

export type Source =
  | { readonly layers: readonly string[] }
  | { readonly sandbox: string; readonly snapshot?: string };

export async function createNative(
  { flags, client, json }: Pick<Call, 'flags' | 'client' | 'json'>,
  from: Source | undefined,
): Promise<SandboxRecord> {
  const file = flags.isDeclared('policy') ? flags.text('policy') : undefined;
  const filed = isPolicyFile(file) ? await filedFields(file) : undefined;
  const { allow_net: allow, ...asked } = readCommon(flags, filed === undefined ? [] : ['policy']);
  const common = filed === undefined ? asked : underFile(asked, filed);
  const lifetime = durationSeconds(flags, 'lifetime', { min: 0, max: limits.lifetimeSMax });
  // `run` has not all of them.
  const isGiven = (name: string): boolean => flags.isDeclared(name) && flags.isSet(name);
  const idleRange = { min: limits.idleTimeoutSMin, max: limits.lifetimeSMax };
  const idle = isGiven('idle') ? durationSeconds(flags, 'idle', idleRange) : undefined;
  if (allow !== undefined && common['policy'] !== undefined)
    throw usageFailure('--allow-net and --policy exclude each other');
  if (isGiven('with-memory') && (from === undefined || 'layers' in from))
    throw usageFailure('--with-memory needs --from');
  const mounts = [...(filed?.mounts ?? []), ...mountsOf(flags)];
  const image = flags.isDeclared('image') ? flags.text('image') : undefined;
  if (image !== undefined) {
    if (from !== undefined && 'sandbox' in from)
      throw usageFailure('--from and --image exclude each other: a sandbox’s files are on its own image');
    await imageForCreate(client, image);
  }
  const label = from !== undefined && 'sandbox' in from ? `forking ${from.sandbox}` : 'making the sandbox';
  const request = {
    ...common,
    ...(allow === undefined ? {} : { policy: { allow } }),
    ...(from === undefined ? {} : { from }),
    ...(isGiven('with-memory') && { memory: true }),
    ...(image !== undefined && { image }),
    ...(mounts.length > 0 && { mounts }),
    ...(isGiven('name') && { name: flags.text('name') }),
    ...(isGiven('label') && { labels: labelsOf(flags) }),
    ...((filed !== undefined || flags.isSet('env')) && {
      env: { ...filed?.env, ...(flags.isSet('env') && readEnvironment(flags)) },
    }),
    ...(lifetime !== undefined && lifetime > 0 && { lifetime_s: lifetime }),
    ...(idle !== undefined && idle > 0 && { idle_timeout_s: idle }),
    ...(isGiven('on-timeout') && { on_timeout: flags.text('on-timeout') }),
  };
  return await whileTold(label, { json }, () => client.post<SandboxRecord>(nativeSandboxesPath, request));
}

/** Of limits the least, as everywhere; of secrets the options' own. */
function underFile(
  asked: Readonly<Record<string, unknown>>,
  { policy, cpu, memory_mb, processes_max, own_secrets }: FiledFields,
): Record<string, unknown> {
  const least = (name: 'cpu' | 'memory_mb', limit: number | undefined): object => {
    const given = asked[name];
    const values = [given, limit].filter((value) => typeof value === 'number');
    return values.length === 0 ? {} : { [name]: Math.min(...values) };
  };
  const given = asked['own_secrets'];
  const secrets = { ...own_secrets, ...(typeof given === 'object' && given) };
  return {
    ...asked,
    policy,
    ...least('cpu', cpu),
    ...least('memory_mb', memory_mb),
    ...(processes_max !== undefined && { processes_max }),
    ...(Object.keys(secrets).length > 0 && { own_secrets: secrets }),
  };
}

/** `ID` or `ID:LABEL`; neither has a colon of its own. */
export function sourceOf(flags: Flags, layers: readonly string[]): Source | undefined {
  const text = flags.isDeclared('from') ? flags.text('from') : undefined;
  if (text === undefined) return layers.length > 0 ? { layers } : undefined;
  if (layers.length > 0) throw usageFailure('--from and --layers exclude each other');
  const [sandbox = '', snapshot] = text.split(':', 2);
  return snapshot === undefined ? { sandbox } : { sandbox, snapshot };
}

export function showMade({ json }: Pick<Call, 'json'>, made: SandboxRecord): void {
  if (json) return printJson(made);
  noteWarnings(made.warnings);
  printLine(made.id);
}
