/** The names of the audit's files. */

/** The file that is written. Those before it have numbers that rise. */
export const currentName = 'audit.jsonl';
const numbered = /^audit\.(\d{1,12})\.jsonl$/;

/** Numbers of the files before the current one, oldest first. */
export function olderNumbers(names: readonly string[]): readonly number[] {
  return names.flatMap((name) => Number(numbered.exec(name)?.[1] ?? [])).sort((one, other) => one - other);
}

export function fileName(number: number): string {
  return `audit.${number}.jsonl`;
}
