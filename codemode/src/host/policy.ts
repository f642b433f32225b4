/** Which tool calls go through, which need a person, which are refused: globs over full names. */
import type { ToolPolicy } from '../types.ts';

export type Verdict = 'allow' | 'ask' | 'deny';

/** Deny wins over ask, ask over allow. With an allow list, what it does not name is refused; without one it is allowed. */
export function judge(policy: ToolPolicy | undefined, tool: string): Verdict {
  if (policy === undefined) return 'allow';
  if (matches(policy.deny, tool)) return 'deny';
  if (matches(policy.ask, tool)) return 'ask';
  return policy.allow === undefined || matches(policy.allow, tool) ? 'allow' : 'deny';
}

/** Those that name none of the tools: written for something else, and no protection. */
export function idleGlobs(globs: readonly string[], tools: readonly string[]): readonly string[] {
  return globs.filter((glob) => !tools.some((tool) => matchesGlob(glob, tool)));
}

function matches(globs: readonly string[] | undefined, tool: string): boolean {
  return globs?.some((glob) => matchesGlob(glob, tool)) ?? false;
}

/** `*` stands for any characters, dots too. Linear in the name for each star: globs may come from a file. */
function matchesGlob(glob: string, name: string): boolean {
  const parts = glob.split('*');
  const first = parts[0] ?? '';
  if (parts.length === 1) return glob === name;
  const last = parts.at(-1) ?? '';
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
