/** Names of commands as people guess them: one of several words is singular to one reader and plural to the next. */
import type { CommandSpec } from './command.ts';

/** `key` for `keys`, `volumes` for `volume`. */
function inOtherNumber(word: string): string {
  return word.endsWith('s') ? word.slice(0, -1) : `${word}s`;
}

/** The first word of commands of two words as the table has it. */
export function groupOf(word: string, commands: readonly CommandSpec[]): string | undefined {
  return [word, inOtherNumber(word)].find((each) => commands.some(({ name }) => name.startsWith(`${each} `)));
}

/** The command that these two words call: `snapshot rm` beside `snapshots rm`. */
export function inOtherNumberOf(
  [first = '', second = '']: readonly string[],
  commands: readonly CommandSpec[],
): CommandSpec | undefined {
  const name = `${inOtherNumber(first)} ${second}`;
  return commands.find((each) => each.name === name);
}

/** A plural with nothing but options behind it is its list: `squash keys`. */
export function listOf(
  [first = '', ...rest]: readonly string[],
  commands: readonly CommandSpec[],
): CommandSpec | undefined {
  if (!first.endsWith('s') || (rest[0] !== undefined && !rest[0].startsWith('-'))) return undefined;
  const group = groupOf(first, commands);
  return commands.find(
    ({ name, positionals }) =>
      name === `${group} ls` && positionals.every(({ optional }) => optional === true),
  );
}
