/**
 * Presets: each source against a mirror that serves archives in its upstream's form, what a failed build leaves (nothing), and the
 * original's words. What Debian's archive and npm's registry have is built from them.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { moduleDetailsSchema } from '@squash/contract/module';
import { z } from 'zod';
import { type ArchiveEntry, ArchiveMirror, packed, sha256, tarOf } from '../support/archive-mirror.ts';
import { repository } from '../support/base-layer.ts';
import { cliEnvironment, squash, squashOk } from '../support/cli.ts';
import { debianModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { debianMachine, publishUpstreams } from '../support/upstreams.ts';
import { waitFor } from '../support/wait.ts';

const builder = join(repository, 'images/main.ts');
const words = ['ALPINE', 'UBUNTU', 'VOID', 'PYTHON', 'GOLANG', 'TAILSCALE', 'NULLCLAW'];

let place: string;
let mirror: ArchiveMirror;
let environment: Record<string, string>;
before(async () => {
  place = mkdtempSync(join(tmpdir(), 'squash-presets-'));
  mirror = await ArchiveMirror.start();
  for (const name of ['cache', 'tmp', 'presets']) mkdirSync(join(place, name));
  environment = {
    XDG_CACHE_HOME: join(place, 'cache'),
    TMPDIR: join(place, 'tmp'),
    ...Object.fromEntries(words.map((word) => [`SQUASH_MIRROR_${word}`, `${mirror.url}/${word}`])),
  };
});
after(async () => {
  await mirror[Symbol.asyncDispose]();
  rmSync(place, { recursive: true });
});

const messageSchema = z.object({ message: z.string() });

interface Built {
  readonly code: number | null;
  readonly lines: readonly Record<string, unknown>[];
  readonly message: string;
}

async function build(preset: string, env: Readonly<Record<string, string>> = {}): Promise<Built> {
  const child = spawn(process.execPath, [builder, 'build', preset], {
    env: { ...process.env, ...environment, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { code, lines, message: messageSchema.safeParse(lines.at(-1)).data?.message ?? '' };
}

/** A preset of one archive, beside the test. */
function ownPreset(name: string, archive: Buffer, more: Record<string, unknown> = {}): string {
  mirror.put(`own/${name}.tar`, archive);
  const { source, ...fields } = more as { readonly source?: object };
  const sums = { [debianMachine]: sha256(archive) };
  const preset = {
    schema: 1,
    name,
    prefix: '300',
    module: name,
    sources: [
      {
        kind: 'archive',
        mirror: 'OWN',
        url: `${mirror.url}/own`,
        version: '1.0',
        architectures: { amd64: 'x', arm64: 'x' },
        file: `${name}.tar`,
        checksum: { kind: 'fixed', sha256: sums },
        ...source,
      },
    ],
    size: { squashfs_mb: 1, unpacked_mb: 1 },
    licence: 'MIT',
    summary: 'of a test',
    ...fields,
  };
  const file = join(place, 'presets', `${name}.json`);
  writeFileSync(file, JSON.stringify(preset));
  return file;
}

/** Nothing half-made: whole layers in the cache, and nothing else anywhere. */
function assertClean(layers: number): void {
  const cache = join(place, 'cache/squash/layers');
  const kept = readdirSync(cache, { recursive: false }).map(String);
  assert.deepEqual(
    kept.filter((name) => name.startsWith('work-')),
    [],
  );
  assert.equal(kept.length, layers);
  assert.deepEqual(readdirSync(join(place, 'tmp')), []);
}

const layersNow = (): number => {
  try {
    return readdirSync(join(place, 'cache/squash/layers')).length;
  } catch {
    // No build yet.
    return 0;
  }
};

