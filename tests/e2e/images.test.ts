/**
 * OCI images: from a real registry and from archives, made by tools that are not ours. What a sandbox shows is what `umoci` unpacks.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  copyFileSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Image, imageSchema } from '@squash/contract/image';
import { squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { dockerArchive, ownArchitecture, sha256, tarOf } from '../support/image-archive.ts';
import { TestRegistry } from '../support/registry.ts';
import { TokenRegistry } from '../support/token-registry.ts';

const isRoot = process.getuid?.() === 0;
let directory: string;
let registry: TestRegistry;
let tokens: TokenRegistry;
let daemon: TestDaemon;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'squash-images-'));
  execFileSync('gcc', [
    '-static',
    '-O1',
    '-o',
    join(directory, 'tree-lines'),
    join(import.meta.dirname, '../support/tree-lines.c'),
  ]);
  registry = await TestRegistry.start();
  tokens = await TokenRegistry.start(registry);
  const insecure = [registry.host, registry.awayHost, tokens.host, tokens.tokenHost];
  daemon = await TestDaemon.start({
    files: { 'registry-auth.json': JSON.stringify({ auths: { ...registry.auth, ...tokens.auth } }) },
    env: { SQUASH_INSECURE_REGISTRIES: insecure.join(','), SQUASH_AUTH_TOKEN: 'token-of-images' },
  });
  await daemon.stop();
  await daemon.start(login());
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await tokens[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

const login = () => ({ SQUASH_REGISTRY_AUTH_FILE: join(daemon.dataDir, 'registry-auth.json') });
const layout = (): string => join(directory, 'layout');
const tool = (program: string, ...words: string[]): string =>
  execFileSync(program, words, { encoding: 'utf8', stdio: 'pipe' });
const push = (from: string, name: string, ...more: string[]): string =>
  tool(
    'skopeo',
    'copy',
    '--dest-tls-verify=false',
    '--dest-creds',
    registry.credentials,
    ...more,
    from,
    `docker://${registry.directHost}/${name}`,
  );

/** A tag with what `change` does to the tree of another one as one more layer. */
function layer(from: string, to: string, change: (root: string) => void): void {
  const bundle = join(directory, `bundle-${to}`);
  if (from !== to) tool('umoci', 'tag', '--image', `${layout()}:${from}`, to);
  tool('umoci', 'unpack', '--image', `${layout()}:${to}`, bundle);
  change(join(bundle, 'rootfs'));
  tool('umoci', 'repack', '--refresh-bundle', '--image', `${layout()}:${to}`, bundle);
  rmSync(bundle, { recursive: true });
}

