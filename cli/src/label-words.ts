/** Labels as words. */

/** `k=v` for each; of a daemon without labels nothing. */
export function labelWords(labels: Readonly<Record<string, string>> | undefined): string {
  return Object.entries(labels ?? {})
    .map(([key, value]) => (value === '' ? key : `${key}=${value}`))
    .join(', ');
}
