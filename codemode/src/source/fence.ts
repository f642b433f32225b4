/**
 * Models wrap programs in a Markdown fence; only a text that is one fence from end to end is unwrapped. Line by line: an expression over the whole
 * text would go back and forth in one that is all blanks.
 */
const opening = /^```[ \t]*(?:(?:js|javascript|ts|typescript|tsx|jsx|mjs|mts)[ \t]*)?\r?$/i;

/** The text inside and how many lines stood before it. */
export function stripFence(code: string): { readonly code: string; readonly linesBefore: number } {
  const whole = { code, linesBefore: 0 };
  const lines = code.split('\n');
  const first = lines.findIndex((line) => line.trim() !== '');
  const last = lines.findLastIndex((line) => line.trim() !== '');
  const head = lines[first]?.trimStart() ?? '';
  const tail = lines[last]?.trimEnd() ?? '';
  if (first < 0 || !opening.test(head) || first === last || !tail.endsWith('```')) return whole;
  // What stands before the closing fence on its line is the program's last line.
  const inside = [...lines.slice(first + 1, last), ...(tail === '```' ? [] : [tail.slice(0, -3)])];
  // A second fence inside means prose with programs in it: which one was meant is not ours to guess.
  if (inside.some((line) => line.trimStart().startsWith('```'))) return whole;
  return { code: inside.join('\n').replace(/\r$/, ''), linesBefore: first + 1 };
}
