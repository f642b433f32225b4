/** Settings of the Sandbox Runtime as a policy of boxes, with what is told of each field. Pure. */
import { isPassedByDefault } from '../environment.ts';
import type { PolicyText } from '../policy/policy-text.ts';
import { type FieldNote, tellFields, type Told } from './field.ts';
import { filesystemFields, networkFields, otherFields, tlsFields } from './fields.ts';
import { type FileRule, fileRules, type PathGrounds } from './file-rules.ts';
import { networkRules } from './network-rules.ts';
import { secretRules } from './secret-rules.ts';
import type { SrtSettings } from './settings.ts';

export interface Mapped {
  readonly fs: readonly FileRule[];
  readonly net: { readonly allow: readonly string[]; readonly deny: readonly string[] };
  readonly hostPorts: readonly number[];
  readonly secrets: ReadonlyMap<string, readonly string[]>;
  /** Variables that the command does not get. */
  readonly absent: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly nesting: boolean;
  readonly notes: readonly FieldNote[];
  readonly refused: readonly FieldNote[];
}

export function mapSettings(settings: SrtSettings, grounds: PathGrounds, kept: readonly string[]): Mapped {
  const told: Told = { notes: [], refused: [] };
  tellFields(networkFields, { prefix: 'network.', values: settings.network }, told);
  tellFields(
    tlsFields,
    { prefix: 'network.tlsTerminate.', values: settings.network.tlsTerminate ?? {} },
    told,
  );
  tellFields(filesystemFields, { prefix: 'filesystem.', values: settings.filesystem }, told);
  tellFields(otherFields, { prefix: '', values: settings }, told);
  const net = networkRules(settings.network);
  const secrets = secretRules(settings.credentials, net.allow);
  const hidden = secrets.hiddenFiles.map((path) => ({ path, literal: true }));
  const filesystem = { ...settings.filesystem, denyRead: [...settings.filesystem.denyRead, ...hidden] };
  const files = fileRules(filesystem, grounds, { kept, isAllRead: true });
  const left = new Set([...secrets.secrets.values()].flat());
  for (const host of settings.network.tlsTerminate?.excludeDomains ?? []) {
    if (left.has(host))
      told.refused.push({
        field: 'network.tlsTerminate.excludeDomains',
        text: `${JSON.stringify(host.slice(0, 256))}: a secret goes to it, so its connections are read`,
      });
  }
  return {
    fs: files.rules,
    net,
    hostPorts: net.hostPorts,
    secrets: secrets.secrets,
    absent: secrets.absent,
    nesting: settings.allowNestedUserNamespaces === true,
    env: gitVariables(settings.git?.safeDirectories ?? []),
    notes: [...told.notes, ...net.notes, ...secrets.notes, ...files.notes],
    refused: [...told.refused, ...net.refused, ...secrets.refused, ...files.refused],
  };
}

/** As git takes configuration from an environment. */
function gitVariables(directories: readonly string[]): Readonly<Record<string, string>> {
  if (directories.length === 0) return {};
  const pairs = directories.flatMap((directory, at) => [
    [`GIT_CONFIG_KEY_${at}`, 'safe.directory'],
    [`GIT_CONFIG_VALUE_${at}`, directory],
  ]);
  return { GIT_CONFIG_COUNT: String(directories.length), ...Object.fromEntries(pairs) };
}

/** What a policy file says that comes of it. @param as how its paths are written */
export function policyOf(
  { fs, net, hostPorts, secrets, env, nesting }: Mapped,
  as: 'written' | 'path',
): PolicyText & { readonly fs: Readonly<Record<string, string>> } {
  return {
    version: 1,
    fs: Object.fromEntries(fs.map((rule) => [rule[as], rule.level])),
    ...(Object.keys(env).length > 0 && { env: { set: env } }),
    net: { allow: net.allow, deny: net.deny },
    ...(secrets.size > 0 && {
      secrets: Object.fromEntries(
        [...secrets].map(([name, hosts]) => [name, { from: `env:${name}`, hosts }]),
      ),
    }),
    ...(hostPorts.length > 0 && { ports: { host: hostPorts } }),
    ...(nesting && { nesting: true }),
  };
}

export interface Imported {
  readonly policy: PolicyText;
  readonly notes: readonly FieldNote[];
  readonly refused: readonly FieldNote[];
}

/** As a policy file of one's own, which is there for longer than one command. */
export function importSrt(settings: SrtSettings, grounds: PathGrounds): Imported {
  const mapped = mapSettings(settings, grounds, []);
  const isHereWritten = mapped.fs.some(({ written, level }) => written === '.' && level === 'rw');
  const shared = mapped.absent.filter(isPassedByDefault).map((name) => ({
    field: 'credentials.envVars',
    text: `${name}: every box gets it`,
  }));
  const policy = policyOf(mapped, 'written');
  return {
    policy: {
      ...policy,
      fs: {
        ...(isHereWritten && Object.fromEntries(keptHere(settings).map((name) => [`./${name}`, 'ro']))),
        ...policy.fs,
      },
    },
    notes: [
      ...mapped.notes,
      {
        field: 'filesystem',
        text: '"." is the repository here, and the directory where srt is started there; ~/.ssh and its like stay closed, /tmp is the box’s own, settings of agents are copy-on-write',
      },
      {
        field: 'credentials',
        text: 'variables: a box gets those of its list; [env] pass = ["*"] passes all but those that look like credentials',
      },
    ],
    refused: [...mapped.refused, ...shared],
  };
}

function keptHere({ filesystem: { allowGitConfig } }: SrtSettings): readonly string[] {
  return keptNames.filter((name) => name !== '.git/config' || allowGitConfig !== true);
}

/** Names in a directory that may be written which stay read-only: SRT's own list, and what leads git elsewhere. */
export const keptNames: readonly string[] = [
  '.git/hooks',
  '.git/config',
  '.git/config.worktree',
  '.git/commondir',
  '.git/info/attributes',
  ...'.gitconfig .gitmodules .bashrc .bash_profile .zshrc .zprofile .profile .ripgreprc .mcp.json'.split(' '),
  ...'.vscode .idea .claude/commands .claude/agents'.split(' '),
];
