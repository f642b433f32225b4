/** Models wrap programs in a Markdown fence; only a text that is one fence from end to end is unwrapped. */
const fence =
  /^\s*```[ \t]*(?:js|javascript|ts|typescript|tsx|jsx|mjs|mts)?[ \t]*\r?\n([\s\S]*?)\r?\n?```\s*$/i;

/** The text inside and how many lines stood before it. */
export function stripFence(code: string): { readonly code: string; readonly linesBefore: number } {
  const inside = fence.exec(code)?.[1];
  // A second fence inside means prose with programs in it: which one was meant is not ours to guess.
  if (inside === undefined || /^\s*```/m.test(inside)) return { code, linesBefore: 0 };
  const before = code.slice(0, code.indexOf(inside, code.indexOf('```') + 3));
  return { code: inside, linesBefore: before.split('\n').length - 1 };
}
