/** Whether this machine's containers can be tried. */
import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { findContainerProgram } from '../places/container.ts';

/** Why not; false where they can. */
export function noContainers(): string | false {
  let program: string;
  try {
    program = findContainerProgram();
  } catch {
    return 'neither podman nor docker is installed';
  }
  if (!program.endsWith('podman') || process.getuid?.() === 0 || hasSubordinateIds()) return false;
  return 'without subordinate ids podman has no user for the engine';
}

function hasSubordinateIds(): boolean {
  const { username, uid } = userInfo();
  const names = [String(uid), username];
  const ranges = existsSync('/etc/subuid') ? readFileSync('/etc/subuid', 'utf8').split('\n') : [];
  return ranges.some((line) => names.includes(line.split(':')[0] ?? ''));
}
