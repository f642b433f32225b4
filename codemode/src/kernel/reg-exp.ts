/**
 * Part of the guest kernel and of the host: a regular expression as the two texts it is made of. To make one is to have the engine read it, on
 * the host in the thread that everything else waits for: so both ends hold it to what takes some milliseconds at most.
 */

/** From what the expression is, by the getters of each flag: `flags` itself reads the object's own properties, which are the code's. */
export function regExpReader(
  getter: (owner: object, key: string) => (value: unknown) => unknown,
): (value: unknown) => readonly [string, string] {
  const source = getter(RegExp.prototype, 'source');
  const letters = {
    hasIndices: 'd',
    global: 'g',
    ignoreCase: 'i',
    multiline: 'm',
    dotAll: 's',
    unicode: 'u',
    unicodeSets: 'v',
    sticky: 'y',
  } as const;
  const flags = Object.entries(letters).map(([key, letter]) => ({
    letter,
    has: getter(RegExp.prototype, key),
  }));
  return (value) => {
    let text = '';
    for (let at = 0; at < flags.length; at += 1)
      if (flags[at]?.has(value) === true) text += flags[at]?.letter;
    return [`${source(value)}`, text];
  };
}

/**
 * What is wrong with it, if anything. With `u` and `v` a property is hundreds of ranges, which V8 merges with all others, `\W` nearly as many, as `\w`
 * where case is ignored, and a property of strings (`\p{RGI_Emoji}`) thousands of alternatives: with two of those or ten of the others the worst known takes nine milliseconds.
 */
export function regExpFault(source: string, flags: string): string | undefined {
  if (source.length > 1024) return 'is longer than 1024 characters';
  if (!/[uv]/.test(flags)) return undefined;
  const isCaseIgnored = flags.includes('i') || /\(\?[a-z]*i/.test(source);
  const classes = source.split(isCaseIgnored ? /\\(?:[pP]\{|[wW])/ : /\\(?:[pP]\{|W)/).length - 1;
  const ofStrings = source.split(/\\p\{(?:RGI_|Basic_Emoji|Emoji_Keycap_)/).length - 1;
  return classes + 4 * ofStrings > 10 ? 'names too many classes of characters (\\p, \\W, \\w)' : undefined;
}

/** A pattern that this engine refuses must not end the run that carries it. @throws TypeError for one that no writer sends */
export function decodeRegExp(source: unknown, flags: unknown): unknown {
  if (typeof source !== 'string' || typeof flags !== 'string' || regExpFault(source, flags) !== undefined)
    throw new TypeError('malformed value');
  try {
    return new RegExp(source, flags);
  } catch {
    return `/${source}/${flags}`;
  }
}
