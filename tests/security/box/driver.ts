/** All attempts one after the other, by one shell in the place where they are made, and what each said. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AttemptOutput } from '../attempt.ts';

/** An attempt that hangs must not hang the rest. */
const attemptS = 20;

/**
 * Waits for a line before the first and after the last: whoever started it looks at things meanwhile. Programs of administrators, such as
 * `pivot_root`, are in no PATH of an ordinary user, and an attempt without them proves nothing.
 */
const driver = `A="$1/attack"; PATH="$PATH:/usr/sbin:/sbin"; export A PATH
echo ready; read -r _
for f in "$1/$2"/*.sh; do
  d=$(mktemp -d) && cd "$d" || exit 2
  s=sh; case $f in *.namespace.sh) s='unshare --user --map-root-user --mount -- sh' ;; esac
  timeout -k 1 ${attemptS} $s "$f" >"$d.said" 2>&1 </dev/null; c=$?
  echo "$(basename "$f") $c $(base64 -w0 "$d.said")"
  cd / && rm -rf "$d" "$d.said"
done
echo over; read -r _
`;

export interface Script {
  readonly id: string;
  readonly text: string;
  readonly inNamespace: boolean;
}

/** @returns the words that run it */
export function layScripts(tools: string, name: string, scripts: readonly Script[]): readonly string[] {
  const folder = join(tools, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(tools, 'driver'), driver);
  for (const [index, { id, text, inNamespace }] of scripts.entries()) {
    const file = `${String(index).padStart(4, '0')}.${id}${inNamespace ? '.namespace' : ''}.sh`;
    writeFileSync(join(folder, file), `${text}\n`);
  }
  return ['sh', join(tools, 'driver'), tools, name];
}

/** By attempt. Of one stream: what it printed of both kinds. */
export function readOutputs(text: string): ReadonlyMap<string, AttemptOutput> {
  const rows = text.matchAll(/^\d{4}\.(\S+?)(?:\.namespace)?\.sh (\d+) (\S*)$/gm);
  return new Map(
    [...rows].map(([, id = '', code, said = '']) => [
      id,
      { exitCode: Number(code), stdout: Buffer.from(said, 'base64').toString('latin1'), stderr: '' },
    ]),
  );
}