function makeLayout(): void {
  tool('umoci', 'init', '--layout', layout());
  tool('umoci', 'new', '--image', `${layout()}:base`);
  layer('base', 'base', (root) => {
    for (const name of ['bin', 'etc', 'root', 'opt/dir/sub', 'home/app', 'srv/gone', 'usr/lib'])
      mkdirSync(join(root, name), { recursive: true });
    mkdirSync(join(root, 'tmp'));
    execFileSync('chmod', ['1777', join(root, 'tmp')]);
    copyFileSync('/bin/busybox', join(root, 'bin/busybox'));
    for (const name of ['sh', 'ls', 'cat', 'id', 'env', 'pwd'])
      symlinkSync('busybox', join(root, 'bin', name));
    copyFileSync(join(directory, 'tree-lines'), join(root, 'bin/tree-lines'));
    writeFileSync(
      join(root, 'etc/passwd'),
      'root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001:App:/home/app:/bin/sh\n',
    );
    writeFileSync(join(root, 'opt/dir/one'), 'one\n');
    writeFileSync(join(root, 'opt/dir/sub/deep'), 'deep\n');
    linkSync(join(root, 'opt/dir/one'), join(root, 'opt/linked'));
    writeFileSync(join(root, 'srv/gone/file'), 'x\n');
    symlinkSync('../../../../etc/passwd', join(root, 'opt/out'));
    writeFileSync(join(root, 'opt/Case'), '1');
    writeFileSync(join(root, 'opt/case'), '2');
    writeFileSync(Buffer.concat([Buffer.from(`${root}/opt/`), Buffer.from([0xff, 0xfe])]), 'no text\n');
    writeFileSync(join(root, `opt/${'n'.repeat(200)}`), 'long\n');
  });
  layer('base', 'opaque', (root) => {
    rmSync(join(root, 'opt/dir'), { recursive: true });
    mkdirSync(join(root, 'opt/dir'));
    writeFileSync(join(root, 'opt/dir/two'), 'two\n');
    rmSync(join(root, 'srv/gone'), { recursive: true });
    rmSync(join(root, 'opt/case'));
  });
  layer('opaque', 'links', (root) => {
    linkSync(join(root, 'opt/linked'), join(root, 'opt/again'));
    writeFileSync(join(root, 'opt/new'), 'new\n');
    linkSync(join(root, 'opt/new'), join(root, 'opt/newer'));
    rmSync(join(root, 'srv'), { recursive: true });
    writeFileSync(join(root, 'srv'), 'a file where a directory was\n');
  });
  layer('links', 'owners', (root) => {
    writeFileSync(join(root, 'opt/owned'), 'owned\n');
    if (isRoot) chownSync(join(root, 'opt/owned'), 1_000, 65_000);
    writeFileSync(join(root, 'opt/setuid'), 'set\n');
    execFileSync('chmod', ['4755', join(root, 'opt/setuid')]);
    execFileSync('setfattr', ['-n', 'user.mark', '-v', 'yes', join(root, 'opt/owned')]);
    if (isRoot)
      execFileSync('setfattr', [
        '-n',
        'security.capability',
        '-v',
        '0x0100000200040000000000000000000000000000',
        join(root, 'opt/new'),
      ]);
  });
  tool(
    'umoci',
    'config',
    '--image',
    `${layout()}:owners`,
    '--config.user',
    'app',
    '--config.workingdir',
    '/opt',
    '--config.env',
    'GREETING=hello world',
    '--config.entrypoint',
    '/bin/ls',
    '--config.label',
    'a=b',
  );
}

/** Not what a sandbox adds to any root. */
const isCompared = (line: string): boolean =>
  !/^\/(proc|dev|etc|usr)(\/(?!lib)\S*)? /.test(line) || line.startsWith('/etc/passwd ');

function unpacked(source: string): readonly string[] {
  const bundle = join(directory, 'unpacked');
  tool('umoci', 'unpack', '--image', source, bundle);
  const lines = execFileSync(join(directory, 'tree-lines'), [join(bundle, 'rootfs')], { encoding: 'latin1' });
  rmSync(bundle, { recursive: true });
  return lines.split('\n').filter(isCompared);
}

async function shown(name: string): Promise<readonly string[]> {
  const id = (await squashOk(daemon, ['create', '--image', name])).trim();
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
    await squashOk(daemon, ['rm', '-y', id]);
  }
}

const inspect = async (name: string): Promise<Image> =>
  imageSchema.parse(JSON.parse(await squashOk(daemon, ['image', 'inspect', name, '--json'])));

test('images that other tools make show the same tree in a sandbox, whatever compresses and carries them', async () => {
  makeLayout();
  const zstd = ['--dest-compress-format', 'zstd', '--dest-compress'];
  for (const [tag, more] of [
    ['base', []],
    ['opaque', zstd],
    ['links', []],
    ['owners', zstd],
  ] as const) {
    push(`oci:${layout()}:${tag}`, `test/${tag}:1`, ...more);
    assert.deepEqual(await shown(`${registry.host}/test/${tag}:1`), unpacked(`${layout()}:${tag}`), tag);
  }
});

