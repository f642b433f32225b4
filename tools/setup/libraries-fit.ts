/**
 * Ends with 0 when node_modules holds what package-lock.json asks for, with 1 when `npm ci` has to run. With
 * `--omit=dev`, npm's own word, the libraries of development may be absent.
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
  readonly dev?: boolean;
  /** Asked for by a library of development, and by another that can do without. */
  readonly devOptional?: boolean;
}

const root = `${import.meta.dirname}/../..`;

function packagesOf(path: string): Record<string, Locked> {
  const lock: { readonly packages?: Record<string, Locked> } = JSON.parse(readFileSync(path, 'utf8'));
  return lock.packages ?? {};
}

/** The source folders that are workspaces: npm records a link for each, never a version. */
function isInstalled(path: string): boolean {
  return path.includes('node_modules/') && existsSync(`${root}/${path}`);
}

const omitsDevelopment = process.argv.includes('--omit=dev');

function mayBeAbsent({ optional, dev, devOptional }: Locked): boolean {
  return optional === true || (omitsDevelopment && (dev === true || devOptional === true));
}

const wanted = packagesOf(`${root}/package-lock.json`);
const installed = packagesOf(`${root}/node_modules/.package-lock.json`);
const wrong = Object.entries(wanted).filter(([path, entry]) => {
  if (!path.includes('node_modules/')) return false;
  const record = installed[path];
  if (record === undefined) return !mayBeAbsent(entry);
  return record.version !== entry.version || record.integrity !== entry.integrity || !isInstalled(path);
});
process.exitCode = wrong.length === 0 ? 0 : 1;
