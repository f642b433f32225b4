/** Names of servers and tools as names in JavaScript: safe, unique, and the same each time. */
const reserved = new Set(
  'await break case catch class const continue debugger default delete do else enum export extends false finally for function if implements import in instanceof interface let new null package private protected public return static super switch this throw true try typeof var void while with yield then constructor prototype __proto__ toJSON'.split(
    ' ',
  ),
);

/** Twice what MCP recommends; what is cut off is told apart by a number. */
const nameCharsMax = 128;

/** `read-file.v2` is `read_file_v2`; a leading digit gets `_` before it, a reserved word behind it. */
export function safeName(name: string): string {
  const plain = name
    .slice(0, nameCharsMax)
    .replace(/[-.\s/:]/g, '_')
    .replace(/[^\w$]/g, '');
  if (plain === '' || plain === '_') return '_';
  if (/^\d/.test(plain)) return `_${plain}`;
  return reserved.has(plain) ? `${plain}_` : plain;
}

/** In the order given: a name that is taken, by one before or from the beginning, gets a number. */
export function uniqueNames(names: readonly string[], others: readonly string[] = []): readonly string[] {
  const taken = new Set(others);
  // Thousands of names may be safe as one: none looks for its number from the beginning.
  const next = new Map<string, number>();
  return names.map((name) => {
    const safe = safeName(name);
    let unique = safe;
    let number = next.get(safe) ?? 2;
    for (; taken.has(unique); number += 1) unique = `${safe}_${number}`;
    next.set(safe, number);
    taken.add(unique);
    return unique;
  });
}
