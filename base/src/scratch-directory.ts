/**
 * Directories for temporary files whose name says whose they are: what a process that was killed has left, the next one
 * that makes such a directory removes.
 *
 * The name holds the owner's process id, its start and its process-id namespace, because a number is given again, also
 * to a process of another container that sees the same directory. What lies in another namespace's name is left alone, and
 * so is what belongs to another user: in a directory that all may write to, names are anybody's.
 */
import { chmodSync, lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** A new directory `PARENT/LABEL-PID.START.NAMESPACE-XXXXXX`, 0711, of this process or of the one that waits for it. */
export function makeScratchDirectory(parent: string, label: string, owner: number = process.pid): string {
  removeAbandoned(parent, label);
  const start = startOf(owner) ?? 0;
  const path = mkdtempSync(join(parent, `${label}-${owner}.${start}.${namespace()}-`));
  // What is built in it belongs to other ids, which must be able to reach it.
  chmodSync(path, 0o711);
  return path;
}

/** Removes what owners that are gone have left. */
export function removeAbandoned(parent: string, label: string): void {
  const pattern = new RegExp(`^${label}-(\\d+)\\.(\\d+)\\.(\\d+)-`);
  const ours = namespace();
  for (const name of namesIn(parent)) {
    const [, pid, start, space] = pattern.exec(name) ?? [];
    if (space !== ours) continue;
    try {
      const path = join(parent, name);
      if (lstatSync(path).uid !== process.geteuid?.()) continue;
      if (startOf(Number(pid)) !== Number(start)) rmSync(path, { recursive: true, force: true });
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
  return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0';
}

/** Clock ticks since boot; undefined where there is no such process. A zombie has ended. */
function startOf(pid: number): number | undefined {
  try {
    // The second field is a name in parentheses that may hold spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/^.*\) /s, '');
    return fields.startsWith('Z') ? undefined : Number(fields.split(' ')[19]);
  } catch {
    // It is gone.
    return undefined;
  }
}