test('an image of a hundred layers is merged and shows the same tree', async () => {
  const busybox = [
    { name: 'tmp/', mode: 0o1777 },
    { name: 'bin/' },
    { name: 'bin/tree-lines', mode: 0o755, data: execFileSync('cat', [join(directory, 'tree-lines')]) },
  ];
  const layers = [
    tarOf(busybox),
    ...Array.from({ length: 99 }, (_, at) =>
      tarOf([
        { name: 'opt/' },
        { name: `opt/${at}`, data: `${at}` },
        { name: 'opt/last', data: `${at}`, mtime: at },
        ...(at % 7 === 6 ? [{ name: `opt/.wh.${at - 3}` }] : []),
        ...(at === 50 ? [{ name: 'opt/.wh..wh..opq' }] : []),
      ]),
    ),
  ];
  const file = join(directory, 'deep.tar');
  writeFileSync(file, dockerArchive({ layers, name: 'deep:1' }));
  await squashOk(daemon, ['image', 'import', file]);
  tool('skopeo', 'copy', `docker-archive:${file}`, `oci:${layout()}:deep`);
  const tree = unpacked(`${layout()}:deep`);
  assert.deepEqual(await shown('deep:1'), tree);
  // What goes out again has the merged layer in it.
  const back = join(directory, 'deep-back.tar');
  await squashOk(daemon, ['image', 'export', 'deep:1', back]);
  tool('skopeo', 'copy', `oci-archive:${back}`, `oci:${layout()}:deep-back`);
  assert.deepEqual(unpacked(`${layout()}:deep-back`), tree);
  const { layers: count, modules } = await inspect('deep:1');
  assert.deepEqual([count, modules.length], [100, 24]);
});

test('commands have user, directory and variables from the image, where nobody says otherwise', async () => {
  const id = (
    await squashOk(daemon, ['create', '--image', `${registry.host}/test/owners:1`, '--env', 'OWN=1'])
  ).trim();
  const of = (...words: string[]) => squashOk(daemon, ['exec', ...words]);
  const script = 'id -u; id -g; pwd; echo $HOME $GREETING $OWN';
  assert.equal(await of(id, '--', 'sh', '-c', script), '1000\n1001\n/opt\n/home/app hello world 1');
  assert.equal(
    await of('-u', '0', '-w', '/tmp', id, '--', 'sh', '-c', 'id -u; pwd; echo $HOME'),
    '0\n/tmp\n/root',
  );
  const { json } = await daemon.request('GET', `/v1/sandboxes/${id}`);
  assert.deepEqual(
    [json.image.user, json.image.labels, json.image.entrypoint],
    ['app', { a: 'b' }, ['/bin/ls']],
  );
  // A fork is of the same image, and goes on where the image is gone.
  const fork = (await squashOk(daemon, ['fork', id])).trim();
  await squashOk(daemon, ['snapshot', id, 'one']);
  await squashOk(daemon, ['image', 'rm', `${registry.host}/test/owners:1`]);
  await squashOk(daemon, ['module', 'gc']);
  await squashOk(daemon, ['restore', id, 'one']);
  await daemon.stop();
  await daemon.start(login());
  assert.equal(await of(fork, '--', 'sh', '-c', 'id -u; cat /opt/new'), '1000\nnew');
  await squashOk(daemon, ['rm', '-y', id, fork]);
});

test('run takes an image for one command, and the image’s own where none is named', async () => {
  const name = `${registry.host}/test/owners:1`;
  const ls = (await squashOk(daemon, ['run', '--image', name])).split('\n');
  // Its entrypoint, in its directory.
  assert.ok(ls.includes('owned') && ls.includes('linked'), ls.join(' '));
  assert.equal(await squashOk(daemon, ['run', '--image', name, 'sh', '-c', 'id -u; pwd']), '1000\n/opt');
  const refused = await squash(daemon, ['run', '--image', `${registry.host}/test/base:1`]);
  assert.match(refused.stderr, /names no command/);
  assert.equal(await squashOk(daemon, ['ls', '--quiet']), '');
});

