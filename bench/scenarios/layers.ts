/** What reading through a layer costs: unpacked directory, squashfuse, and the kernel's squashfs. */
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun, timeToExit } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { mountLayer, readWays, type ReadWay } from '../squash/mounted-layer.ts';
import { readPathImage } from '../squash/read-path-tree.ts';
import { type Context, rounds } from './context.ts';

const python = ['python3', '-c', 'pass'];
const imports = [
  'python3',
  '-c',
  'import asyncio, ssl, http.client, json, sqlite3, unittest, xml.dom.minidom',
];
// The repository belongs to the image's root, git is asked by the sandbox's.
const gitStatus = ['git', '-c', 'safe.directory=*', '-C', '/repository', 'status', '--porcelain'];
/** Emptying the caches of the whole machine slows what runs beside it: only every fifth round does. */
const coldEvery = 5;

export async function layersScenario(
  context: Context,
  stack: AsyncDisposableStack,
  cacheDir: string,
): Promise<Scenario> {
  return {
    id: 'layers',
    title: 'Layer read path',
    about:
      'The same Debian tree (python3, git, a repository of 3,000 files) three ways, each below an overlay, the command in bubblewrap. "warm" repeats the command; "cold" is after the page, inode and entry caches of the machine were dropped.',
    metrics: [
      { id: 'python', title: '`python3 -c pass`, warm', unit: 'ms' },
      { id: 'git', title: '`git status`, warm', unit: 'ms' },
      { id: 'cold', title: 'import of 7 modules, cold', unit: 'ms' },
      { id: 'disk', title: 'disk space', unit: 'MB' },
    ],
    warmups: 1,
    rounds: rounds(context, 30),
    subjects: await subjects(context, stack, cacheDir),
  };
}

async function subjects(
  context: Context,
  stack: AsyncDisposableStack,
  cacheDir: string,
): Promise<readonly Subject[]> {
  let image: string;
  try {
    image = await readPathImage(cacheDir);
  } catch (error) {
    return [{ name: 'all three', absent: error instanceof Error ? error.message : String(error) }];
  }
  const made: Subject[] = [];
  for (const way of readWays) {
    try {
      made.push(await subject({ way, image, context }, stack));
    } catch (error) {
      made.push({ name: way, absent: error instanceof Error ? error.message : String(error) });
    }
  }
  return made;
}

async function subject(
  plan: { readonly way: ReadWay; readonly image: string; readonly context: Context },
  stack: AsyncDisposableStack,
): Promise<Subject> {
  const workDir = join(plan.context.workDir, `layer-${plan.way.replace(' ', '-')}`);
  await mkdir(workDir);
  const layer = await mountLayer(plan.way, plan.image, workDir);
  stack.defer(async () => await layer.close());
  await mustRun(layer.command(python));
  const disk = await diskMegabytes(plan.way === 'unpacked' ? join(workDir, 'lower') : plan.image);
  const isRoot = process.getuid?.() === 0;
  return {
    name: plan.way,
    cycle: async (round): Promise<Sample> => {
      // The untimed call before each fills caches that another subject's turn may have emptied.
      await timeToExit(layer.command(python));
      const warmPython = await timeToExit(layer.command(python));
      await timeToExit(layer.command(gitStatus));
      const git = await timeToExit(layer.command(gitStatus));
      if (!isRoot || round < 0 || round % coldEvery !== 0) return { python: warmPython, git };
      await writeFile('/proc/sys/vm/drop_caches', '3');
      return { python: warmPython, git, cold: await timeToExit(layer.command(imports)), disk };
    },
  };
}

async function diskMegabytes(path: string): Promise<number> {
  const found = await stat(path);
  if (found.isFile()) return found.size / 1e6;
  const [kilobytes = '0'] = (await mustRun(['du', '-sk', path])).split('\t');
  return (Number(kilobytes) * 1024) / 1e6;
}
