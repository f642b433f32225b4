/**
 * `squash completion`: a script that lets a shell ask `squash __complete`. The scripts know no command of ours, so they
 * never grow old.
 */
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printText, standardOutput } from '../output/print.ts';

/** Words reach `__complete` as arguments and candidates come back as data: nothing is evaluated. */
const bash = `_squash() {
  local line current=\${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
      return
    fi
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <("$1" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _squash squash
`;

const zsh = `#compdef squash
_squash() {
  local line
  local -a found
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      _files
      return
    fi
    found+=("\${\${line//:/\\\\:}/$'\\t'/:}")
  done < <("$words[1]" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe squash found
}
compdef _squash squash
`;

const fish = `function __squash_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] __complete -- $words[2..-1] 2>/dev/null)
  if test "$found" = :files
    __fish_complete_path (commandline -ct)
  else
    printf '%s\\n' $found
  end
end
complete -c squash -f -a '(__squash_complete)'
`;

const scripts: Readonly<Record<string, string>> = { bash, zsh, fish };

export function run(call: Call): Promise<number> {
  const shell = call.positionals[0] ?? '';
  const script = scripts[shell];
  if (script === undefined)
    throw usageFailure(`there is no completion for "${shell}"; there is for bash, zsh, fish`);
  printText(standardOutput, script);
  return Promise.resolve(exitCodes.ok);
}
