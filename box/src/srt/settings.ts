/**
 * The text of the Sandbox Runtime's settings as a value. What it passes over in silence is an error here: a key that is unknown, or
 * stands twice, is a rule that somebody believes to hold.
 */
import { issueSentence } from '@squash/contract/issue-sentence';
import { nearest } from '@squash/contract/nearest';
import { z } from 'zod';
import { parseDocument, type PolicyDocument } from '../policy/document.ts';
import { placeIn, PolicyProblem } from '../policy-problem.ts';
import { shapesOf } from './field.ts';
import { credentialFields, filesystemFields, networkFields, otherFields, tlsFields } from './fields.ts';

/** Longer ones are generated, and hold more paths than a box. */
export const settingsBytesMax = 1_048_576;

const settingsSchema = z.strictObject({
  ...shapesOf(otherFields),
  network: z.strictObject(shapesOf(networkFields)),
  filesystem: z.strictObject(shapesOf(filesystemFields)),
  credentials: z.strictObject(shapesOf(credentialFields)).optional(),
});
export type SrtSettings = z.infer<typeof settingsSchema>;

/** What counts where there is no file: no network, nothing to write, everything to read. */
export const defaultSettings: SrtSettings = {
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowWrite: [], denyWrite: [] },
};

/** @throws PolicyProblem with everything that is wrong */
export function parseSettings(text: string, file: string): SrtSettings {
  if (text.trim() === '') throw new PolicyProblem([`${file}: the file is empty`]);
  if (Buffer.byteLength(text) > settingsBytesMax)
    throw new PolicyProblem([`${file}: settings have ${settingsBytesMax} bytes at most`]);
  return checkSettings(parseDocument(text, 'jsonc', file), file);
}

/** @throws PolicyProblem */
export function checkSettings({ value, lineOf }: PolicyDocument, file: string): SrtSettings {
  const checked = settingsSchema.safeParse(value, { error: (issue) => issueSentence(issue) });
  const problems = checked.success ? unreachableWords(checked.data) : issuesOf(checked.error);
  if (problems.length === 0 && checked.success) return checked.data;
  throw new PolicyProblem(
    problems.slice(0, 20).map(({ path, text }) => `${placeIn(file, lineOf(path))}: ${text}`),
  );
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly text: string;
}

function issuesOf({ issues }: z.ZodError): readonly Problem[] {
  return issues.flatMap((issue): readonly Problem[] => {
    if (issue.code !== 'unrecognized_keys') return [{ path: issue.path, text: withPlace(issue) }];
    return issue.keys.map((key) => ({
      path: [...issue.path, key],
      text: unknownKey(key.slice(0, 64), issue.path),
    }));
  });
}

function withPlace({
  path,
  message,
}: {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}): string {
  const [section = ''] = path.map(String);
  return section === '' || message.startsWith(section)
    ? message
    : `${path.map(String).join('.').slice(0, 128)}: ${message}`;
}

const sections: Readonly<Record<string, readonly string[]>> = {
  '': ['network', 'filesystem', 'credentials', ...Object.keys(otherFields)],
  network: Object.keys(networkFields),
  'network.tlsTerminate': Object.keys(tlsFields),
  filesystem: Object.keys(filesystemFields),
  credentials: Object.keys(credentialFields),
};

function unknownKey(key: string, path: readonly PropertyKey[]): string {
  const section = path.map(String).join('.');
  const known = sections[section];
  const where = section === '' ? '' : ` in "${section.slice(0, 128)}"`;
  const hint = known === undefined ? '' : `; the nearest known key is "${nearest(key, known)}"`;
  return `"${key}"${where} is unknown${hint}`;
}

/** What SRT refuses, too: a list of what is allowed that would allow a whole domain of the registries, or everything. */
function unreachableWords({ network, credentials }: SrtSettings): readonly Problem[] {
  const tooWide = network.allowedDomains.flatMap((word, at) =>
    /^\*(?:\.[^.:]+)?(?::\d+)?$/.test(word)
      ? [
          {
            path: ['network', 'allowedDomains', at],
            text: `network.allowedDomains: ${JSON.stringify(word)} is too wide`,
          },
        ]
      : [],
  );
  const uncovered = (
    [
      ['envVars', credentials?.envVars],
      ['files', credentials?.files],
    ] as const
  ).flatMap(([list, entries]) =>
    (entries ?? []).flatMap(({ injectHosts = [] }, at) =>
      injectHosts
        .filter((host) => !isCovered(host, network.allowedDomains))
        .map((host) => ({
          path: ['credentials', list, at, 'injectHosts'],
          text: `credentials.${list}: the host ${JSON.stringify(host.slice(0, 128))} is not in network.allowedDomains`,
        })),
    ),
  );
  return [...tooWide, ...uncovered];
}

function isCovered(host: string, allowed: readonly string[]): boolean {
  const bare = host.replace(/:\d+$/, '');
  return allowed.some((word) => {
    const wide = word.replace(/:\d+$/, '');
    return bare === wide || (wide.startsWith('*.') && bare.endsWith(wide.slice(1)));
  });
}
