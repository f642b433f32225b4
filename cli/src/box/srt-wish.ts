/** What `squash srt` asks for: settings of the Sandbox Runtime, read into a box that is removed behind its command. */
import { isDirectory, canonical } from '@squash/box/host-paths';
import { looksSecret, passedVariables } from '@squash/box/environment';
import { levelAt } from '@squash/box/levels';
import { absentNames, keptBelow } from '@squash/box/srt/kept';
import { type Mapped, mapSettings, policyOf } from '@squash/box/srt/map';
import type { SrtSettings } from '@squash/box/srt/settings';
import type { PathLevel } from '@squash/contract/path-levels';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isatty } from 'node:tty';
import { CliFailure, exitCodes } from '../failure.ts';
import { visible } from '../output/print.ts';
import type { BoxWish } from './box-wish.ts';
import { ownUser } from './daemon.ts';
import { asPolicyFailure, policyAlone } from './policy.ts';
import { underResolution } from './under-policy.ts';

export interface SrtWish {
  readonly wish: BoxWish;
  readonly mapped: Mapped;
  /** Names that git and others obey, that could be made: none of them is there now. */
  readonly absent: readonly string[];
}

/** @throws policy_refused with every field that can't be had */
export async function srtWish(
  settings: SrtSettings,
  { argv, asks }: { readonly argv: readonly string[]; readonly asks: boolean },
): Promise<SrtWish> {
  const mapped = await mappedHere(settings);
  const fs = srtPaths(mapped);
  const resolution = await policyAlone({
    ...policyOf(withoutUnset(mapped), 'path'),
    ...networkOf(mapped, asks),
    fs: Object.fromEntries(fs),
  });
  const user = ownUser();
  const rules = { paths: {}, repository: undefined, home: user.home, workdir: process.cwd() };
  const wish: BoxWish = {
    rules,
    argv,
    env: variables(mapped),
    tty: isatty(0) && isatty(1),
    timeoutMs: undefined,
    branch: undefined,
    sockets: { paths: [], agent: undefined },
    devices: [],
    publish: [],
    keep: false,
    remove: true,
    detach: false,
    create: {
      from: {
        host: {
          paths: {},
          user: { name: user.name, home: canonical(user.home) ?? user.home, shell: user.shell },
          when_unused: 'destroy',
        },
      },
      env: passedVariables(process.env),
      secrets: [],
    },
  };
  const roots = [...fs].filter(([path, level]) => level === 'rw' && isDirectory(path)).map(([path]) => path);
  return {
    wish: await asPolicyFailure(async () => await underResolution(wish, resolution)),
    mapped,
    absent: roots.flatMap(absentNames),
  };
}

/** @throws policy_refused */
export async function mappedHere(settings: SrtSettings): Promise<Mapped> {
  const { filesystem, mandatoryDenySearchDepth: depth = 3 } = settings;
  const cwd = process.cwd();
  const home = homedir();
  const grounds = { home: canonical(home) ?? home, cwd, ownHome: ownUser().home };
  const allowGitConfig = filesystem.allowGitConfig === true;
  const kept = await asPolicyFailure(async () =>
    mapSettings(settings, grounds, [])
      .fs.filter(({ path, level }) => level === 'rw' && isDirectory(path))
      .flatMap(({ path }) => keptBelow(path, { depth: path === cwd ? depth : 1, allowGitConfig })),
  );
  const mapped = mapSettings(settings, grounds, kept);
  if (mapped.refused.length === 0) return mapped;
  const lines = mapped.refused.map(({ field, text }) => visible(`${field}: ${text}`));
  throw new CliFailure(
    'policy_refused',
    `nothing is run, for the settings ask for what can’t be had here:\n${lines.join('\n')}`,
    exitCodes.failed,
  );
}

/** @param asks somebody answers for hosts that no list names */
export function networkOf(mapped: Mapped, asks: boolean) {
  const { net, hostPorts } = mapped;
  return {
    version: 1,
    net: { allow: net.allow, deny: net.deny, ...(asks && { ask: ['*'] }) },
    ...(hostPorts.length > 0 && { ports: { host: hostPorts } }),
  };
}

/** What SRT lets every command write, as far as it is there: here what is written stays in the box. */
const alwaysWritten = ['.npm/_logs', '.claude/debug'];

function srtPaths({ fs }: Mapped): ReadonlyMap<string, PathLevel> {
  const paths = new Map<string, PathLevel>(fs.map(({ path, level }) => [path, level]));
  for (const name of alwaysWritten) {
    const path = join(homedir(), name);
    if (levelAt(paths, path) === 'ro' && canonical(path) === path && isDirectory(path))
      paths.set(path, 'cow');
  }
  return paths;
}

/** A variable that is not set has no value to hide. */
function withoutUnset(mapped: Mapped): Mapped {
  const set = [...mapped.secrets].filter(([name]) => process.env[name] !== undefined);
  return { ...mapped, secrets: new Map(set) };
}

/** They would lead to a proxy that is none of the box. */
const proxyNames = /^(?:(?:https?|all|no|ftp|rsync|grpc)_proxy|docker_https?_proxy)$/i;

/** All of ours, as SRT's users expect, but for what looks like a credential or is one by the settings. */
function variables({ absent, secrets, env }: Mapped): Readonly<Record<string, string>> {
  const left = new Set([...absent, ...secrets.keys(), 'TMPDIR']);
  const passed = Object.entries(process.env).flatMap(([name, value]) =>
    value !== undefined &&
    /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) &&
    !left.has(name) &&
    !proxyNames.test(name) &&
    !looksSecret(name, value)
      ? [[name, value]]
      : [],
  );
  const { PATH: path = '/usr/bin:/bin' } = passedVariables(process.env);
  return { ...Object.fromEntries(passed), ...env, PATH: path, TMPDIR: '/tmp', SANDBOX_RUNTIME: '1' };
}
