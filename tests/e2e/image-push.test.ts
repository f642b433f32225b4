/**
 * Images on their way out: pushed to a real registry and pulled from there by tools that are not ours, exported to files that those
 * read, and merged to one module.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Image, ImagePush } from '@squash/contract/image';
import { squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { dockerArchive, tarOf } from '../support/image-archive.ts';
import { TestRegistry } from '../support/registry.ts';
import { TokenRegistry } from '../support/token-registry.ts';

const isRoot = process.getuid?.() === 0;
let directory: string;
let registry: TestRegistry;
let tokens: TokenRegistry;
let daemon: TestDaemon;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'squash-push-'));
  registry = await TestRegistry.start();
  tokens = await TokenRegistry.start(registry);
  const insecure = [registry.host, tokens.host, tokens.tokenHost];
  daemon = await TestDaemon.start({
    files: { 'registry-auth.json': JSON.stringify({ auths: { ...registry.auth, ...tokens.auth } }) },
    env: { SQUASH_INSECURE_REGISTRIES: insecure.join(','), SQUASH_AUTH_TOKEN: 'token-of-images' },
  });
  await restarted(join(daemon.dataDir, 'registry-auth.json'));
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await tokens[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

async function restarted(authFile: string): Promise<void> {
  await daemon.stop();
  await daemon.start({ SQUASH_REGISTRY_AUTH_FILE: authFile });
}

const cli = (...words: string[]): Promise<string> => squashOk(daemon, words);
const inspect = async (name: string): Promise<Image> =>
  JSON.parse(await cli('image', 'inspect', name, '--json')) as Image;
const push = async (...words: string[]): Promise<ImagePush> =>
  JSON.parse(await cli('image', 'push', '--json', ...words)) as ImagePush;
const tool = (program: string, ...words: string[]): string =>
  execFileSync(program, words, { encoding: 'utf8', stdio: 'pipe' });
const there = (name: string): string => `${registry.host}/${name}`;

/** By a name that does not lead through this process, which waits for it. */
const direct = (name: string): string => `docker://${registry.directHost}/${name}`;
const skopeoLogin = (): readonly string[] => ['--src-tls-verify=false', '--src-creds', registry.credentials];

/** Not what a sandbox adds to any root. */
const isCompared = (line: string): boolean => /^\/(opt|srv|bin|\.)/.test(line);

/** What umoci makes of an image that skopeo has read. */
function treeOf(source: string, login: readonly string[] = []): readonly string[] {
  const [layout, bundle] = [join(directory, 'layout'), join(directory, 'bundle')];
  tool('skopeo', 'copy', ...login, source, `oci:${layout}:one`);
  tool('umoci', 'unpack', '--image', `${layout}:one`, bundle);
  const lines = execFileSync(join(directory, 'tree-lines'), [join(bundle, 'rootfs')], { encoding: 'latin1' });
  for (const each of [layout, bundle]) rmSync(each, { recursive: true });
  return lines.split('\n').filter(isCompared);
}

async function shown(name: string): Promise<readonly string[]> {
  const id = (await cli('create', '--image', name)).trim();
  try {
    const { json } = await daemon.request('POST', `/v1/sandboxes/${id}/exec`, {
      argv: ['/bin/tree-lines'],
      user: 0,
      cwd: '/',
      encoding: 'base64',
      output_bytes_max: 1_000_000,
    });
    return Buffer.from(json.stdout, 'base64').toString('latin1').split('\n').filter(isCompared);
  } finally {
    await cli('rm', '-y', id);
  }
}

async function importTar(name: string, ...layers: Buffer[]): Promise<void> {
  const file = join(directory, 'import.tar');
  writeFileSync(file, dockerArchive({ layers, name, config: { created: '2024-02-03T04:05:06Z' } }));
  await cli('image', 'import', file);
}

const links = ['sh', 'ls', 'cat', 'rm', 'mkdir', 'ln', 'chmod', 'chown', 'mv'];
const long = 'n'.repeat(180);

