/**
 * Images on their way out: pushed to a real registry and pulled from there by tools that are not ours, exported to files that those
 * read, and merged to one module.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import type { Image, ImagePush } from '@squash/contract/image';
import type { ModuleDetails } from '@squash/contract/module';
import { Squash } from '@squash/sdk';
import { repository } from '../support/base-layer.ts';
import { squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { dockerArchive, tarOf } from '../support/image-archive.ts';
import { hostOf, type RegistryFault, TestRegistry } from '../support/registry.ts';
import { TokenRegistry } from '../support/token-registry.ts';

const isRoot = process.getuid?.() === 0;
let directory: string;
let registry: TestRegistry;
let tokens: TokenRegistry;
let daemon: TestDaemon;
/** A registry that does what it likes, and whom it sends others to. */
const servers = [createServer(), createServer()] as const;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'squash-push-'));
  registry = await TestRegistry.start();
  tokens = await TokenRegistry.start(registry);
  for (const server of servers) await once(server.listen(0, '127.0.0.1'), 'listening');
  const insecure = [...servers.map(hostOf), registry.host, tokens.host, tokens.tokenHost];
  daemon = await TestDaemon.start({
    files: { 'registry-auth.json': JSON.stringify({ auths: { ...registry.auth, ...tokens.auth } }) },
    env: { SQUASH_INSECURE_REGISTRIES: insecure.join(','), SQUASH_AUTH_TOKEN: 'token-of-images' },
  });
  await restarted(join(daemon.dataDir, 'registry-auth.json'));
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await tokens[Symbol.asyncDispose]();
  for (const server of servers) server.close();
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

test('podman pulls and runs what was pushed, and reads what was exported', {
  skip: !isRoot ? 'podman wants ids' : !existsSync('/usr/bin/podman') && 'neither podman nor docker is here',
}, async () => {
  const own = (name: string): readonly string[] => [`--${name}`, join(directory, 'podman', name)];
  const flags = ['--storage-driver', 'vfs', '--runtime', 'runc', '--cgroup-manager', 'cgroupfs'];
  flags.push('--events-backend', 'none');
  const podman = (...words: string[]): string =>
    execFileSync(
      'podman',
      [...own('root'), ...own('runroot'), ...own('tmpdir'), ...own('network-config-dir'), ...flags, ...words],
      {
        encoding: 'utf8',
        stdio: 'pipe',
        env: { ...process.env, TMPDIR: directory, XDG_RUNTIME_DIR: directory },
      },
    );
  const run = (image: string, ...words: string[]): string => {
    const limits = ['--ulimit', 'nofile=1024:4096', '--ulimit', 'nproc=1000:1000'];
    return podman('run', '--rm', '--network', 'none', '--log-driver', 'none', ...limits, image, ...words);
  };
  const name = `${registry.directHost}/push/changed:1`;
  podman('pull', '--tls-verify=false', '--creds', registry.credentials, name);
  assert.equal(run(name), 'new\n');
  assert.equal(
    run(name, 'sh', '-c', 'echo $A; ls /opt/dir /srv /srv/old'),
    'b c\n/opt/dir:\n\n/srv:\nold\nsticky\n\n/srv/old:\nagain\n',
  );
  podman('rmi', '--all', '--force');
  const file = join(directory, 'changed.tar');
  await cli('image', 'export', 'made/changed:1', file);
  assert.match(podman('load', '--input', file), /made\/changed:1/);
  assert.equal(run('docker.io/made/changed:1'), 'new\n');
});

test('an export is read by others in both of its forms, by Squash too, and is the same each time', async () => {
  const [file, again] = [join(directory, 'one.tar'), join(directory, 'two.tar')];
  await cli('image', 'export', 'made/changed:1', file);
  await cli('image', 'export', 'made/changed:1', again);
  assert.ok(readFileSync(file).equals(readFileSync(again)));
  const own = await shown('made/changed:1');
  for (const form of ['oci-archive', 'docker-archive'])
    assert.deepEqual(treeOf(`${form}:${file}`), own, form);
  await cli('image', 'import', file, '--name', 'back:1');
  assert.deepEqual(await shown('back:1'), own);
  await cli('image', 'rm', 'back:1');
  assert.equal((await squash(daemon, ['image', 'export', 'made/changed:1', file])).code, 1);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
});

test('what the registry has is not sent, also where the notes of layers are lost or are nonsense', async () => {
  const sent = (): readonly string[] =>
    registry.seen.filter(({ method }) => !['HEAD', 'GET'].includes(method)).map(({ path }) => path);
  registry.seen.length = 0;
  const notes = join(daemon.dataDir, 'images', 'blobs');
  const { digest, layers_present } = await push('made/changed:1', there('push/changed:1'));
  assert.deepEqual([sent(), layers_present], [[], 3]);
  for (const file of readdirSync(notes)) writeFileSync(join(notes, file), '{"form":1,"digest":"x"}');
  assert.equal((await push('made/changed:1', there('push/changed:1'))).digest, digest);
  assert.deepEqual(sent(), []);
  // Another name is one manifest more.
  await push('made/changed:1', there('push/changed:2'));
  assert.deepEqual(sent(), ['/v2/push/changed/manifests/2']);
});

