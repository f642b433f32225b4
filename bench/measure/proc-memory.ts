/**
 * Memory and CPU of processes as the kernel counts them.
 *
 * PSS, not RSS: pages shared by many sandboxes (the static PID 1's text) are counted once and divided, so the
 * sum over all processes is what they really take. Kernel memory (namespaces, mounts, stacks) is in no
 * process; it is read as the growth of the kernel's own counters.
 */
import { readFile, readdir } from 'node:fs/promises';

interface ProcessRow {
  readonly pid: number;
  readonly parent: number;
}

/** Every living descendant of `root`, without `root`. */
export async function descendants(root: number): Promise<number[]> {
  const rows: ProcessRow[] = [];
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const stat = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => undefined); // It has ended.
    const parent = stat === undefined ? undefined : statField(stat, 1);
    if (parent !== undefined) rows.push({ pid: Number(entry), parent });
  }
  const found: number[] = [];
  const queue = [root];
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    const children = rows.filter(({ parent }) => parent === pid).map((row) => row.pid);
    found.push(...children);
    queue.push(...children);
  }
  return found;
}

/** Proportional set size in bytes; 0 for a process that has ended meanwhile. */
export async function pssBytes(pid: number): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '');
  return Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0) * 1024;
}

export async function totalPssBytes(pids: readonly number[]): Promise<number> {
  let total = 0;
  for (const pid of pids) total += await pssBytes(pid);
  return total;
}

export async function rssBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
}

/** User and system time of a process in milliseconds (clock ticks are 10 ms on every Linux). */
export async function cpuMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  return ((statField(stat, 11) ?? 0) + (statField(stat, 12) ?? 0)) * 10;
}

/** Memory the kernel holds for itself: unreclaimable slab, stacks, page tables, per-CPU areas. */
export async function kernelBytes(): Promise<number> {
  const info = await readFile('/proc/meminfo', 'utf8');
  let kilobytes = 0;
  for (const name of ['SUnreclaim', 'KernelStack', 'PageTables', 'Percpu']) {
    kilobytes += Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(info)?.[1] ?? 0);
  }
  return kilobytes * 1024;
}

/** Field `index` behind the command name, which may itself hold spaces and brackets; 0 is the state. */
function statField(stat: string, index: number): number | undefined {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const value = fields[index];
  return value === undefined ? undefined : Number(value);
}
