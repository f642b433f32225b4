/**
 * Which C file knows which: by `#include`, and by using what another file defines, which a declaration in some
 * third header would hide. Checked against the table of ARCHITECTURE.md, and for circles.
 *
 * `x.c` and `x.h` are one unit, named `folder/x`.
 */
import path from 'node:path';
import type { Findings, SourceFile } from './tree.ts';

/** A row of the table under "Which C file may know which". */
export interface Layer {
  readonly name: string;
  /** Patterns of units. */
  readonly files: readonly string[];
  /** Names of layers above in the table, or single units. A layer's units may always know each other. */
  readonly allowed: readonly string[];
}

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

export function nativeLayers(architecture: string): readonly Layer[] {
  const section = architecture.split('## Which C file may know which')[1]?.split('\n## ')[0] ?? '';
  return section.split('\n').flatMap((line) => {
    const [, name = '', files = '', may = ''] = line.split('|').map((cell) => cell.trim());
    const words = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, word = '']) => word);
    return name.startsWith('`')
      ? [{ name: words(name)[0] ?? '', files: words(files), allowed: words(may) }]
      : [];
  });
}

const inPrograms = /^native\/(boot|call|common|init|launch|relay|tree|vmm)\/[^/]+\.[ch]$/;

function unitOf(file: string): string {
  return file.replace(/^native\//, '').replace(/\.[ch]$/, '');
}

function addTo(graph: Map<string, Set<string>>, unit: string, others: Iterable<string>): void {
  const known = graph.get(unit) ?? new Set();
  for (const other of others) if (other !== unit) known.add(other);
  graph.set(unit, known);
}

export function includesOf(sources: readonly SourceFile[]): Graph {
  const graph = new Map<string, Set<string>>();
  for (const { path: file, text } of sources.filter((source) => inPrograms.test(source.path))) {
    const named = [...text.matchAll(/^[ \t]*#[ \t]*include[ \t]+"([^"]+)"/gm)].map(([, name = '']) => name);
    // The compiler looks beside the file first, then in native/.
    const units = named.map((name) =>
      unitOf(
        name.includes('/') && !name.startsWith('.') ? name : path.posix.join(path.posix.dirname(file), name),
      ),
    );
    addTo(graph, unitOf(file), units);
  }
  return graph;
}

/** What is left is code: comments and texts name functions, too. */
function codeOf(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|^[ \t]*#.*$/gm, ' ');
}

const definition =
  /^(static\s)?(?!(?:typedef|extern|else|return)\b)(?:_Alignas\(\d+\)\s+)?[A-Za-z_][\w \t*]*?\b(\w+)(?:\([^;{}]*\)\s*\{|\s*(?:\[[^\]]*\])*\s*[=;])/gm;

/** Functions and variables that a file defines: its own, and those the linker shows to others. */
function definitionsOf(code: string): {
  readonly own: ReadonlySet<string>;
  readonly shared: readonly string[];
} {
  const all = [...code.matchAll(definition)].map(([, isStatic, name = '']) => ({ isStatic, name }));
  return {
    own: new Set(all.map(({ name }) => name)),
    shared: all.filter(({ isStatic }) => isStatic === undefined).map(({ name }) => name),
  };
}

/** squash-init and squash-launch (with the relay) have functions of the same names. */
function isLinkedWith(unit: string, other: string): boolean {
  const [folder, otherFolder] = [path.dirname(unit), path.dirname(other)];
  return (
    folder === otherFolder || otherFolder === 'common' || (folder === 'launch' && otherFolder === 'relay')
  );
}

/** Who uses what another unit's .c file defines, by name: calls, and functions handed over. */
export function usesOf(sources: readonly SourceFile[]): Graph {
  const files = sources
    .filter((source) => inPrograms.test(source.path))
    .map((source) => ({ unit: unitOf(source.path), path: source.path, code: codeOf(source.text) }));
  const definers = new Map<string, string[]>();
  for (const { unit, code } of files.filter((file) => file.path.endsWith('.c'))) {
    for (const name of definitionsOf(code).shared) definers.set(name, [...(definers.get(name) ?? []), unit]);
  }
  const graph = new Map<string, Set<string>>();
  for (const { unit, code } of files.filter((file) => file.path.endsWith('.c'))) {
    const { own } = definitionsOf(code);
    // Neither members of structs nor their names.
    const words = new Set(
      [...code.matchAll(/(?<![\w.]|->|\b(?:struct|enum|union) )[A-Za-z_]\w*/g)].map(([word]) => word),
    );
    const used = [...words].filter((word) => !own.has(word)).flatMap((word) => definers.get(word) ?? []);
    addTo(
      graph,
      unit,
      used.filter((other) => isLinkedWith(unit, other)),
    );
  }
  return graph;
}

/** A unit that comes back to itself, with the way there; one finding for each unit that lies on a circle. */
export function checkCircles(graph: Graph, verb: string): Findings {
  const findings: string[] = [];
  for (const start of graph.keys()) {
    const cameFrom = new Map<string, string>();
    const waiting = [start];
    for (let unit = waiting.shift(); unit !== undefined && !cameFrom.has(start); unit = waiting.shift()) {
      for (const next of graph.get(unit) ?? []) {
        if (cameFrom.has(next)) continue;
        cameFrom.set(next, unit);
        waiting.push(next);
      }
    }
    let at = cameFrom.get(start);
    if (at === undefined) continue;
    const way = [start];
    for (; at !== undefined && at !== start; at = cameFrom.get(at)) way.unshift(at);
    findings.push(`native/${start} ${verb} itself: ${[start, ...way].join(' → ')}`);
  }
  return findings;
}

function layerOf(layers: readonly Layer[], unit: string): readonly Layer[] {
  return layers.filter((layer) => layer.files.some((pattern) => path.matchesGlob(unit, pattern)));
}

/** The table itself: each file in one row, each row built on rows above it only. */
function checkTable(units: Iterable<string>, layers: readonly Layer[]): Findings {
  const findings: string[] = [];
  for (const unit of units) {
    const { length } = layerOf(layers, unit);
    if (length !== 1) findings.push(`native/${unit}: is in ${length} rows of the table of C files`);
  }
  for (const [index, layer] of layers.entries()) {
    const above = layers.slice(0, index);
    for (const entry of layer.allowed) {
      if (!above.some((one) => one.name === entry) && layerOf(above, entry).length === 0)
        findings.push(`row ${layer.name} may know ${entry}, which is in no row above it`);
    }
  }
  return findings;
}

export function checkLayers(graphs: readonly Graph[], layers: readonly Layer[]): Findings {
  const findings = new Set(checkTable(new Set(graphs.flatMap((graph) => [...graph.keys()])), layers));
  for (const [unit, known] of graphs.flatMap((graph) => [...graph])) {
    const [own] = layerOf(layers, unit);
    for (const other of own === undefined ? [] : known) {
      const [its] = layerOf(layers, other);
      const isAllowed =
        its === own || own?.allowed.some((entry) => entry === its?.name || entry === other) === true;
      if (!isAllowed) findings.add(`native/${unit}: may not know ${other} (row ${own?.name ?? ''})`);
    }
  }
  return [...findings];
}
