/**
 * Packages of Debian, with what they depend on, unpacked and not installed: no script of theirs runs.
 *
 * apt finds and fetches them, with a state of its own and the machine's proxies, and checks each against the index that Debian has
 * signed. What they hold becomes entries of the layer.
 */
import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '@squash/base/failure';
import { aptProxies, aptSources, installedStanza } from './bootstrap.ts';
import { sha256OfFile } from './pack.ts';
import type { DebSource, KernelSource } from './preset.ts';
import type { FetchPlace } from './source-file.ts';

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** Of the `.deb`, in hexadecimal. */
  readonly sha256: string;
  /** What it holds. */
  readonly tar: string;
}

const official = 'http://deb.debian.org';
const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
/** Releases that have neither updates nor a security archive beside them. */
const rolling = new Set(['sid', 'unstable', 'testing', 'experimental']);

/** @throws with apt's complaint */
export async function fetchPackages(
  source: Pick<DebSource | KernelSource, 'packages' | 'without'> & { readonly release: string },
  place: FetchPlace,
): Promise<readonly DebianPackage[]> {
  const wanted = source.packages[place.architecture];
  if (wanted === undefined)
    throw new Failure(
      'no_such_architecture',
      `the preset names no packages of Debian for ${place.architecture}`,
    );
  const apt = prepareApt(source, place);
  place.onProgress(`reading the index of ${source.release}`);
  await runApt(apt, ['update'], place.signal);
  place.onProgress(`downloading ${wanted.join(', ')} and what they need`);
  await runApt(apt, ['install', '--yes', '--download-only', '--', ...wanted], place.signal);
  const files = readdirSync(apt.archives).filter((name) => name.endsWith('.deb'));
  const bytes = files.reduce((sum, name) => sum + statSync(join(apt.archives, name)).size, 0);
  if (bytes > place.bytesMax)
    throw new Failure(
      'download_too_large',
      `the packages have ${bytes} bytes, more than four times what the preset expects`,
    );
  place.onProgress(`unpacking ${files.length} packages`);
  const packages: DebianPackage[] = [];
  for (const name of files.sort()) packages.push(await readPackage(join(apt.archives, name), place.signal));
  return packages;
}

interface Apt {
  readonly archives: string;
  readonly environment: Readonly<Record<string, string>>;
}

function prepareApt(
  source: Pick<DebSource | KernelSource, 'without'> & { readonly release: string },
  { scratch, architecture }: FetchPlace,
): Apt {
  const root = join(scratch, 'apt');
  const archives = join(root, 'cache', 'archives');
  for (const path of [join(root, 'state', 'lists', 'partial'), join(archives, 'partial')])
    mkdirSync(path, { recursive: true });
  writeFileSync(join(root, 'sources.list'), sourcesOf(source.release));
  const installed = Object.entries(source.without).map((pair) => installedStanza(...pair));
  writeFileSync(join(root, 'status'), installed.map((lines) => `${lines.join('\n')}\n\n`).join(''));
  // Read behind the machine's own settings, whose proxies count and whose hooks do not.
  const settings = [
    ...['APT::Update', 'DPkg'].flatMap((group) =>
      ['Pre-Invoke', 'Post-Invoke', 'Post-Invoke-Success', 'Pre-Install-Pkgs'].map(
        (hook) => `#clear ${group}::${hook};`,
      ),
    ),
    `Dir::State "${root}/state";`,
    `Dir::State::status "${root}/status";`,
    `Dir::Cache "${root}/cache";`,
    `Dir::Cache::archives "${archives}";`,
    `Dir::Log "${root}";`,
    `Dir::Etc::sourcelist "${root}/sources.list";`,
    'Dir::Etc::sourceparts "/dev/null";',
    'Dir::Etc::preferences "/dev/null";',
    'Dir::Etc::preferencesparts "/dev/null";',
    `Dir::Etc::trusted "${keyring}";`,
    `APT::Architecture "${architecture}";`,
    '#clear APT::Architectures;',
    `APT::Architectures { "${architecture}"; };`,
    'APT::Install-Recommends "false";',
    'APT::Install-Suggests "false";',
    'APT::Get::AllowUnauthenticated "false";',
    'Acquire::AllowInsecureRepositories "false";',
    'Acquire::Languages "none";',
    // The scratch directory is this user's: nobody else could write there.
    'APT::Sandbox::User "";',
    '',
  ];
  const config = join(root, 'apt.conf');
  writeFileSync(config, settings.join('\n'));
  return { archives, environment: { APT_CONFIG: config, LC_ALL: 'C.UTF-8', ...aptProxies() } };
}

/** The machine's mirrors where it has this release. Where it has not, Debian's own, with what was mended since the release. */
function sourcesOf(release: string): string {
  const own = aptSources(release);
  if (own !== undefined) return own;
  const suites = [`/debian ${release}`];
  if (!release.includes('-') && !rolling.has(release))
    suites.push(`/debian ${release}-updates`, `/debian-security ${release}-security`);
  return suites.map((suite) => `deb ${official}${suite} main\n`).join('');
}

async function runApt(apt: Apt, words: readonly string[], signal: AbortSignal): Promise<void> {
  const kept = Object.fromEntries(
    ['HOME', 'PATH', 'http_proxy', 'https_proxy', 'no_proxy'].map((name) => [name, process.env[name]]),
  );
  await runTool(['apt-get', '--quiet', ...words], { env: { ...kept, ...apt.environment }, signal });
}

async function readPackage(file: string, signal: AbortSignal): Promise<DebianPackage> {
  const said = await runTool(['dpkg-deb', '--show', '--showformat=${Package} ${Version}', file], { signal });
  const [name, version] = said.split(' ');
  if (name === undefined || version === undefined)
    throw new Failure('archive_damaged', `"${file}" is no package of Debian`);
  const tar = `${file}.tar`;
  const output = openSync(tar, 'w');
  try {
    await runTool(['dpkg-deb', '--fsys-tarfile', file], { output, signal });
  } finally {
    closeSync(output);
  }
  return { name, version, sha256: await sha256OfFile(file), tar };
}

/** @returns what it wrote. @throws with the end of what it complained of */
async function runTool(
  [program = '', ...words]: readonly string[],
  options: {
    readonly env?: NodeJS.ProcessEnv;
    /** Written there, and not returned. */
    readonly output?: number;
    readonly signal: AbortSignal;
  },
): Promise<string> {
  // Ended with us, however we end.
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', program, ...words], {
    ...(options.env === undefined ? {} : { env: options.env }),
    stdio: ['ignore', options.output ?? 'pipe', 'pipe'],
    signal: options.signal,
  });
  let said = '';
  let complaint = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4_000);
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-4_000);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0)
    throw new Failure(
      program === 'apt-get' ? 'apt_failed' : 'archive_damaged',
      `${program} failed: ${`${said}${complaint}`.trim().slice(-2_000)}`,
    );
  return said;
}
