/**
 * Installs Debian packages into a tree and gives it back as a tar archive, without root where there is none.
 *
 * mmdebstrap does the work, in the strongest mode this user has: `root`, `unshare` (subordinate ids) or
 * `fakechroot` (nothing at all). Owners and modes are recorded in the archive, so the layer is the same
 * whichever mode made it. It takes the machine's own mirrors and proxies; none of them stays in the tree.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { Failure } from '@squash/base/failure';
import { mirrorOf } from './mirrors.ts';

export interface Suite {
  /** `bookworm` */
  readonly codename: string;
  readonly architecture: 'amd64' | 'arm64';
}

interface BootstrapRequest {
  readonly suite: Suite;
  readonly packages: readonly string[];
  /** Said to be installed, in these versions. */
  readonly without: Readonly<Record<string, string>>;
  /** A tree to start from, as a tar archive. */
  readonly base?: string;
  readonly tar: string;
  /** Where the tree stands while it grows: open to other ids, hence not in a home directory. */
  readonly workDirectory: string;
  readonly mtimeS: number;
  readonly onProgress: (text: string) => void;
}

/**
 * What is not needed inside: 60 MB of a base alone. Copyright files stay, their licences ask for it; so do the empty
 * directories of manual pages, because scripts of some packages (Java's) fail where they can not put a link there.
 */
const pathFilters = [
  'path-exclude=/usr/share/man/*/*',
  'path-exclude=/usr/share/info/*',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
];

/** Lines of mmdebstrap's log that an error shows. */
const logLinesMax = 25;

/** @throws with the end of mmdebstrap's output */
export async function bootstrap(request: BootstrapRequest, signal: AbortSignal): Promise<void> {
  const args = [
    `--mode=${mode()}`,
    `--architectures=${request.suite.architecture}`,
    '--format=tar',
    '--aptopt=APT::Install-Recommends "false"',
    ...pathFilters.map((filter) => `--dpkgopt=${filter}`),
    `--include=${request.packages.join(',')}`,
    // A base archive is the tree already; otherwise the smallest set that apt works in.
    ...(request.base === undefined
      ? ['--variant=minbase', '--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr']
      : ['--variant=custom', `--setup-hook=tar-in ${request.base} /`]),
    ...Object.entries(request.without).map(
      ([name, version]) => `--setup-hook=${saidInstalled(name, version)}`,
    ),
    request.suite.codename,
    request.tar,
  ];
  const sources = aptSources(request.suite.codename);
  // Ended with us, however we end: what is killed leaves a directory that the next build removes.
  const words = ['--pdeathsig', 'TERM', 'mmdebstrap', ...args, ...(sources === undefined ? [] : ['-'])];
  const child = spawn('setpriv', words, {
    env: { ...buildEnvironment(request.mtimeS), TMPDIR: request.workDirectory },
    stdio: ['pipe', 'ignore', 'pipe'],
    signal,
    // mmdebstrap removes its tree when it is asked to end.
    killSignal: 'SIGTERM',
  });
  child.stdin.on('error', () => {
    // It ended before it read the sources; its status says why.
  });
  child.stdin.end(sources ?? '');
  const log: string[] = [];
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split(/[\n\r]+/)) takeLine(line, log, request.onProgress);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  if (code !== 0) throw new Failure('mmdebstrap_failed', `mmdebstrap failed:\n${log.join('\n')}`);
}

/**
 * Shell text that writes a package without files into the tree's database. Its version is the least that the dependency takes,
 * so that the real package counts as newer.
 */
function saidInstalled(name: string, version: string): string {
  const stanza = installedStanza(name, version);
  const info = `"$1/var/lib/dpkg/info/${name}.list"`;
  return `printf '%s\\n' ${stanza.map((line) => `'${line}'`).join(' ')} '' >> "$1/var/lib/dpkg/status" && : > ${info}`;
}

/** Lines of dpkg's database that say that a package is installed. */
export function installedStanza(name: string, version: string): readonly string[] {
  return [
    `Package: ${name}`,
    'Status: install ok installed',
    'Priority: optional',
    'Section: misc',
    'Maintainer: Squash',
    'Architecture: all',
    'Multi-Arch: foreign',
    `Version: ${version}`,
    'Description: left out of this layer',
    ' Installing it brings the real package.',
  ];
}

