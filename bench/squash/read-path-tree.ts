/**
 * The tree for the read path: Debian's python3 and git with all they need, and a git repository of 3,000 files,
 * as one squashfs with the settings of a layer. Built once from Debian's packages and kept in the cache.
 */
import { access, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lastLine, mustRun, run } from '../measure/process.ts';
import { layerPackFlags } from './image-tools.ts';

const repositoryFolders = 100;
const filesPerFolder = 30;

/** The squashfs file. @throws with the tool's words where Debian's packages can't be had */
export async function readPathImage(cacheDir: string): Promise<string> {
  const image = join(cacheDir, 'read-path-1.squashfs');
  const cached = await access(image).then(
    () => true,
    () => false, // Not built yet.
  );
  if (cached) return image;
  await mkdir(cacheDir, { recursive: true });
  const work = await mkdtemp(join(cacheDir, 'building-'));
  try {
    const tree = join(work, 'tree');
    const tarball = join(work, 'tree.tar');
    await mkdir(tree);
    // Only unpacked, not configured: no maintainer script runs, and python3 and git need none.
    const mode = process.getuid?.() === 0 ? 'root' : 'unshare';
    const packages = '--include=python3,git,busybox-static';
    const build = ['mmdebstrap', '--variant=extract', packages, `--mode=${mode}`, 'bookworm', tarball];
    const { code, stderr } = await run(build);
    if (code !== 0) throw new Error(`mmdebstrap: ${lastLine(stderr)}`);
    await mustRun(['tar', '-C', tree, '-xf', tarball, '--exclude=./dev/*', '--no-same-owner']);
    await makeRepository(join(tree, 'repository'));
    await mustRun(['mksquashfs', tree, join(work, 'image'), ...layerPackFlags, '-all-root']);
    await rename(join(work, 'image'), image);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return image;
}

async function makeRepository(directory: string): Promise<void> {
  for (let folder = 0; folder < repositoryFolders; folder++) {
    const path = join(directory, `package${folder}`);
    await mkdir(path, { recursive: true });
    for (let file = 0; file < filesPerFolder; file++) {
      await writeFile(join(path, `module${file}.py`), `# ${folder}.${file}\n`.repeat(200));
    }
  }
  const git = ['git', '-C', directory, '-c', 'user.name=bench', '-c', 'user.email=bench@localhost'];
  await mustRun([...git, 'init', '--quiet']);
  await mustRun([...git, 'add', '.']);
  await mustRun([...git, 'commit', '--quiet', '-m', 'all files']);
}
