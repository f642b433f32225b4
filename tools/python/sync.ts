/**
 * The sync form of a module that is written with \`async\` and \`await\`: the same words without them. What waits for sockets and
 * files differs, and stands in `wire.py` of each form under the same names.
 */
const replacements: readonly (readonly [RegExp, string])[] = [
  [/\basync (def|with|for)\b/g, '$1'],
  [/\bawait /g, ''],
  [/\b__aenter__\b/g, '__enter__'],
  [/\b__aexit__\b/g, '__exit__'],
  [/\b__aiter__\b/g, '__iter__'],
  [/\b__anext__\b/g, '__next__'],
  [/\baclose\b/g, 'close'],
  [/\bStopAsyncIteration\b/g, 'StopIteration'],
  // A generator has two parameters more where it does not wait.
  [/\bAsyncGenerator\[(.*), None\]/g, 'Generator[$1, None, None]'],
  [/\bAsync(?=[A-Z])/g, ''],
  [/\bAwaitable\[(\w+)\]/g, '$1'],
];

export function syncForm(source: string, name: string): string {
  let text = source;
  for (const [pattern, by] of replacements) text = text.replaceAll(pattern, by);
  return `# Written by tools/python-sdk.ts from _async/${name}: do not change it here.\n${text}`;
}
