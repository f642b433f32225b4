/**
 * The import table of ARCHITECTURE.md, held against the imports themselves. The table in the document is the
 * rule: there is no second copy of it here.
 */
import path from 'node:path';
import type { Findings, SourceFile } from './tree.ts';

export interface ImportRule {
  /** Folder (or file) the rule speaks of, without a trailing slash or star. */
  readonly folder: string;
  /** Workspaces, or prefixes below the `src/` of the folder's own workspace. */
  readonly allowed: readonly string[];
}

/** Reads the table under "Who may import whom". */
export function importRules(architecture: string): readonly ImportRule[] {
  const section = architecture.split('## Who may import whom')[1]?.split('\n## ')[0] ?? '';
  const rules: ImportRule[] = [];
  for (const line of section.split('\n')) {
    const cells = line.split('|').map((cell) => cell.trim());
    if (cells.length !== 4 || !cells[1]?.startsWith('`')) continue;
    const may = cells[2] ?? '';
    for (const [, folder = ''] of cells[1].matchAll(/`([^`]+)`/g)) {
      const allowed = [...may.matchAll(/`([^`]+)`|zod/g)].map(([word, code]) => code ?? word);
      rules.push({ folder: folder.replace(/\/\*?$/, ''), allowed });
    }
  }
  return rules;
}

/** Turns an import specifier into a path in the tree, `node:`, or a package's name. */
export function importTarget(file: string, specifier: string): string {
  if (specifier.startsWith('.')) return path.posix.join(path.posix.dirname(file), specifier);
  if (specifier.startsWith('#')) return `host/src/${specifier.slice(1)}`;
  // Each package exports its folder `src`, by name.
  const [, workspace, rest = ''] = /^@squash\/(\w+)(?:\/(.+))?$/.exec(specifier) ?? [];
  return workspace === undefined ? specifier : `${workspace}/src/${rest}`;
}

const workspaces = [
  'base',
  'contract',
  'policy',
  'installation',
  'groups',
  'host',
  'egress',
  'codemode',
  'certificate',
  'cli',
  'sdk',
  'box',
  'build',
  'mcp',
  'computesdk',
];
const trees = [...workspaces, 'images', 'tools', 'tests', 'bench'];

function isIn(target: string, place: string): boolean {
  return target === place || target.startsWith(`${place}/`);
}

function isAllowed(target: string, { folder, allowed }: ImportRule): boolean {
  if (isIn(target, folder)) return true;
  return allowed.some((entry) =>
    isIn(target, workspaces.includes(entry) ? entry : `${folder.split('/')[0]}/src/${entry}`),
  );
}

const importPattern =
  /(?:^|\n)\s*(?:import|export)\s(?:[^;'"]*?\sfrom\s)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)/g;

/** Packages are the manifests' matter, so only imports that stay in the tree are judged; tests may import more. */
export function checkImports(sources: readonly SourceFile[], rules: readonly ImportRule[]): Findings {
  const findings: string[] = [];
  for (const source of sources) {
    const targets = [...source.text.matchAll(importPattern)].map(
      ([, from, dynamic]) => from ?? dynamic ?? '',
    );
    findings.push(...intrusions(source.path, targets));
    if (source.path.endsWith('.test.ts')) continue;
    const rule = rules
      .filter((one) => isIn(source.path, one.folder))
      .sort((one, other) => other.folder.length - one.folder.length)[0];
    if (rule === undefined) {
      if ([...workspaces, 'images'].some((name) => isIn(source.path, name)))
        findings.push(`${source.path}: its folder is not in the import table`);
      continue;
    }
    for (const target of targets.map((specifier) => importTarget(source.path, specifier))) {
      if (trees.some((name) => target.startsWith(`${name}/`)) && !isAllowed(target, rule)) {
        findings.push(
          `${source.path}: may not import ${target} (${rule.folder} may import ${rule.allowed.join(', ')})`,
        );
      }
    }
  }
  return findings;
}

/** Paths that lead from one workspace into another's inside. */
function intrusions(file: string, specifiers: readonly string[]): Findings {
  const [home = ''] = file.split('/');
  if (!workspaces.includes(home)) return [];
  return specifiers
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => importTarget(file, specifier))
    .filter((target) => workspaces.some((name) => name !== home && isIn(target, name)))
    .map((target) => `${file}: reaches into ${target}; what a workspace exports is imported by its name`);
}
