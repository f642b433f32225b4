/** deer's configuration as a policy of boxes, with what is told of each key. Pure. */
import { issueSentence } from '@squash/contract/issue-sentence';
import { nearest } from '@squash/contract/nearest';
import { z } from 'zod';
import { parseDocument } from '../policy/document.ts';
import { PolicyProblem, placeIn } from '../policy-problem.ts';
import { type FieldNote, type Fields, shapesOf, tellFields, type Told } from '../srt/field.ts';
import { fileRules, type PathGrounds } from '../srt/file-rules.ts';
import type { Imported } from '../srt/map.ts';
import { networkRules } from '../srt/network-rules.ts';
import { defaultsFields, networkFields, rootFields, sandboxFields } from './fields.ts';

export const sections = {
  defaults: defaultsFields,
  network: networkFields,
  sandbox: sandboxFields,
} as const satisfies Readonly<Record<string, Fields>>;

const deerSchema = z.strictObject({
  ...shapesOf(rootFields),
  defaults: z.strictObject(shapesOf(defaultsFields)).optional(),
  network: z.strictObject(shapesOf(networkFields)).optional(),
  sandbox: z.strictObject(shapesOf(sandboxFields)).optional(),
});
export type DeerSettings = z.infer<typeof deerSchema>;

/** @throws PolicyProblem with everything that is wrong */
export function parseDeer(text: string, file: string): DeerSettings {
  const { value, lineOf } = parseDocument(text, 'toml', file);
  const checked = deerSchema.safeParse(value, { error: (issue) => issueSentence(issue) });
  if (checked.success) return checked.data;
  throw new PolicyProblem(
    checked.error.issues.slice(0, 20).flatMap((issue) => {
      if (issue.code !== 'unrecognized_keys')
        return [`${placeIn(file, lineOf(issue.path))}: ${issue.message}`];
      return issue.keys.map((key) => {
        const known = Object.keys(
          sections[issue.path[0] as keyof typeof sections] ?? { ...rootFields, ...sections },
        );
        return `${placeIn(file, lineOf([...issue.path, key]))}: "${key.slice(0, 64)}" is unknown; the nearest known key is "${nearest(key, known)}"`;
      });
    }),
  );
}

/** deer's names of what it prepares caches for, of which bun's is none here. */
const ecosystems = ['uv', 'pnpm', 'npm', 'go'] as const;

export function importDeer(settings: DeerSettings, grounds: PathGrounds): Imported {
  const { defaults = {}, network = {}, sandbox = {} } = settings;
  const told: Told = { notes: [], refused: [] };
  tellFields(rootFields, { prefix: '', values: settings }, told);
  for (const name of ['defaults', 'network', 'sandbox'] as const)
    tellFields(sections[name], { prefix: `${name}.`, values: settings[name] ?? {} }, told);
  const renamed = (
    list: readonly FieldNote[],
    names: Readonly<Record<string, string>>,
  ): readonly FieldNote[] => list.map(({ field, text }) => ({ field: names[field] ?? field, text }));
  const net = networkRules({
    allowedDomains: [...(network.allowlist ?? []), ...(network.allowlist_extra ?? [])],
    deniedDomains: [],
  });
  const files = fileRules(
    {
      denyRead: [],
      allowRead: [...(sandbox.read_paths ?? []), ...(sandbox.read_paths_extra ?? [])],
      allowWrite: [...(sandbox.write_paths ?? []), ...(sandbox.write_paths_extra ?? [])],
      denyWrite: [],
    },
    grounds,
    { kept: [], isAllRead: false },
  );
  const names = {
    'network.allowedDomains': 'network.allowlist',
    'filesystem.allowRead': 'sandbox.read_paths',
    'filesystem.allowWrite': 'sandbox.write_paths',
  };
  const pass = [...(sandbox.env_passthrough ?? []), ...(sandbox.env_passthrough_extra ?? [])];
  const disabled = sandbox.ecosystems_disabled ?? [];
  const caches = ecosystems.filter((name) => !disabled.includes(name));
  return {
    policy: {
      version: 1,
      // A box's own rules are the rest: the repository copy-on-write, nothing else of the home.
      fs: Object.fromEntries(files.rules.map(({ written, level }) => [written, level])),
      caches: Object.fromEntries(caches.map((name) => [name, 'cow'])),
      ...(pass.length > 0 && { env: { pass } }),
      net: { allow: net.allow },
      ...(net.hostPorts.length > 0 && { ports: { host: net.hostPorts } }),
      ...(defaults.timeout_ms !== undefined && {
        limits: { time_s: Math.ceil(defaults.timeout_ms / 1_000) },
      }),
    },
    notes: [...told.notes, ...renamed([...net.notes, ...files.notes], names)],
    refused: [...told.refused, ...renamed([...net.refused, ...files.refused], names)],
  };
}