test('what needs the wider Internet comes from mirrors, in the forms that upstreams have, by the original’s words', async () => {
  publishUpstreams(mirror, place);
  // The original's README exports a key under this name, and writes the name where the file has the value: neither stops the
  // daemon, nor does a mirror that is set for it too.
  const key = {
    placeholder: 'sk-placeholder-anthropic',
    value: '$SQUASH_ANTHROPIC_KEY',
    allowed_hosts: ['api.anthropic.com'],
  };
  await using daemon = await TestDaemon.start({
    env: { SQUASH_ANTHROPIC_KEY: 'sk-ant-of-the-user', SQUASH_MIRROR_ALPINE: mirror.url },
    files: { 'secrets.json': JSON.stringify({ secrets: { SQUASH_ANTHROPIC_KEY: key } }) },
  });
  const made = async (program: string, ...rest: string[]): Promise<string> => {
    const path = join(repository, 'packaging/bin', program);
    const { stdout } = await promisify(execFile)(path, rest, {
      env: { ...cliEnvironment(daemon), ...environment },
    });
    return stdout.trim().split('  ')[0] ?? '';
  };
  const inspect = async (name: string) =>
    moduleDetailsSchema.parse(JSON.parse(await squashOk(daemon, ['module', 'inspect', name, '--json'])));
  assert.equal(await made('sq-mkbase', 'alpine', '3.21'), '000-base-alpine');
  assert.equal(await made('sq-mkbase', 'ubuntu', 'noble'), '000-base-ubuntu');
  assert.equal(await made('sq-mkbase', 'void'), '000-base-void');
  for (const [preset, module] of [
    ['python3.12', '100-python312'],
    ['golang', '100-golang'],
    ['tailscale', '200-tailscale'],
    ['sqlite-libs-alpine', '090-sqlite-libs'],
    ['nullclaw', '200-nullclaw'],
  ] as const)
    assert.equal(await made('sq-mkmod', 'preset', preset), module);
  const { provenance, libc } = await inspect('100-python312');
  assert.equal(libc, 'glibc');
  assert.equal(provenance?.['version'], '3.12.12', 'the last of its line');
  assert.match(
    provenance?.['source'] ?? '',
    /^https:\/\/github\.com\/astral-sh\/.*cpython-3\.12\.12\+/,
    'never the mirror',
  );
  assert.match(provenance?.['digest'] ?? '', /^sha256:[0-9a-f]{64}$/);
  assert.equal((await inspect('100-golang')).provenance?.['version'], '1.25.4', '1.25 is newer than 1.9');
  assert.equal((await inspect('000-base-alpine')).provenance?.['version'], '3.21.10');

  const sh = async (id: string, line: string) => await squashOk(daemon, ['exec', id, '-c', line]);
  await squashOk(daemon, ['create', 'alpine', '-l', '000-base-alpine,090-sqlite-libs,200-nullclaw']);
  const look = [
    'cd /; hello; busybox cmp bin/cat bin/busybox; busybox test -e /usr/local/go || echo none',
    'busybox awk "{ print \\$3 }" /proc/self/uid_map; busybox stat -c "%a %u:%g" etc/shadow usr/bin/su',
  ].join(';');
  // With one id all owners are that id.
  assert.match(
    await sh('alpine', look),
    /^hello of musl\nnone\n *(?:1\n640 0:0|\d{2,}\n640 0:42)\n4755 0:0$/,
  );
  const refused = await squash(daemon, ['create', 'none', '-l', '000-base-alpine,100-python312']);
  assert.match(
    refused.stderr,
    /"100-python312" on "000-base-alpine": its programs are of glibc.*\(module_incompatible\)/,
  );

  assert.equal(await sh('alpine', 'cat /usr/lib/libsqlite3.so.0'), 'musl');
  // The seed's example: the program sees the placeholder.
  const nullclaw = '/usr/local/bin/nullclaw';
  assert.equal(await sh('alpine', `${nullclaw} --version`), 'nullclaw 2026.5.4\n[--version]');
  assert.equal(
    await sh('alpine', `${nullclaw} onboard --api-key "$SQUASH_ANTHROPIC_KEY" --interactive`),
    'nullclaw 2026.5.4\n[onboard]\n[--api-key]\n[sk-placeholder-anthropic]\n[--interactive]',
  );
  assert.match(
    await sh('alpine', `${nullclaw} agent -m "Solve this LeetCode problem" --skill coding`),
    /\[agent\]\n\[-m\]\n\[Solve this LeetCode problem\]/,
  );
  await squashOk(daemon, ['rm', 'alpine']);
  assertClean(layersNow());
  // One byte of the data: the index has the sum of what has its sum.
  const apk = `ALPINE/v3.21/main/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}/sqlite-libs-3.48.0-r4.apk`;
  mirror.files.get(apk)?.writeUInt8(255, (mirror.files.get(apk)?.length ?? 0) - 2);
  const changed = await build('sqlite-libs-alpine', { SQUASH_MIRROR_ALPINE: `${mirror.url}/./ALPINE` });
  assert.match(changed.message, /its checksum is [0-9a-f]{64}, and should be [0-9a-f]{64}/);

  const unknown = await squash(daemon, ['module', 'build', 'alpine', '--version', '3.99'], {
    env: environment,
  });
  assert.match(unknown.stderr, /latest-releases\.yaml: the server answered 404/);
  const none = await squash(daemon, ['module', 'build', 'python3.12', '--version', '3.7'], {
    env: environment,
  });
  assert.match(none.stderr, /no file like "cpython-3\.7\+.*SHA256SUMS" names none/);
});

