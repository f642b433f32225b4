/** For messages about misspelt names. */

/** The known name that a misspelt one most resembles, by the number of changed, missing and surplus characters. */
export function nearest(name: string, known: readonly string[]): string {
  let best = known[0] ?? '';
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const distance = editDistance(name.slice(0, 64), candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** The same, where it is near enough that it may have been meant. */
export function meant(name: string, known: readonly string[]): string | undefined {
  const best = nearest(name, known);
  const mistakesMax = name.length < 4 ? 1 : Math.max(2, Math.floor(name.length / 3));
  return known.length > 0 && editDistance(name.slice(0, 64), best) <= mistakesMax ? best : undefined;
}

/** Levenshtein's distance, one row at a time. */
export function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const changed = (row[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
