/** For words that are no command and no option: which one may have been meant, or which there are. */
import { meant } from '@squash/contract/nearest';
import type { CommandSpec, FlagSpec } from './command.ts';
import { type CliFailure, usageFailure } from './failure.ts';
import { groupOf } from './other-names.ts';

/** @param commands those that a person may know of */
export function unknownCommand(words: readonly string[], commands: readonly CommandSpec[]): CliFailure {
  const [first = '', second] = words.filter((word) => !word.startsWith('-'));
  const names = commands.map(({ name }) => name);
  const head = groupOf(first, commands) ?? first;
  const group = names.filter((name) => name.startsWith(`${head} `));
  if (group.length === 0) {
    const known = names.flatMap((name) => [name, ...name.split(' ', 1)]);
    return usageFailure(`there is no command "${first}"${suggestion(first, known)}; try: squash help`);
  }
  if (second === undefined)
    return usageFailure(
      `"${first}" needs a second word: ${group.map((name) => `squash ${name}`).join(', ')}`,
    );
  const meaning = suggestion(`${head} ${second}`, group);
  return usageFailure(`there is no command "${first} ${second}"${meaning}; try: squash help ${first}`);
}

/** @param word as it was typed, dashes included */
export function unknownOption(word: string, specs: readonly FlagSpec[]): CliFailure {
  // Without the dashes, which are right: else nearly any short name would be near enough.
  const best = word.startsWith('--')
    ? meant(
        word.slice(2),
        specs.map(({ name }) => name),
      )
    : undefined;
  const suggested = best === undefined ? '' : ` (did you mean "--${best}"?)`;
  return usageFailure(`there is no option ${word} here${suggested}`);
}

/** What other programs call it. */
const otherWords: Readonly<Record<string, string>> = {
  add: 'set',
  delete: 'rm',
  destroy: 'rm',
  download: 'get',
  list: 'ls',
  remove: 'rm',
  start: 'serve',
  upload: 'put',
};

function suggestion(word: string, names: readonly string[]): string {
  const ours = word.replace(/[a-z]+$/, (last) => otherWords[last] ?? last);
  const best = names.includes(ours) ? ours : meant(word, names);
  return best === undefined ? '' : ` (did you mean "${best}"?)`;
}
