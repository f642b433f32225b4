/**
 * `squash completion`: a script that lets a shell ask `squash __complete`. The scripts know no command of ours, so they
 * never grow old.
 */
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printText, standardOutput } from '../output/print.ts';

/** Words reach `__complete` as arguments and candidates come back as data: nothing is evaluated. */
const bash = `_squash() {
  # bash cuts words at ":" and "=": put together again what the line has without a space between.
  local line word rest=$COMP_LINE last='' head=''
  local -a words=()
  for word in "\${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if [[ \${#words[@]} -gt 0 && $rest != [[:space:]]* && $rest == "$word"* && ($word == [:=]* || $last == *[:=]) ]]; then
      words[-1]+=$word
    else
      words+=("$word")
      while [[ $rest == [[:space:]]* ]]; do rest=\${rest#?}; done
    fi
    rest=\${rest#"$word"} last=$word
  done
  local current=\${words[-1]}
  # Only what follows the last cut is replaced by a candidate.
  if [[ $current != "$last" || $last == [:=] ]]; then head=\${current%"\${current##*[:=]}"}; fi
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "\${current#"$head"}")
      return
    fi
    line=\${line%%$'\\t'*}
    COMPREPLY+=("\${line#"$head"}")
  done < <("$1" __complete -- "\${words[@]:1}" 2>/dev/null)
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
