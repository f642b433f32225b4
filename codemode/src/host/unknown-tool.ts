/**
 * Which tool was meant by a program that called one that does not exist: a model that has guessed a name learns the right one from the error. Engines
 * tell of such a call in words of their own, so the name is read from the line it stands in.
 */
import type { ToolSet } from './tool-set.ts';

/** A line that is longer is generated, not written. */
const lineCharsMax = 2000;
/** `codemode.github.listIssues`, whatever stands around it. */
const dotted = /[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+/g;

/** The sentence to add to the engine's own; undefined where the failure is another. */
export function unknownToolHint(
  failure: { readonly name: string; readonly message: string; readonly line?: number | undefined },
  code: string,
  tools: ToolSet,
): string | undefined {
  if (failure.name !== 'TypeError' || !/not a function|of undefined|is undefined/.test(failure.message))
    return undefined;
  const line = failure.line === undefined ? code : (code.split('\n')[failure.line - 1] ?? '');
  const unknown = [failure.message, line]
    .flatMap((text) => text.slice(0, lineCharsMax).match(dotted) ?? [])
    .find((path) => isUnknown(path, tools));
  if (unknown === undefined) return undefined;
  const nearest = nearestOf(unknown, tools);
  return `there is no tool "${unknown}"${nearest === undefined ? '' : `; the nearest is "${nearest}"`}`;
}

function isUnknown(path: string, { namespaces, entries }: ToolSet): boolean {
  if (!namespaces.includes(path.split('.')[0] ?? '')) return false;
  return !entries.some(
    ({ fullName }) => `${path}.`.startsWith(`${fullName}.`) || fullName.startsWith(`${path}.`),
  );
}

/** By the pairs of letters that two names share: `listIssue` is nearest to `list_issues`. */
function nearestOf(name: string, { entries }: ToolSet): string | undefined {
  const wanted = pairsOf(name);
  let best: string | undefined;
  let bestShare = 0;
  for (const { fullName } of entries) {
    const pairs = pairsOf(fullName);
    let shared = 0;
    for (const pair of pairs) if (wanted.has(pair)) shared += 1;
    const share = shared / (wanted.size + pairs.size);
    if (share > bestShare) [best, bestShare] = [fullName, share];
  }
  return best;
}

function pairsOf(name: string): ReadonlySet<string> {
  const letters = name.toLowerCase().replace(/[^\p{L}\p{N}.]/gu, '');
  const pairs = new Set<string>();
  for (let at = 0; at + 1 < letters.length; at += 1) pairs.add(letters.slice(at, at + 2));
  return pairs;
}