function base(): Buffer {
  execFileSync('gcc', [
    '-static',
    '-O1',
    '-o',
    join(directory, 'tree-lines'),
    join(import.meta.dirname, '../support/tree-lines.c'),
  ]);
  const program = (name: string, path: string) => ({
    name: `bin/${name}`,
    mode: 0o755,
    data: readFileSync(path),
  });
  const capability = Buffer.from('0100000200040000000000000000000000000000', 'hex').toString('latin1');
  return tarOf([
    { name: 'bin/' },
    program('busybox', '/bin/busybox'),
    program('tree-lines', join(directory, 'tree-lines')),
    ...links.map((name) => ({ name: `bin/${name}`, flag: '2', target: 'busybox' })),
    { name: 'opt/', mtime: 1_000_000 },
    { name: 'opt/one', data: 'one\n', mode: 0o640, uid: 1_000, gid: 65_000 },
    { name: 'opt/hard', flag: '1', target: 'opt/one' },
    {
      name: 'opt/marked',
      data: 'm',
      pax: { 'SCHILY.xattr.user.mark': 'yes', 'SCHILY.xattr.security.capability': capability },
    },
    { name: 'opt/setuid', data: 's', mode: 0o4755 },
    { name: 'opt/\xff\xfe', data: 'no text' },
    { name: 'opt/short', pax: { path: `opt/${long}/${long}` }, data: 'long' },
    { name: 'opt/pipe', flag: '6' },
    { name: 'opt/dir/' },
    { name: 'opt/dir/kept', data: 'k' },
    { name: 'opt/dir/gone', data: 'g' },
    { name: 'srv/old/' },
    { name: 'srv/old/file', data: 'x' },
    { name: 'srv/below', data: 'b' },
  ]);
}

const upper = (): Buffer =>
  tarOf([
    { name: 'opt/dir/.wh.gone' },
    { name: 'srv/old/.wh..wh..opq' },
    { name: 'srv/old/new', data: 'n' },
    { name: 'srv/.wh.below' },
    { name: `opt/short`, pax: { path: `opt/.wh.${long}` } },
  ]);

test('a sandbox that is pushed as an image shows the same tree by other tools and when it is pulled back', async () => {
  await importTar('made/base:1', base(), upper());
  const id = (await cli('create', '--image', 'made/base:1')).trim();
  const script = [
    'rm /opt/dir/kept; rm -r /srv/old; mkdir /srv/old; echo 2 >/srv/old/again; echo new >/opt/new; ln /opt/new /opt/newer',
    'chmod 600 /opt/marked; mkdir -m 1777 /srv/sticky; mv /opt/setuid "/opt/a name"; ln -s ../srv /opt/link',
    ...(isRoot ? ['chown 12:34 /opt/new'] : []),
  ].join('; ');
  await cli('exec', '-u', '0', id, '--', 'sh', '-c', script);
  await cli(
    'image',
    'commit',
    id,
    'made/changed:1',
    '--cmd',
    '["cat","/opt/new"]',
    '--env',
    'A=b c',
    '--label',
    'x=y',
  );
  await cli('rm', '-y', id);
  for (const name of ['base', 'changed']) {
    const own = await shown(`made/${name}:1`);
    await push(`made/${name}:1`, there(`push/${name}:1`));
    assert.deepEqual(treeOf(direct(`push/${name}:1`), skopeoLogin()), own, name);
    await cli('image', 'pull', there(`push/${name}:1`));
    assert.deepEqual(await shown(there(`push/${name}:1`)), own, name);
  }
  const tree = treeOf(direct('push/changed:1'), skopeoLogin()).map((line) => line.split(' ')[0]);
  assert.ok(
    tree.includes('/srv/old/again') &&
      !tree.some((path) => /kept|gone|below|old\/new|\.wh\./.test(path ?? '')),
  );
  const { env, cmd, labels, layers, created_at } = await inspect(there('push/changed:1'));
  assert.deepEqual(
    { env, cmd, labels, layers },
    { env: { A: 'b c' }, cmd: ['cat', '/opt/new'], labels: { x: 'y' }, layers: 3 },
  );
  assert.equal(created_at, (await inspect('made/changed:1')).created_at);
});
