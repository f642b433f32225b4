/**
 * Which build of the egress process this daemon would start: the version, and a digest of the names, times and sizes of every
 * source that the process is made of, by which `base/bin/built.cjs` knows them too. A process that says another one is replaced at
 * the daemon's start, so that an upgrade without a new version (a checkout, a patch) takes effect as well.
 */
import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('../../../', import.meta.url));
/** Its own workspace and those that it stands on, as ARCHITECTURE.md lists them. */
const workspaces = ['base', 'contract', 'policy', 'installation', 'egress'];

/** `0.1.0+<digest>`. The contents are not read: all other parts of a start wait for this. */
export function egressBuild(version: string): string {
  const digest = createHash('sha256');
  for (const workspace of workspaces) {
    for (const path of sourcesBelow(join(project, workspace, 'src')).sort()) {
      const { mtimeMs, size } = statSync(path);
      digest.update(`${path.slice(project.length)} ${mtimeMs} ${size}\n`);
    }
  }
  return `${version}+${digest.digest('hex').slice(0, 16)}`;
}

/** Node's own recursion takes three times as long. */
function sourcesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return sourcesBelow(path);
    return isSource(path) ? [path] : [];
  });
}

function isSource(name: string): boolean {
  return name.endsWith('.ts') && !name.endsWith('.test.ts');
}
