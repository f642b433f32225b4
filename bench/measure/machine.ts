/** The facts about the machine that stand in the report's header: without them a figure says nothing. */
import { readFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { lastLine, mustRun, run } from './process.ts';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly kernel: string;
  readonly system: string;
  readonly node: string;
  readonly user: string;
  readonly cgroups: string;
  readonly fileSystem: string;
  readonly commit: string;
}

export async function machineFacts(root: string, workDir: string): Promise<Machine> {
  const mounts = await readFile('/proc/self/mounts', 'utf8');
  const osRelease = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const disk = await run(['df', '--output=fstype', workDir]).catch(() => undefined);
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 1e9),
    kernel: release(),
    system: /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease)?.[1] ?? 'unknown',
    node: process.version,
    user: process.getuid?.() === 0 ? 'root' : 'an ordinary user',
    cgroups: cgroupKind(mounts),
    fileSystem: disk === undefined ? 'unknown' : lastLine(disk.stdout),
    commit: await commitOf(root),
  };
}

/** With `-dirty` behind it where the sources differ from it; the page that a run writes is none of them. */
async function commitOf(root: string): Promise<string> {
  const git = async (...words: string[]): Promise<string> => await mustRun(['git', '-C', root, ...words]);
  try {
    const commit = (await git('rev-parse', '--short', 'HEAD')).trim();
    const changes = await git(
      'status',
      '--porcelain',
      '--untracked-files=no',
      '--',
      '.',
      ':!docs/performance.md',
    );
    return changes === '' ? commit : `${commit}-dirty`;
  } catch {
    // Not a checkout, or no git.
    return 'unknown';
  }
}

function cgroupKind(mounts: string): string {
  const v1 = / cgroup /.test(mounts);
  const v2 = / cgroup2 /.test(mounts);
  if (v1) return v2 ? 'v1 with a v2 tree beside it' : 'v1';
  return v2 ? 'v2' : 'none';
}