test('layers are shared, listed as images alone, and go with the last that needs them', async () => {
  const file = join(directory, 'shared.tar');
  const common = tarOf([{ name: 'common', data: 'x' }]);
  for (const name of ['one', 'two']) {
    writeFileSync(
      file,
      dockerArchive({ layers: [common, tarOf([{ name, data: name }])], name: `shared-${name}:1` }),
    );
    await squashOk(daemon, ['image', 'import', file]);
  }
  const [one, two] = [await inspect('shared-one:1'), await inspect('shared-two:1')];
  assert.equal(one.modules[0], two.modules[0]);
  assert.equal(one.modules[0], `oci-${sha256(common)}`);
  assert.equal((await squash(daemon, ['module', 'rm', one.modules[0] ?? ''])).code, 1);
  assert.doesNotMatch(await squashOk(daemon, ['module', 'ls']), /oci-/);
  assert.doesNotMatch((await daemon.request('GET', '/cgi-bin/api/modules')).text, /oci-/);
  await squashOk(daemon, ['image', 'rm', 'shared-one:1']);
  const files = readdirSync(join(daemon.dataDir, 'modules'));
  assert.deepEqual(
    [one.modules[1], two.modules[0]].map((name) => files.includes(`${name}.squashfs`)),
    [false, true],
  );
});

/** Puts a manifest there as it is, by no tool that would look at it. */
async function put(path: string, body: string, type: string): Promise<void> {
  const answer = await fetch(`http://${registry.host}/v2/${path}`, {
    method: 'PUT',
    headers: {
      'content-type': type,
      authorization: `Basic ${Buffer.from(registry.credentials).toString('base64')}`,
    },
    body,
  });
  assert.equal(answer.status, 201, await answer.text());
}

test('of an index the image for this machine is taken, and one for others is refused', async () => {
  const read = tool(
    'skopeo',
    'inspect',
    '--raw',
    '--tls-verify=false',
    '--creds',
    registry.credentials,
    `docker://${registry.directHost}/test/base:1`,
  );
  const type = 'application/vnd.oci.image.manifest.v1+json';
  const row = (architecture: string) => ({
    mediaType: type,
    digest: `sha256:${sha256(read)}`,
    size: read.length,
    platform: { os: 'linux', architecture },
  });
  const index = (...architectures: string[]): string =>
    JSON.stringify({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.index.v1+json',
      manifests: architectures.map(row),
    });
  await put(
    'test/base/manifests/index',
    index('s390x', ownArchitecture),
    'application/vnd.oci.image.index.v1+json',
  );
  await put(
    'test/base/manifests/others',
    index('s390x', 'riscv64'),
    'application/vnd.oci.image.index.v1+json',
  );
  await squashOk(daemon, ['image', 'pull', `${registry.host}/test/base:index`]);
  const other = await squash(daemon, ['image', 'pull', `${registry.host}/test/base:others`]);
  assert.match(other.stderr, /linux\/s390x, linux\/riscv64.*image_unsupported/s);
});

test('a pull goes on where the connection was cut, and takes no bytes that are others', async () => {
  const noise = randomBytes(400_000);
  for (const name of ['cut', 'wrong']) {
    writeFileSync(
      join(directory, 'noise.tar'),
      dockerArchive({ layers: [tarOf([{ name, data: noise }])], name: `${name}:1` }),
    );
    push(`docker-archive:${join(directory, 'noise.tar')}`, `test/${name}:1`);
  }
  registry.seen.length = 0;
  let cuts = 0;
  registry.fault = ({ url = '' }) => (url.includes('/blobs/') && cuts++ < 3 ? 'cut' : 'none');
  await squashOk(daemon, ['image', 'pull', `${registry.host}/test/cut:1`]);
  assert.ok(registry.seen.some(({ range }) => range !== undefined && /^bytes=[1-9]\d*-$/.test(range)));
  registry.fault = ({ url = '' }) => (url.includes('/blobs/') ? 'wrong' : 'none');
  const refused = await squash(daemon, ['image', 'pull', `${registry.host}/test/wrong:1`]);
  assert.match(refused.stderr, /digest.*image_invalid/s);
  registry.fault = () => 'none';
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
});

