/**
 * Single packages of any of Debian's suites, unpacked into `.cache/debian-packages` and kept: kernels and programs that this machine's own
 * release has not. Nothing is installed, and root is not needed; apt checks what it fetches by this machine's own keys.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { repository } from './base-layer.ts';
import { debian } from './archives.ts';

const run = promisify(execFile);
const cache = join(repository, '.cache/debian-packages');
const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** Unpacks the newest package of that suite whose name the pattern matches whole. @returns the folder that it was unpacked into */
export async function debianPackage(suite: string, pattern: RegExp): Promise<string> {
  const folder = join(cache, suite);
  await mkdir(folder, { recursive: true });
  const kept = (await readdir(folder)).filter((name) => pattern.test(name)).sort();
  const newest = kept.at(-1);
  return newest === undefined ? await fetchPackage(folder, suite, pattern) : join(folder, newest);
}

/** Works in a folder of its own, so that two may do it at once: one of them is kept. */
async function fetchPackage(folder: string, suite: string, pattern: RegExp): Promise<string> {
  const work = await mkdtemp(join(cache, 'fetch-'));
  try {
    const options = { cwd: work, env: { ...process.env, APT_CONFIG: await configureApt(work, suite) } };
    await run('apt-get', ['-q', 'update'], options);
    const { stdout } = await run('apt-cache', ['pkgnames'], { ...options, maxBuffer: 16 * 1024 * 1024 });
    const name = stdout
      .split('\n')
      .filter((each) => pattern.test(each))
      .sort()
      .at(-1);
    if (name === undefined) throw new Error(`Debian's ${suite} has no package ${String(pattern)}`);
    await run('apt-get', ['-q', 'download', name], options);
    const file = (await readdir(work)).find((entry) => entry.endsWith('.deb'));
    if (file === undefined) throw new Error(`apt-get download ${name} left no file`);
    await run('dpkg-deb', ['-x', file, 'unpacked'], options);
    const kept = join(folder, name);
    if (!existsSync(kept)) await rename(join(work, 'unpacked'), kept);
    return kept;
  } finally {
    await rm(work, { recursive: true });
  }
}

async function configureApt(work: string, suite: string): Promise<string> {
  for (const name of ['lists/partial', 'archives/partial', 'empty'])
    await mkdir(join(work, name), { recursive: true });
  await writeFile(
    join(work, 'sources.list'),
    `deb [arch=amd64 signed-by=${keys}] http://${debian}/debian ${suite} main\n`,
  );
  await writeFile(join(work, 'status'), '');
  const settings = {
    'Dir::Etc::SourceList': join(work, 'sources.list'),
    'Dir::Etc::SourceParts': join(work, 'empty'),
    'Dir::Etc::PreferencesParts': join(work, 'empty'),
    'Dir::State::Lists': join(work, 'lists'),
    'Dir::State::Status': join(work, 'status'),
    'Dir::Cache': work,
    'APT::Architecture': 'amd64',
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`);
  await writeFile(join(work, 'apt.conf'), lines.join(''));
  return join(work, 'apt.conf');
}
