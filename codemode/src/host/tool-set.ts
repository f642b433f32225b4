/**
 * The tools of one run as a list: the code's calls come with a number into it, so that no name the code makes up is ever looked up in an
 * object.
 */
import { CodemodeError } from '../errors.ts';
import type { ResolvedProvider, ToolFn, ToolTree } from '../types.ts';

export interface ToolEntry {
  /** `["codemode", "fs", "read"]` */
  readonly path: readonly string[];
  readonly fullName: string;
  readonly call: ToolFn;
}

export interface ToolSet {
  readonly entries: readonly ToolEntry[];
  readonly namespaces: readonly string[];
}

/** More would not fit one frame with their names, nor any prompt. */
const toolsMax = 20_000;
const depthMax = 8;

/** Globals that the kernel or the language owns; a namespace with such a name would hide it. */
const reserved = new Set(
  'console $mport AbortController AbortSignal TextDecoder TextEncoder URL URLSearchParams atob btoa structuredClone setTimeout setInterval clearTimeout clearInterval queueMicrotask text image input global globalThis undefined NaN Infinity eval arguments Object Function Array Number Boolean String Symbol Date Promise RegExp BigInt Map Set WeakMap WeakSet Proxy Iterator ArrayBuffer DataView Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError InternalError JSON Math Reflect Intl isFinite isNaN parseFloat parseInt decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape await break case catch class const continue debugger default delete do else enum export extends false finally for function if implements import in instanceof interface let new null package private protected public return static super switch this throw true try typeof var void while with yield async of get set'.split(
    ' ',
  ),
);

export function isReservedNamespace(name: string): boolean {
  return reserved.has(name);
}

export function isIdentifier(name: string): boolean {
  return /^[A-Za-z_$][\w$]*$/.test(name);
}

/** @throws CodemodeError of kind `config` */
export function toolSetOf(tools: ToolTree | readonly ResolvedProvider[]): ToolSet {
  const providers = isProviders(tools) ? tools : [{ name: 'codemode', fns: tools }];
  const entries: ToolEntry[] = [];
  const namespaces = new Set<string>();
  for (const { name, fns } of providers) {
    if (!isIdentifier(name)) throw config(`Provider name "${name}" is not a valid JavaScript identifier`);
    if (isReservedNamespace(name)) throw config(`Provider name "${name}" is reserved`);
    if (namespaces.has(name)) throw config(`Duplicate provider name "${name}"`);
    namespaces.add(name);
    collect(entries, [name], fns);
  }
  if (entries.length > toolsMax) throw config(`${entries.length} tools, ${toolsMax} at most`);
  return { entries, namespaces: [...namespaces] };
}

function isProviders(tools: ToolTree | readonly ResolvedProvider[]): tools is readonly ResolvedProvider[] {
  return Array.isArray(tools);
}

function collect(entries: ToolEntry[], path: readonly string[], tree: ToolTree): void {
  if (path.length > depthMax) throw config(`tools are nested deeper than ${depthMax}`);
  // Own properties only: what a tree inherits is not a tool.
  for (const [name, member] of Object.entries(tree)) {
    const own = [...path, name];
    if (name === '') throw config('a tool has an empty name');
    if (typeof member === 'function') entries.push({ path: own, fullName: own.join('.'), call: member });
    else if (typeof member === 'object' && member !== null) collect(entries, own, member);
    else throw config(`"${own.join('.')}" is neither a function nor a namespace`);
  }
}

function config(message: string): CodemodeError {
  return new CodemodeError('config', message);
}
