/**
 * Directories for temporary files whose name says whose they are: what a process that was killed has left, the next one
 * that makes such a directory removes.
 *
 * The name holds the owner's process id, its start and its process-id namespace, because a number is given again, also
 * to a process of another container that sees the same directory. In a directory that all may write to, names are anybody's:
 * only real directories of this user go, and what they hold goes without a link being followed.
 *
 * The daemon's own are `base/src/scratch-directory.ts`, by the same rule: this package is published alone and can't use it.
 */
import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A new directory `codemode-LABEL-PID.START.NAMESPACE-XXXXXX` that only this user may enter. */
export function makeScratchDirectory(label: 'container' | 'deno' | 'image'): string {
  const parent = tmpdir();
  const start = startOf(process.pid);
  // Where nobody can be looked up nothing can be known to be left.
  if (start !== undefined) removeAbandoned(parent);
  return mkdtempSync(join(parent, `codemode-${label}-${process.pid}.${start ?? 0}.${namespace()}-`));
}

function removeAbandoned(parent: string): void {
  const ours = namespace();
  for (const name of namesIn(parent)) {
    const [, pid, start, space] = /^codemode-[a-z]+-(\d+)\.(\d+)\.(\d+)-/.exec(name) ?? [];
    if (space !== ours) continue;
    try {
      const path = join(parent, name);
      const entry = lstatSync(path);
      if (!entry.isDirectory() || entry.uid !== process.geteuid?.()) continue;
      if (startOf(Number(pid)) !== Number(start)) rmSync(path, { recursive: true });
    } catch {
      // Somebody else removes it as well, or files in it are other ids': they stay for who may.
    }
  }
}

function namesIn(parent: string): readonly string[] {
  try {
    return readdirSync(parent);
  } catch {
    // A directory may let us make files and not look: mode 1733.
    return [];
  }
}

function namespace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0';
  } catch {
    // A system that has no `/proc`.
    return '0';
  }
}

/** Clock ticks since boot; undefined where there is no such process, or no `/proc`. A zombie has ended. */
export function startOf(pid: number): number | undefined {
  try {
    // The second field is a name in parentheses that may hold spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/^.*\) /s, '');
    return fields.startsWith('Z') ? undefined : Number(fields.split(' ')[19]);
  } catch {
    // It is gone.
    return undefined;
  }
}