test('a file of one’s own is a preset, in zstd too, and names the field that is wrong', async () => {
  const tar = packed(
    'zstd',
    tarOf([{ name: 'tool-1.0/bin/tool', data: '#!/bin/sh\necho tool\n', mode: 0o600 }]),
  );
  const steps = {
    source: { strip: 1, into: 'usr/local', only: ['*/bin'] },
    files: { 'etc/tool.conf': 'version={version}\n', 'etc/beside': { from: 'beside.txt' } },
    links: { 'usr/local/bin/t': 'tool' },
    executables: ['usr/local/bin/tool'],
    aliases: ['tools'],
  };
  const file = ownPreset('mine', tar, steps);
  writeFileSync(join(place, 'presets/beside.txt'), 'beside\n');
  const once_ = await build(file);
  assert.equal(once_.code, 0, once_.message);
  const layer = once_.lines.at(-1) as {
    readonly path: string;
    readonly manifest: { readonly squashfs_sha256: string };
  };
  const listed = execFileSync('unsquashfs', ['-lln', layer.path], { encoding: 'utf8' });
  for (const line of [
    /-rwx\S+ 0\/0 .* squashfs-root\/usr\/local\/bin\/tool$/m,
    /usr\/local\/bin\/t -> tool$/m,
    /etc\/beside$/m,
  ])
    assert.match(listed, line);
  assert.equal(
    execFileSync('unsquashfs', ['-cat', layer.path, 'etc/tool.conf'], { encoding: 'utf8' }),
    'version=1.0\n',
  );
  // By name and by alias, from the directory; again, the same bytes.
  const named = { SQUASH_PRESETS: join(place, 'presets') };
  assert.equal((await build('tools', named)).lines.at(-1)?.['path'], layer.path, 'from the cache');
  rmSync(join(place, 'cache'), { recursive: true });
  const again = (await build('mine', named)).lines.at(-1) as typeof layer;
  assert.equal(again.manifest.squashfs_sha256, layer.manifest.squashfs_sha256);
  const list = await squash(undefined, ['module', 'build', '--list'], { env: named });
  assert.match(list.stdout.toString(), /^mine +300-mine +1 MB +127\.0\.0\.1 +MIT +of a test$/m);
  assert.match(list.stdout.toString(), /^alpine +000-base-alpine +\d+ MB +dl-cdn\.alpinelinux\.org /m);
  const completed = await squash(undefined, ['__complete', '--', 'module', 'build', 'mi'], { env: named });
  assert.match(completed.stdout.toString(), /^mine\tof a test$/m);

  const good = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  const wrong: readonly (readonly [change: object, why: RegExp])[] = [
    [{ prefix: '30' }, /"prefix": three digits/],
    [{ colour: 'red' }, /colour/],
    [{ sources: [{ kind: 'rpm' }] }, /"sources\.0\.kind"/],
    [
      { sources: [{ kind: 'debian', packages: ['git; rm -rf /'] }] },
      /"sources\.0\.packages\.0": no name of a Debian package/,
    ],
    [{ links: { '../../etc/passwd': 'x' } }, /"links\.\.\.\/\.\.\/etc\/passwd": .*/],
    [{ files: { 'etc/key': { from: '../key' } } }, /"files\.etc\/key/],
    [{ base: 'debian' }, /"base": only Debian packages/],
  ];
  writeFileSync(join(place, 'key'), 'secret');
  for (const [change, why] of wrong) {
    writeFileSync(join(place, 'presets/wrong.json'), JSON.stringify({ ...good, name: 'wrong', ...change }));
    const { code, message } = await build(join(place, 'presets/wrong.json'));
    assert.deepEqual([code, why.test(message)], [1, true], message);
    assert.match(message, /^preset ".*wrong\.json/);
  }
  rmSync(join(place, 'presets/wrong.json'));
});

const hostile: Readonly<Record<string, readonly [entries: readonly ArchiveEntry[], why: RegExp]>> = {
  traversal: [[{ name: '../../etc/cron.d/x', data: 'x' }], /leads out of the archive/],
  'traversal-inside': [[{ name: 'a/../../x', data: 'x' }], /leads out of the archive/],
  'link-out': [[{ name: 'a/l', type: 'symlink', target: '../../../etc' }], /out of the layer/],
  'hard-link-out': [[{ name: 'l', type: 'link', target: '../../etc/shadow' }], /leads out of the archive/],
  'hard-link-nowhere': [[{ name: 'l', type: 'link', target: 'etc/shadow' }], /which is no file/],
  'through-a-link': [
    [
      { name: 'a', type: 'symlink', target: '/etc' },
      { name: 'a/passwd', data: 'x' },
    ],
    /which is no directory/,
  ],
  device: [[{ name: 'disk', type: 'char' }], /is a device/],
  pipe: [[{ name: 'pipe', type: 'fifo' }], /is a pipe/],
  whiteout: [[{ name: 'etc/.wh.passwd' }], /is a mark that deletes files/],
  twice: [
    [
      { name: 'a', data: '1' },
      { name: 'a', data: '2' },
    ],
    /is there twice/,
  ],
  'long-name': [[{ name: `${'n'.repeat(300)}`, data: 'x' }], /name that is too long/],
};

test('an archive that is hostile, damaged or another than it should be leaves nothing', async () => {
  const small = tarOf([{ name: 'usr/bin/x', data: Buffer.alloc(200_000, 7) }]);
  const before = layersNow();
  const zipped = packed('gzip', small);
  const bomb = packed('gzip', tarOf([{ name: 'zeros', data: Buffer.alloc(24 * 1_048_576) }]));
  const others: readonly (readonly [name: string, archive: Buffer, more: object, why: RegExp])[] = [
    ...Object.entries(hostile).map(
      ([name, [entries, why]]) => [name, packed('gzip', tarOf(entries)), {}, why] as const,
    ),
    ['cut-gzip', zipped.subarray(0, zipped.length / 2), {}, /damaged/],
    ['cut-xz', packed('xz', small).subarray(0, 100), {}, /damaged/],
    ['cut-zstd', packed('zstd', small).subarray(0, 30), {}, /damaged/],
    ['cut-tar', small.subarray(0, 100_000), {}, /ends at \d+, within an entry/],
    ['no-tar', Buffer.alloc(2_000, 'no archive'), {}, /tar: /],
    ['bomb', bomb, {}, /unpacks to more than/],
    [
      'wrong-sum',
      zipped,
      { source: { checksum: { kind: 'fixed', sha256: { [debianMachine]: '0'.repeat(64) } } } },
      /its SHA-256 is .*, and should be 0000/,
    ],
    ['no-sum', zipped, { source: { checksum: { kind: 'published', at: 'SUMS' } } }, /holds no SHA-256 of/],
    [
      'plain-http',
      zipped,
      { source: { url: 'http://mirror.example/x', checksum: { kind: 'published', at: 'SUMS' } } },
      /over http proves nothing/,
    ],
  ];
  mirror.put('own/SUMS', Buffer.from(`${'4'.repeat(64)}  other.tar\n`));
  const refuse = async ([name, archive, more, why]: (typeof others)[number]): Promise<void> => {
    const { code, message } = await build(ownPreset(name, archive, more as Record<string, unknown>));
    assert.deepEqual([code, why.test(message)], [1, true], `${name}: ${message}`);
  };
  for (let at = 0; at < others.length; at += 4) {
    await Promise.all(others.slice(at, at + 4).map(refuse));
    assertClean(before);
  }
});

test('a download is resumed and repeated, and tells its bytes; what can not be had leaves nothing', async () => {
  const archive = tarOf([{ name: 'usr/bin/x', data: Buffer.alloc(300_000, 7) }]);
  const file = ownPreset('flaky', archive);
  const path = 'own/flaky.tar';
  const first = mirror.asked.length;
  mirror.faults.set(path, { kind: 'cut', times: 2 });
  const { code, lines, message } = await build(file);
  assert.equal(code, 0, message);
  const asked = mirror.asked.slice(first);
  assert.equal(asked.length, 3);
  assert.match(asked.at(-1) ?? '', /^own\/flaky\.tar from \d+$/, 'the rest alone');
  assert.ok(
    lines.some((line) => line['bytes_done'] === archive.length && line['bytes_total'] === archive.length),
  );
  mirror.faults.set(path, { kind: 'busy', times: 1 });
  rmSync(join(place, 'cache/squash/layers'), { recursive: true });
  assert.equal((await build(file)).code, 0, 'a busy server is asked again');
  const gone = await build(ownPreset('gone', archive, { source: { file: 'nowhere.tar' } }));
  assert.match(gone.message, /own\/nowhere\.tar: the server answered 404$/);
  const large = await build(ownPreset('large', Buffer.alloc(21 * 1_048_576)));
  assert.match(large.message, /is larger than \d+ bytes/);
  assertClean(1);
});

test('what is cancelled, killed, or finds the disk full leaves nothing behind the next build', async () => {
  const archive = tarOf([{ name: 'usr/bin/x', data: Buffer.alloc(4 * 1_048_576, 'random') }]);
  const kept = layersNow();
  const file = ownPreset('stopped', archive);
  const path = 'own/stopped.tar';
  const start = async () => {
    mirror.faults.set(path, { kind: 'hang', times: 1 });
    const asked = mirror.asked.length;
    const child = spawn(process.execPath, [builder, 'build', file], {
      env: { ...process.env, ...environment },
      stdio: 'ignore',
    });
    await waitFor(
      'the download to hang',
      () => mirror.asked.slice(asked).includes(path) && readdirSync(join(place, 'tmp')).length > 0,
    );
    return child;
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const child = await start();
    child.kill(signal);
    assert.deepEqual(await once(child, 'exit'), [1, null]);
    assertClean(kept);
  }
  const killed = await start();
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  assert.equal(readdirSync(join(place, 'tmp')).length, 1);
  // A small disk of its own for everything that the build writes.
  const full = `mount -t tmpfs -o size=5m none "$TMPDIR" && "$@"; code=$?; ls -A "$TMPDIR"; exit $code`;
  const root = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  const words_ = [...root, '--mount', 'sh', '-c', full, 'sh', process.execPath, builder, 'build', file];
  const failed = await promisify(execFile)('unshare', words_, {
    env: { ...process.env, ...environment },
  }).then(
    () => '',
    (error: unknown) => (error as { readonly stdout: string }).stdout,
  );
  assert.match(
    failed.trim().split('\n').at(-1) ?? '',
    /^\{"type":"error","message":"the disk is full: .*ENOSPC/,
    failed,
  );
  assert.equal(
    readdirSync(join(place, 'tmp')).length,
    1,
    'what was killed is still there: the small disk hid it',
  );
  assert.equal((await build(file)).code, 0);
  assertClean(kept + 1);
});

test('SQLite from Debian’s archive and Node.js 22 from npm’s registry run in a sandbox', async () => {
  // Where users' builds lie: what was built before is not built again.
  const own = {
    XDG_CACHE_HOME: process.env['XDG_CACHE_HOME'] ?? '',
    TMPDIR: process.env['TMPDIR'] ?? tmpdir(),
  };
  const env = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== ''));
  await using daemon = await TestDaemon.start({ modules: await debianModules() });
  for (const [preset, module] of [
    ['sqlite-libs', '090-sqlite-libs'],
    ['nodejs22', '100-nodejs22'],
  ] as const) {
    const built = await squash(daemon, ['module', 'build', preset, '--json'], { env });
    assert.equal(built.code, 0, built.stderr);
    assert.equal(z.object({ name: z.string() }).parse(JSON.parse(built.stdout.toString())).name, module);
  }
  await squashOk(daemon, ['create', 'box', '-l', '000-base-debian,090-sqlite-libs,100-nodejs22']);
  const sh = async (line: string) => await squashOk(daemon, ['exec', 'box', '-c', line]);
  assert.match(await sh('node --version; npm --version; npx --version'), /^v22\.\d+\.\d+\n10\.\S+\n10\.\S+$/);
  assert.equal(await sh('sqlite3 :memory: "SELECT 6 * 7"'), '42');
  await squashOk(daemon, ['rm', 'box']);
});