test('programs push and export by both SDKs', async () => {
  const client = new Squash({ url: daemon.url, token: 'token-of-images' });
  const pushed = await client.images.push('made/changed:1', { destination: there('push/changed:3') });
  const file = join(directory, 'sdk.tar');
  await client.images.export('made/changed:1', file);
  assert.ok(readFileSync(file).equals(readFileSync(join(directory, 'one.tar'))));
  client.close();
  const program = [
    'import sys, squash',
    'client = squash.Squash(url=sys.argv[1], token="token-of-images")',
    'print(client.images.push("made/changed:1", destination=sys.argv[2]).digest)',
    'client.images.export("made/changed:1", sys.argv[3])',
    'print(client.images.flatten("made/changed:1", module="130-python").name)',
  ].join('\n');
  const words = ['-B', '-c', program, daemon.url, there('push/changed:4'), join(directory, 'python.tar')];
  const { stdout } = await promisify(execFile)('python3', words, { cwd: join(repository, 'python') });
  assert.equal(stdout, `${pushed.digest}\n130-python\n`);
  assert.ok(readFileSync(file).equals(readFileSync(join(directory, 'python.tar'))));
});

test('an upload goes on where its connection broke, begins anew where the registry has lost it, and ends some time', async () => {
  await importTar('made/large:1', tarOf([{ name: 'noise', data: randomBytes(34_000_000) }]));
  const asked = (method: string): number =>
    registry.seen.filter((each) => each.method === method && each.path.includes('/blobs/uploads/')).length;
  registry.seen.length = 0;
  let patches = 0;
  const faults: Readonly<Record<number, RegistryFault>> = { 2: 'gone', 3: 'half' };
  registry.fault = ({ method }) => (method === 'PATCH' ? (faults[++patches] ?? 'none') : 'none');
  await push('made/large:1', there('push/large:1'));
  // The first piece of the layer is kept, all of it is sent anew after the second break, and the configuration is an upload as well.
  assert.deepEqual([asked('POST'), asked('GET'), patches], [3, 2, 5]);
  registry.fault = ({ method }) => (method === 'PUT' ? 'gone' : 'none');
  const [refused] = await Promise.all([
    squash(daemon, ['image', 'push', 'made/base:1', there('push/never:1')]),
    cli('image', 'pull', there('push/large:1')),
  ]);
  assert.match(refused.stderr, /registry_unavailable/);
  registry.fault = () => 'none';
  assert.equal((await inspect(there('push/large:1'))).size_bytes, (await inspect('made/large:1')).size_bytes);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
});

test('a daemon that is killed in a push or a pull leaves nothing of it, and does it again', async () => {
  const before = await cli('image', 'ls', '-q');
  await cli('image', 'rm', there('push/large:1'));
  const modules = (): readonly string[] =>
    readdirSync(join(daemon.dataDir, 'modules')).filter((name) => name.startsWith('oci-'));
  const here = modules();
  for (const [method, words] of [
    ['PATCH', ['push', 'made/large:1', there('push/killed:1')]],
    ['GET', ['pull', there('push/large:1')]],
  ] as const) {
    const asked = Promise.withResolvers<void>();
    const layer = `/v2/push/large/blobs/${await largeLayer()}`;
    registry.fault = (request) => {
      if (request.method === method && (method === 'PATCH' || request.url === layer)) asked.resolve();
      return 'none';
    };
    const cut = squash(daemon, ['image', ...words]);
    await asked.promise;
    await daemon.kill();
    registry.fault = () => 'none';
    assert.notEqual((await cut).code, 0);
    await daemon.start({ SQUASH_REGISTRY_AUTH_FILE: join(daemon.dataDir, 'registry-auth.json') });
    assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
    assert.deepEqual(modules(), here);
    await cli('image', ...words);
  }
  assert.equal(await cli('image', 'ls', '-q'), before);
});

/** The digest of the blob in the registry. */
async function largeLayer(): Promise<string> {
  const answer = await fetch(`http://${registry.host}/v2/push/large/manifests/1`, {
    headers: {
      accept: 'application/vnd.oci.image.manifest.v1+json',
      authorization: `Basic ${Buffer.from(registry.credentials).toString('base64')}`,
    },
  });
  const { layers } = (await answer.json()) as { readonly layers: readonly { readonly digest: string }[] };
  return layers[0]?.digest ?? '';
}

