/** When a process began, as `/proc` tells it. */
import { readFileSync } from 'node:fs';

/** Of every Linux that Node runs on, whatever the kernel's own clock ticks at. */
const ticksPerSecond = 100;

/** Clock ticks since boot at which a process began: with its number, its identity. A zombie has ended. */
export function startTicks(pid: number): number | undefined {
  try {
    // The second field is a name in parentheses that may hold spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    return fields[0] === 'Z' ? undefined : Number(fields[19]);
  } catch {
    // No such process.
    return undefined;
  }
}

/**
 * Seconds since this process began. It may have been another program then: `./squash` is a shell script that sets up
 * what is missing, for minutes, before it becomes the command line.
 */
export function secondsSinceStart(): number {
  const sinceBoot = Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]);
  const began = startTicks(process.pid) ?? Number.NaN;
  const seconds = sinceBoot - began / ticksPerSecond;
  const own = performance.now() / 1000;
  // A container may show an uptime of its own; what Node itself knows is the least it can be.
  return seconds >= own ? seconds : own;
}
