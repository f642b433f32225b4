/**
 * The import table of ARCHITECTURE.md, held against the imports themselves. The table in the document is the
 * rule: there is no second copy of it here.
 */
import path from 'node:path';
import type { Findings, SourceFile } from './tree.ts';

export interface ImportRule {
  /** Folder (or file) the rule speaks of, without a trailing slash or star. */
  readonly folder: string;
  /** Prefixes it may import from, relative to the root; `undefined` means everything. */
  readonly allowed: readonly string[] | undefined;
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
      const allowed =
        may === 'everything'
          ? undefined
          : [...may.matchAll(/`([^`]+)`|zod/g)].map(([word, code]) => code ?? word);
      rules.push({ folder: folder.replace(/\/\*?$/, ''), allowed });
    }
  }
  return rules;
}

/** Turns an import specifier into a path in the tree, `node:`, or a package's name. */
export function importTarget(file: string, specifier: string): string {
  if (specifier.startsWith('.')) return path.posix.join(path.posix.dirname(file), specifier);
  if (specifier.startsWith('#')) return `host/src/${specifier.slice(1)}`;
  if (specifier.startsWith('@squash/contract')) return 'contract/';
  // These packages export one folder each, by its name.
  const [, part, rest] = /^@squash\/(host|egress)\/(.+)$/.exec(specifier) ?? [];
  if (part !== undefined) return `${part}/src/${rest}`;
  if (specifier.startsWith('@squash/codemode')) return 'codemode/';
  return specifier;
}

function isAllowed(target: string, folder: string, allowed: readonly string[]): boolean {
  if (target.startsWith(`${folder}/`) || target === folder || target.startsWith('node:')) return true;
  return allowed.some((entry) => {
    if (entry === 'node:' || entry === 'node:sqlite') return target.startsWith('node:');
    const place = /^(contract|codemode)\b/.test(entry) ? entry.replace(/\/$/, '') : `host/src/${entry}`;
    return (
      target === entry || target === place || target.startsWith(`${place}/`) || target.startsWith(`${entry}/`)
    );
  });
}

const importPattern =
  /(?:^|\n)\s*(?:import|export)\s(?:[^;'"]*?\sfrom\s)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)/g;

/** Packages are the manifests' matter, so only imports that stay in the tree are judged. */
export function checkImports(sources: readonly SourceFile[], rules: readonly ImportRule[]): Findings {
  const findings: string[] = [];
  for (const source of sources) {
    if (source.path.endsWith('.test.ts')) continue;
    const rule = rules
      .filter((one) => source.path === one.folder || source.path.startsWith(`${one.folder}/`))
      .sort((one, other) => other.folder.length - one.folder.length)[0];
    if (rule === undefined) {
      if (/^(host|egress|contract|codemode|cli|images)\//.test(source.path))
        findings.push(`${source.path}: its folder is not in the import table`);
      continue;
    }
    if (rule.allowed === undefined) continue;
    for (const [, from, dynamic] of source.text.matchAll(importPattern)) {
      const target = importTarget(source.path, from ?? dynamic ?? '');
      const inTree =
        target.includes('/') &&
        /^(host|egress|contract|codemode|cli|images|tools|tests|bench)\//.test(target);
      if (inTree && !isAllowed(target, rule.folder, rule.allowed)) {
        findings.push(
          `${source.path}: may not import ${target} (${rule.folder} may import ${rule.allowed.join(', ')})`,
        );
      }
    }
  }
  return findings;
}