test('a push gets a token that is good for it, and who may not push is told so', async () => {
  const refused = async (image: string, destination: string): Promise<string> =>
    (await squash(daemon, ['image', 'push', image, destination])).stderr;
  tokens.asked.length = 0;
  await push('made/base:1', `${tokens.host}/private/pushed:1`);
  const scopes = new Set(tokens.asked.map(({ scope }) => scope));
  assert.deepEqual([...scopes], ['repository:private/pushed:pull,push']);
  assert.match(await refused('made/none:1', there('push/none:1')), /image_not_found/);
  assert.match(
    await refused('made/base:1', `${there('push/x')}@sha256:${'0'.repeat(64)}`),
    /invalid_request/,
  );
  const wrong = Buffer.from('squash:wrong').toString('base64');
  const auths = { [registry.host]: { auth: wrong }, [tokens.host]: { auth: wrong } };
  writeFileSync(join(daemon.dataDir, 'registry-auth.json'), JSON.stringify({ auths }));
  for (const host of [registry.host, tokens.host])
    assert.match(await refused('made/base:1', `${host}/private/pushed:2`), /registry_denied/);
  const right = { auths: { ...registry.auth, ...tokens.auth } };
  writeFileSync(join(daemon.dataDir, 'registry-auth.json'), JSON.stringify(right));
});

test('a registry sends uploads to no network of the host that it is not in, and the login goes to it alone', async () => {
  const shown: (string | undefined)[] = [];
  let place = '';
  const [liar, other] = servers;
  liar.on('request', ({ method, headers }, answer) => {
    if (headers.authorization === undefined)
      answer.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
    else answer.writeHead(method === 'POST' ? 202 : 404, { location: place }).end();
  });
  other.on('request', ({ headers }, answer) => {
    shown.push(headers.authorization);
    answer.writeHead(403).end();
  });
  const auths = { [hostOf(liar)]: { auth: Buffer.from(registry.credentials).toString('base64') } };
  writeFileSync(join(daemon.dataDir, 'registry-auth.json'), JSON.stringify({ auths }));
  const pushed = async (to: string): Promise<string> => {
    place = to;
    return (await squash(daemon, ['image', 'push', 'made/base:1', `${hostOf(liar)}/x:1`])).stderr;
  };
  assert.match(await pushed(`http://${hostOf(other)}/upload`), /status 403.*registry_denied/s);
  assert.ok(shown.length > 0 && shown.every((each) => each === undefined));
  assert.match(await pushed('https://169.254.169.254/upload'), /169\.254\.169\.254.*registry_unavailable/s);
  const right = { auths: { ...registry.auth, ...tokens.auth } };
  writeFileSync(join(daemon.dataDir, 'registry-auth.json'), JSON.stringify(right));
});

test('a name that would delete in other engines is refused, and nothing of the image is sent', async () => {
  const id = (await cli('create', '--image', 'made/base:1')).trim();
  await cli('exec', '-u', '0', id, '--', 'sh', '-c', 'echo >/opt/.wh.one');
  await cli('image', 'commit', id, 'made/hostile:1');
  await cli('rm', '-y', id);
  for (const words of [
    ['push', 'made/hostile:1', there('push/hostile:1')],
    ['export', 'made/hostile:1', join(directory, 'hostile.tar')],
  ]) {
    const { stderr } = await squash(daemon, ['image', ...words]);
    assert.match(stderr, /"opt\/\.wh\.one" would be a deletion.*image_unsupported/s);
  }
});

test('an image that is here, in a registry or in a file becomes one module, and is otherwise as before', async () => {
  const own = (await shown('made/changed:1')).filter((line) => !line.startsWith('/bin '));
  const images = await cli('image', 'ls', '-q');
  const file = join(directory, 'one.tar');
  await cli('module', 'from-oci', 'made/changed:1');
  await cli('module', 'from-oci', 'made/changed:1', '--replace');
  await cli('module', 'from-oci', file, '110-file');
  await cli('module', 'from-oci', there('push/changed:2'), '120-pulled');
  assert.equal(await cli('image', 'ls', '-q'), images);
  assert.match(
    (await squash(daemon, ['module', 'from-oci', 'made/base:1', '100-changed'])).stderr,
    /module_exists/,
  );
  for (const name of ['100-changed', '110-file', '120-pulled']) {
    const unpacked = join(directory, 'unpacked');
    tool('unsquashfs', '-d', unpacked, join(daemon.dataDir, 'modules', `${name}.squashfs`));
    const lines = execFileSync(join(directory, 'tree-lines'), [unpacked], { encoding: 'latin1' });
    rmSync(unpacked, { recursive: true });
    const tree = lines.split('\n').filter((line) => isCompared(line) && !line.startsWith('/bin '));
    if (isRoot) assert.deepEqual(tree, own, name);
  }
  const { provenance, builder } = JSON.parse(
    await cli('module', 'inspect', '120-pulled', '--json'),
  ) as ModuleDetails;
  assert.deepEqual([builder, provenance['image']], ['squash module from-oci', there('push/changed:2')]);
});
