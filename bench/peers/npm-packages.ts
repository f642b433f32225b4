/** Packages that a peer needs, fetched from npm into the benchmark's cache; Squash does not depend on them. */
import { access, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lastLine, run } from '../measure/process.ts';

/** @param packages with their versions: `name@1.2.3`. @returns the folder with `node_modules`; throws with npm's own words */
export async function fetchPackages(
  cacheDir: string,
  name: string,
  packages: readonly string[],
): Promise<string> {
  const prefix = join(cacheDir, name);
  // npm writes it last.
  const isFetched = await access(join(prefix, 'node_modules/.package-lock.json')).then(
    () => true,
    () => false,
  );
  if (isFetched) return prefix;
  await mkdir(prefix, { recursive: true });
  await writeFile(join(prefix, 'package.json'), '{"private":true}\n');
  // No install scripts: a benchmark runs nothing of a registry's but the program it measures.
  const flags = ['--ignore-scripts', '--no-fund', '--no-audit', '--no-progress'];
  const { code, stderr } = await run(['npm', 'install', ...flags, ...packages], {
    cwd: prefix,
    // npm would leave its compile cache in the directory for temporary files.
    env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' },
  });
  if (code !== 0) throw new Error(`npm could not fetch ${packages.join(', ')}: ${lastLine(stderr)}`);
  return prefix;
}
