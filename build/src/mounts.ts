/** What `RUN --mount=…` puts before a command: caches, which are volumes, and secrets, which never come into the sandbox's own files. */
import { createHash } from 'node:crypto';
import { NotFound, type Sandbox, type Squash } from '@squash/sdk';
import type { Instruction } from './dockerfile.ts';
import { reading } from './plan.ts';
import { BuildProblem } from './problem.ts';
import { absolute, type StageState } from './stage.ts';
import { readWord } from './words.ts';

export interface CacheMount {
  readonly volume: string;
  readonly path: string;
  readonly uid: number | undefined;
  readonly gid: number | undefined;
  readonly mode: string | undefined;
}

export interface SecretMount {
  readonly id: string;
  /** Where it is to be seen; undefined: in a variable alone. */
  readonly path: string | undefined;
  readonly variable: string | undefined;
  readonly isRequired: boolean;
  readonly mode: string;
  readonly uid: number;
  readonly gid: number;
}

export interface RunMounts {
  readonly caches: readonly CacheMount[];
  readonly secrets: readonly SecretMount[];
}

/** A tmpfs of every sandbox, which no snapshot and no image holds. */
const secretPlace = '/dev/shm/.squash-build';
const known = {
  cache: ['type', 'id', 'target', 'dst', 'destination', 'sharing', 'uid', 'gid', 'mode'],
  secret: ['type', 'id', 'target', 'dst', 'destination', 'env', 'required', 'mode', 'uid', 'gid'],
};

/** @throws BuildProblem */
export function mountsOf({ flags, line }: Instruction, state: StageState, escape: string): RunMounts {
  const caches: CacheMount[] = [];
  const secrets: SecretMount[] = [];
  const unsupported = (what: string): never => {
    throw new BuildProblem('dockerfile_unsupported', `RUN --mount=${what}`, { line });
  };
  for (const { name, value = '' } of flags) {
    if (name !== 'mount') continue;
    const text = reading(line, () => readWord(value, { escape, valueOf: state.valueOf }));
    const options = new Map(
      text.split(',').map((each): [string, string] => {
        const at = each.indexOf('=');
        return at < 0 ? [each, 'true'] : [each.slice(0, at), each.slice(at + 1)];
      }),
    );
    const type = options.get('type') ?? 'bind';
    if (type !== 'cache' && type !== 'secret')
      return unsupported(
        `type=${type} is not supported: only cache and secret are; what is to be read can be copied`,
      );
    for (const key of options.keys())
      if (!known[type].includes(key)) unsupported(`${key} of type ${type} is not supported`);
    const target = options.get('target') ?? options.get('dst') ?? options.get('destination');
    const id = options.get('id') ?? target;
    const number = (key: string): number | undefined => {
      const digits = options.get(key);
      if (digits === undefined) return undefined;
      if (!/^\d{1,5}$/.test(digits)) unsupported(`${key}=${digits} is no id`);
      return Number(digits);
    };
    const mode = options.get('mode');
    if (mode !== undefined && !/^0?[0-7]{3,4}$/.test(mode)) unsupported(`mode=${mode} is not octal`);
    if (id === undefined) return unsupported(`type=${type} names neither an id nor a target`);
    if (type === 'cache') {
      if (target === undefined) return unsupported('type=cache names no target');
      if (!['shared', 'locked', undefined].includes(options.get('sharing')))
        unsupported(`sharing=${options.get('sharing')} is not supported: one build at a time has a cache`);
      const volume = `build-cache-${createHash('sha256').update(id).digest('hex').slice(0, 16)}`;
      caches.push({
        volume,
        path: absolute(state.workdir, target).replace(/(.)\/$/, '$1'),
        uid: number('uid'),
        gid: number('gid'),
        mode,
      });
    } else {
      const variable = options.get('env');
      const path = target ?? (variable === undefined ? `/run/secrets/${id}` : undefined);
      secrets.push({
        id: options.get('id') ?? id.split('/').at(-1) ?? '',
        path: path === undefined ? undefined : absolute(state.workdir, path),
        variable,
        isRequired: options.get('required') === 'true',
        mode: mode ?? '0400',
        uid: number('uid') ?? 0,
        gid: number('gid') ?? 0,
      });
    }
  }
  return { caches, secrets };
}

/** A cache is made when it is first wanted, and stays. */
export async function haveVolume(squash: Squash, { volume }: CacheMount, signal: AbortSignal): Promise<void> {
  try {
    await squash.volumes.get(volume, { signal });
  } catch (error) {
    if (!(error instanceof NotFound)) throw error;
    await squash.volumes.create({ name: volume, labels: { build: 'cache' }, signal });
  }
}

export async function prepareCache(
  sandbox: Sandbox,
  { path, uid, gid, mode }: CacheMount,
  signal: AbortSignal,
): Promise<void> {
  if (uid === undefined && gid === undefined && mode === undefined) return;
  await sandbox.files.change(path, {
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
    ...(mode !== undefined && { mode }),
    signal,
  });
}

export interface PlacedSecrets {
  readonly env: Readonly<Record<string, string>>;
  /** Before the sandbox becomes an image. */
  readonly takeAway: () => Promise<void>;
}

/** Each secret in the tmpfs, and a link to it where it is to be seen. @throws BuildProblem */
export async function placeSecrets(
  sandbox: Sandbox,
  {
    mounts,
    line,
    values,
  }: {
    readonly mounts: readonly SecretMount[];
    readonly line: number;
    readonly values: Readonly<Record<string, Buffer>>;
  },
  signal: AbortSignal,
): Promise<PlacedSecrets> {
  const env: Record<string, string> = {};
  const made: string[] = [];
  for (const [index, mount] of mounts.entries()) {
    const value = values[mount.id];
    if (value === undefined) {
      if (!mount.isRequired) continue;
      throw new BuildProblem(
        'build_failed',
        `the secret "${mount.id}" is required: give it with --secret id=${mount.id},src=FILE`,
        { line },
      );
    }
    if (mount.variable !== undefined) env[mount.variable] = value.toString('utf8');
    if (mount.path === undefined) continue;
    const file = `${secretPlace}/${index}`;
    await sandbox.files.makeDirectory(secretPlace, { parents: true, mode: '711', signal });
    await sandbox.files.write(file, value, { mode: '400', signal });
    await sandbox.files.change(file, { mode: mount.mode, uid: mount.uid, gid: mount.gid, signal });
    made.push(...(await makeParents(sandbox, mount.path, signal)));
    await sandbox.files.link(mount.path, file, { signal });
    made.push(mount.path);
  }
  const takeAway = async (): Promise<void> => {
    for (const path of made.toReversed()) {
      // A directory that the command has put something into stays, as the command has left it.
      await sandbox.files.remove(path, { signal }).catch(() => undefined);
    }
  };
  return { env, takeAway };
}

/** The directories that were missing, from the top. */
async function makeParents(sandbox: Sandbox, path: string, signal: AbortSignal): Promise<readonly string[]> {
  const missing: string[] = [];
  for (
    let at = parentOf(path);
    at !== '/' && !(await sandbox.files.exists(at, { signal }));
    at = parentOf(at)
  )
    missing.unshift(at);
  for (const each of missing) await sandbox.files.makeDirectory(each, { mode: '755', signal });
  return missing;
}

export function parentOf(path: string): string {
  return path.slice(0, Math.max(1, path.lastIndexOf('/')));
}