test('who may not ask the registry gets what is here, and is told so of what is not', async () => {
  const { json } = await daemon.request('POST', '/v1/keys', { name: 'k', owner: 'team', scope: 'manage' });
  const as = { authorization: `Bearer ${json.token}` };
  const ask = async (path: string, body: unknown) => {
    const headers = { ...as, 'content-type': 'application/json' };
    const answer = await fetch(`${daemon.url}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    return (await answer.json()) as { readonly id: string; readonly code: string };
  };
  const make = (image: string) => ask('/v1/sandboxes', { image });
  const made = await make(`${registry.host}/test/base:1`);
  assert.equal((await make(`${registry.host}/test/unknown:1`)).code, 'image_not_found');
  assert.equal((await ask('/v1/images', { reference: 'a' })).code, 'forbidden');
  await squashOk(daemon, ['rm', '-y', made.id]);
});

test('a registry that wants tokens gets one of its token service, for the one image, with the login where there is one', async () => {
  push(`oci:${layout()}:base`, 'private/base:1');
  push(`oci:${layout()}:links`, 'public/links:1');
  await squashOk(daemon, ['image', 'pull', `${tokens.host}/private/base:1`]);
  assert.deepEqual(await shown(`${tokens.host}/private/base:1`), unpacked(`${layout()}:base`));
  const [asked] = tokens.asked;
  assert.equal(asked?.scope, 'repository:private/base:pull');
  assert.match(asked?.authorization ?? '', /^Basic /);
  // Who has no login gets what is public, as of Docker Hub.
  await daemon.stop();
  await daemon.start({ SQUASH_REGISTRY_AUTH_FILE: '' });
  tokens.asked.length = 0;
  await squashOk(daemon, ['image', 'pull', `${tokens.host}/public/links:1`]);
  assert.deepEqual(tokens.asked[0], { scope: 'repository:public/links:pull', authorization: undefined });
  const refused = await squash(daemon, ['image', 'pull', '--again', `${tokens.host}/private/base:1`]);
  assert.match(refused.stderr, /registry_denied/);
  await daemon.stop();
  await daemon.start(login());
});

test('a registry that sends its blobs from another host does not send the login there', async () => {
  push(`oci:${layout()}:owners`, 'test/away:1');
  registry.fault = ({ url }) => (url?.includes('/blobs/') === true ? 'away' : 'none');
  try {
    await squashOk(daemon, ['image', 'pull', '--again', `${registry.host}/test/away:1`]);
  } finally {
    registry.fault = () => 'none';
  }
  assert.ok(registry.shownAway.length > 0);
  assert.ok(registry.shownAway.every((each) => each === undefined));
});

test('a registry that refuses, is not there, or has no login is told apart', async () => {
  const codes: Readonly<Record<string, RegExp>> = {
    [`${registry.host}/test/nothing:1`]: /registry_denied/,
    'localhost:1/nothing:1': /registry_unavailable/,
    'Not A Name': /invalid_request/,
  };
  for (const [name, code] of Object.entries(codes))
    assert.match((await squash(daemon, ['image', 'pull', name])).stderr, code);
});

test('buildah’s image is taken from its OCI layout as it lies on the disk', {
  skip: !isRoot && 'buildah wants ids',
}, async () => {
  const buildah = (...words: string[]): string =>
    tool(
      'buildah',
      '--root',
      join(directory, 'store'),
      '--runroot',
      join(directory, 'run'),
      '--storage-driver',
      'vfs',
      ...words,
    );
  const container = buildah('from', 'scratch').trim();
  buildah('copy', container, join(directory, 'tree-lines'), '/bin/tree-lines');
  buildah('config', '--cmd', '/bin/tree-lines', container);
  buildah('commit', container, `oci:${join(directory, 'buildah')}:one`);
  buildah('rm', container);
  await squashOk(daemon, ['image', 'import', join(directory, 'buildah'), '--name', 'buildah:1']);
  const own = (await shown('buildah:1')).filter((line) => !line.startsWith('/tmp '));
  assert.deepEqual(own, unpacked(`${join(directory, 'buildah')}:one`));
  assert.ok(lstatSync(join(directory, 'buildah', 'index.json')).isFile());
});
