/**
 * What a killed test leaves: its daemon, launcher and egress process live on as they should, and nobody comes back for
 * them. The name of the directory they work in says which process made it, so that the next run of the suite can tell
 * them from those of a test that lives.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeDataDirectory } from './data-directory.ts';
import { processesOf, processWords, signalAll, startTicksOf } from './leaks.ts';
import { waitFor } from './wait.ts';

/** For `mkdtemp`: `squash-LABEL-PID.START-`, where START is the process's start in ticks, base 36. */
export function ownedPrefix(label: string): string {
  return `squash-${label}-${process.pid}.${(startTicksOf(process.pid) ?? 0).toString(36)}-`;
}

const ownedPath = /\/[^\s\0:=]*?\/squash-[a-z]+-(\d+)\.([0-9a-z]+)-\w{6}/g;

/** Directories named in the text whose maker is gone. A number that another process has now does not deceive. */
function abandonedIn(text: string): readonly string[] {
  return [...text.matchAll(ownedPath)]
    .filter(([, pid, start]) => startTicksOf(Number(pid)) !== Number.parseInt(start ?? '', 36))
    .map(([path]) => path);
}

/** In the usual place, or wherever a process of them still runs. */
export function abandonedDirectories(): readonly string[] {
  const listed = readdirSync(tmpdir()).map((name) => join(tmpdir(), name));
  return [...new Set(abandonedIn([...listed, ...processWords()].join('\n')))].filter(isOurs);
}

/** Another user's we may not end. */
function isOurs(directory: string): boolean {
  const uid = process.getuid?.();
  try {
    return uid === 0 || statSync(directory).uid === uid;
  } catch {
    // Gone, as the mount that it lay in.
    return true;
  }
}

/** Ends everything that works in a directory, and removes it. */
export async function removeAbandoned(directory: string): Promise<void> {
  // The daemon first: it would start the egress process anew.
  signalAll(directory, 'SIGKILL', ({ command }) => command.includes('host/src/'));
  for (const name of ['egress/src/main.ts', 'squash-launch resident']) {
    signalAll(directory, 'SIGTERM', ({ command }) => command.includes(name));
  }
  const isOver = (): boolean => processesOf(directory).length === 0;
  await waitFor('the launcher to end', isOver, 10_000).catch(() =>
    signalAll(directory, 'SIGKILL', () => true),
  );
  // One that is a small file system of its own.
  if (readFileSync('/proc/self/mounts', 'utf8').includes(` ${directory} `))
    execFileSync('umount', ['--lazy', directory]);
  await removeDataDirectory(directory);
}
