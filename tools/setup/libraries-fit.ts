/**
 * Ends with 0 when node_modules holds what package-lock.json asks for, with 1 when `npm ci` has to run.
 *
 * It runs before anything is installed, so it imports nothing. Packages for other machines are absent from
 * npm's record of the install, and that is right; a package with another version is not.
 */
import { existsSync, readFileSync } from 'node:fs';

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly optional?: boolean;
}

const root = `${import.meta.dirname}/../..`;

function packagesOf(path: string): Record<string, Locked> {
  const lock: { readonly packages?: Record<string, Locked> } = JSON.parse(readFileSync(path, 'utf8'));
  return lock.packages ?? {};
}

/** The source folders that are workspaces: npm records a link for each, never a version. */
function isInstalled(path: string): boolean {
  return path.startsWith('node_modules/') && existsSync(`${root}/${path}`);
}

const wanted = packagesOf(`${root}/package-lock.json`);
const installed = packagesOf(`${root}/node_modules/.package-lock.json`);
const wrong = Object.entries(wanted).filter(([path, entry]) => {
  if (!path.startsWith('node_modules/')) return false;
  const record = installed[path];
  if (record === undefined) return entry.optional !== true;
  return record.version !== entry.version || record.integrity !== entry.integrity || !isInstalled(path);
});
process.exitCode = wrong.length === 0 ? 0 : 1;