/** Packages' scripts see this and nothing of the caller's: what they write must not depend on who builds. */
function buildEnvironment(mtimeS: number): Record<string, string> {
  const kept = ['HOME', 'PATH', 'http_proxy', 'https_proxy', 'no_proxy'].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    ...Object.fromEntries(kept),
    ...aptProxies(),
    LC_ALL: 'C.UTF-8',
    SOURCE_DATE_EPOCH: String(mtimeS),
    // Python orders sets by a random seed and writes that order into its byte code; and which byte code it
    // writes by the way, while a package's script runs, depends on the order of scripts.
    PYTHONHASHSEED: '0',
    PYTHONDONTWRITEBYTECODE: '1',
  };
}

function takeLine(line: string, log: string[], onProgress: (text: string) => void): void {
  if (line.trim() === '') return;
  log.push(line);
  if (log.length > logLinesMax) log.shift();
  const step = /^I: ((?:running apt|downloading|extracting|installing|creating tarball).*)$/.exec(line);
  if (step?.[1] !== undefined) onProgress(step[1].replace(/\.+$/, ''));
}

function mode(): 'root' | 'unshare' | 'fakechroot' {
  if (process.getuid?.() === 0) return 'root';
  return hasSubordinateIds() ? 'unshare' : 'fakechroot';
}

function hasSubordinateIds(): boolean {
  if (spawnSync('sh', ['-c', 'command -v newuidmap && command -v newgidmap']).status !== 0) return false;
  const { username, uid } = userInfo();
  return ['/etc/subuid', '/etc/subgid'].every(
    (file) =>
      existsSync(file) &&
      readFileSync(file, 'utf8')
        .split('\n')
        .some((line) => line.startsWith(`${username}:`) || line.startsWith(`${uid}:`)),
  );
}

/** The Debian release of this machine, or the one Squash is made on where the machine is no Debian. */
export function hostSuite(): Suite {
  const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '';
  const codename = /^ID=debian$/m.test(release) ? /^VERSION_CODENAME=(\w+)$/m.exec(release)?.[1] : undefined;
  return { codename: codename ?? 'bookworm', architecture: process.arch === 'arm64' ? 'arm64' : 'amd64' };
}

/**
 * The mirror that was asked for, or the machine's sources of this release as one-line entries; undefined where it has none, and
 * mmdebstrap takes Debian's. Sources of others (vendors' repositories) have no place in a layer that is called Debian.
 */
export function aptSources(codename: string): string | undefined {
  const mirror = mirrorOf('DEBIAN');
  if (mirror !== undefined) return `deb ${mirror} ${codename} main\n`;
  const format = '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)';
  const asked = spawnSync('apt-get', ['indextargets', '--format', format, 'Created-By: Packages'], {
    encoding: 'utf8',
  });
  const lines = new Set<string>();
  for (const row of (asked.stdout ?? '').split('\n')) {
    const [origin, uri, release, component] = row.split('|');
    if (origin !== 'Debian' || uri === undefined || release?.split('-')[0] !== codename) continue;
    lines.add(`deb ${uri} ${release} ${component}\n`);
  }
  return lines.size === 0 ? undefined : [...lines].join('');
}

/** apt takes a proxy from the environment as well: so the machine's setting works and is written nowhere. */
export function aptProxies(): Record<string, string> {
  const dump = spawnSync('apt-config', ['dump'], { encoding: 'utf8' }).stdout ?? '';
  const found: Record<string, string> = {};
  for (const [, protocol, proxy] of dump.matchAll(/^Acquire::(https?)::Proxy "([^"]+)";$/gim)) {
    if (protocol !== undefined && proxy !== undefined && proxy !== 'DIRECT') {
      found[`${protocol.toLowerCase()}_proxy`] = proxy;
    }
  }
  return found;
}

/** What is installed in a tree, from its package database: name to version. */
export function installedPackages(status: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const paragraph of status.split('\n\n')) {
    const name = /^Package: (.+)$/m.exec(paragraph)?.[1];
    const version = /^Version: (.+)$/m.exec(paragraph)?.[1];
    const isInstalled = /^Status: install ok installed$/m.test(paragraph);
    if (isInstalled && name !== undefined && version !== undefined) found.set(name, version);
  }
  return found;
}

export const dpkgStatus = 'var/lib/dpkg/status';
