/**
 * An npm package as an archive, held against the digest that the preset names.
 *
 * The machine's own npm fetches it, with its registry, proxy and cache; its own check is against what the registry says, which is
 * all there is for a version that the preset does not name.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Failure } from '@squash/base/failure';
import { mirrorOf } from './mirrors.ts';
import type { NpmSource } from './preset.ts';
import type { FetchPlace, SourceFile } from './source-file.ts';

export async function fetchNpmPackage(source: NpmSource, place: FetchPlace): Promise<SourceFile> {
  const wanted = source.packages[place.architecture];
  if (wanted === undefined)
    throw new Failure('no_such_architecture', `the preset names no npm package for ${place.architecture}`);
  const version = place.version ?? source.version;
  const name = `${wanted.name}@${version}`;
  place.onProgress(`downloading npm package ${name}`);
  const file = await pack(name, place);
  if (statSync(file).size > place.bytesMax)
    throw new Failure('download_too_large', `npm package ${name}: is larger than ${place.bytesMax} bytes`);
  const digest = `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`;
  if (version === source.version && digest !== wanted.integrity) {
    throw new Failure('wrong_digest', `npm package ${name}: ${digest} instead of ${wanted.integrity}`);
  }
  return { file, version, from: `npm:${name}`, digest };
}

/** As Debian, Fedora and openSUSE have them. */
const bundles = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
];

/** Node trusts a list of its own, and npm finds the machine's settings by where its Node lies, which here is not the machine's. */
function authorities(): Readonly<Record<string, string>> {
  const bundle = bundles.find((each) => existsSync(each));
  return bundle === undefined ? {} : { NODE_EXTRA_CA_CERTS: bundle };
}

async function pack(name: string, { scratch, signal }: FetchPlace): Promise<string> {
  const directory = join(scratch, 'npm');
  mkdirSync(directory, { recursive: true });
  // Node's own directory holds the npm that belongs to it.
  const path = `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`;
  const mirror = mirrorOf('NPM');
  const words = [
    'pack',
    name,
    '--prefer-offline',
    '--loglevel=error',
    '--pack-destination',
    directory,
    ...(mirror === undefined ? [] : [`--registry=${mirror}/`]),
  ];
  // Ended with us, however we end.
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', 'npm', ...words], {
    env: { ...authorities(), ...process.env, PATH: path },
    cwd: directory,
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
  });
  let said = '';
  let complaint = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-1_000);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) throw new Failure('npm_failed', `npm can not fetch ${name}: ${complaint.trim()}`);
  return join(directory, basename(said.trim().split('\n').at(-1) ?? ''));
}
