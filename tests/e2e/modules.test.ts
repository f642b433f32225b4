/** What is known of a module: manifests that travel with it, digests that hold, and programs that fit what they are stacked on. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import type { GcAnswer, ModuleDetails } from '@squash/contract/module';
import { gcAnswerSchema, moduleDetailsSchema } from '@squash/contract/module';
import { isOnVms } from '../support/backend.ts';
import { repository } from '../support/base-layer.ts';
import { cliEnvironment, squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';

const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64';

let daemon: TestDaemon;
let directory: string;
before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'squash-modules-'));
  daemon = await TestDaemon.start();
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

async function inspect(name: string): Promise<ModuleDetails> {
  return moduleDetailsSchema.parse(JSON.parse(await squashOk(daemon, ['module', 'inspect', name, '--json'])));
}

/** A directory with these files, all of them programs. */
function tree(name: string, files: Readonly<Record<string, string | Buffer>>): string {
  const root = join(directory, name);
  for (const [path, data] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), data, { mode: 0o755 });
  }
  return root;
}

const fromDirectory = (root: string, name: string, ...more: string[]) =>
  squashOk(daemon, ['module', 'build', 'from-dir', root, name, ...more]);

function compiled(compiler: string): Buffer {
  const source = join(directory, 'hello.c');
  writeFileSync(source, '#include <stdio.h>\nint main(void) { return puts("hello") < 0; }\n');
  const program = join(directory, compiler);
  execFileSync(compiler, ['-O1', '-o', program, source]);
  return readFileSync(program);
}

test('the same directory gives the same module, whose manifest goes along when it is exported and imported', async () => {
  const root = tree('tools', { 'usr/bin/tool': '#!/bin/sh\necho tool\n' });
  await fromDirectory(root, '300-tools');
  const built = await inspect('300-tools');
  assert.match(built.builder ?? '', /^squash \d/);
  assert.deepEqual([built.base, built.libc, built.architecture], [null, null, null]);
  // Another place, another moment: the same bytes, which change nothing.
  execFileSync('cp', ['-a', root, join(directory, 'copy')]);
  await fromDirectory(join(directory, 'copy'), '300-tools');
  assert.deepEqual({ ...(await inspect('300-tools')), built_at: '' }, { ...built, built_at: '' });

  const manifest = {
    schema: 1,
    name: 'elsewhere',
    built_at: '2026-11-23T00:00:00Z',
    builder: 'make',
    base: `000-base-test@sha256:${'0'.repeat(64)}`,
    packages: ['tool=1'],
    squashfs_sha256: built.sha256,
    provenance: { source: 'https://tools.example/' },
  };
  const wrong = { ...manifest, squashfs_sha256: 'f'.repeat(64) };
  const refused = await daemon.request('PUT', '/v1/modules/300-tools/manifest', wrong);
  assert.deepEqual([refused.status, /is of another file/.test(refused.text)], [400, true]);
  await daemon.call('PUT', '/v1/modules/300-tools/manifest', manifest);
  // Short as it comes, too long as it is kept: a module with it could not be read again.
  const long = { ...manifest, packages: Array.from({ length: 150_000 }, () => 'a') };
  const tooLong = await daemon.request('PUT', '/v1/modules/300-tools/manifest', long);
  assert.deepEqual([tooLong.status, /is longer than/.test(tooLong.text)], [400, true]);
  assert.equal((await inspect('300-tools')).builder, 'make');
  const file = join(directory, 'out.squashfs');
  assert.match(await squashOk(daemon, ['module', 'export', '300-tools', file]), /out\.squashfs {2}/);
  assert.match((await squash(daemon, ['module', 'export', '300-tools', file])).stderr, /\(file_exists\)/);
  await squashOk(daemon, ['module', 'import', file, '--name', '310-again']);
  const again = await inspect('310-again');
  assert.deepEqual(
    [again.sha256, again.builder, again.base, again.packages, again.provenance],
    [built.sha256, 'make', manifest.base, ['tool=1'], manifest.provenance],
  );
  const { stdout } = await squash(daemon, ['module', 'export', '300-tools', '-']);
  assert.ok(stdout.equals(readFileSync(file)));
  // Of another file, it describes nothing.
  writeFileSync(`${file}.manifest.json`, JSON.stringify(wrong));
  const other = await squash(daemon, ['module', 'import', file, '--name', '310-again']);
  assert.deepEqual([other.code, /is of another file/.test(other.stderr)], [1, true]);
  assert.equal((await inspect('310-again')).builder, 'make');
  // A daemon that finds both in its directory reads them, too.
  for (const end of ['', '.manifest.json']) {
    copyFileSync(
      join(daemon.dataDir, `modules/310-again.squashfs${end}`),
      join(daemon.dataDir, `modules/320-dropped.squashfs${end}`),
    );
  }
  assert.deepEqual((await inspect('320-dropped')).packages, ['tool=1']);
});

test('verify reads everything again, and names what has become another', async () => {
  const root = tree('verified', { data: 'x'.repeat(100_000) });
  await fromDirectory(root, '400-good');
  await fromDirectory(root, '400-bad');
  assert.match(
    await squashOk(daemon, ['module', 'verify', '400-good', '400-bad']),
    /400-good {2}ok .*\n400-bad {2}ok /,
  );
  appendFileSync(join(daemon.dataDir, 'modules/400-bad.squashfs'), '\0');
  const all = await squash(daemon, ['module', 'verify', '--json']);
  assert.equal(all.code, 1);
  const failed = (JSON.parse(all.stdout.toString()) as { name: string; ok: boolean }[]).filter(
    ({ ok }) => !ok,
  );
  assert.deepEqual(
    failed.map(({ name }) => name),
    ['400-bad'],
  );
  const one = await squash(daemon, ['module', 'verify', '400-bad']);
  assert.match(one.stdout.toString(), /^400-bad {2}FAIL {2}.*its digest is .*, it should be /);
  assert.match((await squash(daemon, ['module', 'inspect', '400-bad'])).stderr, /\(layer_corrupt\)/);
  assert.equal((await squash(daemon, ['module', 'export', '400-bad', '-'])).stdout.length, 0);
  await squashOk(daemon, ['module', 'rm', '400-bad']);
  assert.equal((await squash(daemon, ['module', 'verify'])).code, 0);
  assert.equal((await squash(daemon, ['module', 'verify', '400-none'])).code, 1);
});

test('what a sandbox has on its modules becomes a module in one step, also after a restore', async () => {
  const mkmod = (program: string, ...words: string[]) =>
    spawnSync(join(repository, 'packaging/bin', program), words, {
      encoding: 'utf8',
      env: cliEnvironment(daemon),
    });
  const sh = (id: string, line: string) => squashOk(daemon, ['exec', id, '-c', line]);
  await squashOk(daemon, ['create', 'maker', '-l', '000-base-test']);
  await sh(
    'maker',
    'echo 1 >/first; chown 7:8 /first 2>/dev/null; rm /etc/os-release; mkdir /over; echo 1 >/over/old',
  );
  await squashOk(daemon, ['snapshot', 'maker', 'one']);
  await squashOk(daemon, ['restore', 'maker', 'one']);
  await sh('maker', 'ln /first /again; rm -r /over; mkdir /over; echo 2 >/over/new');
  const made = mkmod('sq-mkmod', 'from-sandbox', 'maker', '300-made');
  assert.deepEqual([made.status, made.stdout.startsWith('300-made  ')], [0, true], made.stderr);
  assert.match(await squashOk(daemon, ['snapshots', 'ls', 'maker']), /^LABEL[^\n]*\none [^\n]*$/);
  const { provenance, base } = await inspect('300-made');
  assert.deepEqual([provenance, base], [{ sandbox: 'maker', layers: '000-base-test' }, null]);
  await squashOk(daemon, ['create', 'copy', '-l', '000-base-test,300-made']);
  const look =
    'cd /; cat again over/new; ls -A over; stat -c "%u:%g %h" first; test -e etc/os-release || echo gone';
  assert.equal(await sh('copy', look), await sh('maker', look));
  // With one id all owners are that id.
  assert.match(await sh('copy', look), /^1\n2\nnew\n(?:7:8|0:0) 2\ngone$/);

  // As it was: what came later is not in it.
  await squashOk(daemon, ['module', 'from-sandbox', 'maker', '--snapshot', 'one']);
  await squashOk(daemon, ['create', 'earlier', '-l', '000-base-test,900-maker']);
  assert.equal(
    await sh('earlier', 'cat /over/old; ls /again 2>&1 || echo none'),
    '1\nls: /again: No such file or directory\nnone',
  );

  const taken = await squash(daemon, ['module', 'from-sandbox', 'maker', '900-maker']);
  assert.deepEqual([taken.code, /\(module_exists\)/.test(taken.stderr)], [1, true]);
  assert.match((await squash(daemon, ['module', 'from-sandbox', 'none'])).stderr, /\(sandbox_not_found\)/);
  assert.match(await squashOk(daemon, ['snapshots', 'ls', 'maker']), /^LABEL[^\n]*\none [^\n]*$/);

  const named = await squash(daemon, ['module', 'build', 'from-dir', directory, 'bad name']);
  assert.deepEqual(
    [named.code, named.stderr],
    [2, 'squash: "bad name": a module’s name has letters, digits, "_", "." and "-", no "." first (usage)\n'],
  );
  const root = tree('old-words', { 'usr/bin/tool': '#!/bin/sh\necho tool\n' });
  assert.equal(mkmod('sq-mkmod', 'from-dir', root, '310-old').status, 0);
  assert.match(mkmod('sq-mkmod', 'list').stdout, /310-old/);
  assert.match(mkmod('sq-mkmod', 'preset', 'python9').stderr, /no preset "python9"/);
  assert.equal(mkmod('sq-mkbase', 'from-dir', root, 'old').status, 0);
  assert.match(mkmod('sq-mkbase', 'list').stdout, /000-base-old/);
  for (const program of ['sq-mkmod', 'sq-mkbase']) assert.equal(mkmod(program, 'other').status, 2);
  for (const id of ['maker', 'copy', 'earlier']) await squashOk(daemon, ['rm', id]);
});

test('programs of one C library are refused on a base with another, and run where they fit', async () => {
  const [glibc, musl] = [compiled('gcc'), compiled('musl-gcc')];
  const loaderOf = (program: Buffer) => /\/lib\S*\/ld-[\w.-]+/.exec(program.toString('latin1'))?.[0] ?? '';
  const places = ['proc', 'dev', 'sys', 'tmp', 'run', 'etc', 'root'].map(
    (name) => [`${name}/.keep`, ''] as const,
  );
  for (const [name, program] of Object.entries({ glibc, musl })) {
    const loader = loaderOf(program);
    const base = tree(`base-${name}`, {
      ...Object.fromEntries(places),
      [loader.slice(1)]: readFileSync(loader),
      'usr/bin/hello': program,
    });
    if (name === 'glibc') {
      const libc = `/lib/${machine}-linux-gnu/libc.so.6`;
      mkdirSync(join(base, dirname(libc)), { recursive: true });
      copyFileSync(libc, join(base, libc));
    }
    await fromDirectory(base, `000-base-${name}`);
    await fromDirectory(tree(`tool-${name}`, { 'usr/bin/tool': program }), `200-${name}`);
    const { libc, architecture } = await inspect(`200-${name}`);
    assert.deepEqual([libc, architecture], [name, machine]);
  }
  for (const [own, other] of [
    ['glibc', 'musl'],
    ['musl', 'glibc'],
  ] as const) {
    const layers = `000-base-${own}`;
    const refused = await squash(daemon, ['create', 'none', '-l', `${layers},200-${other}`]);
    assert.equal(refused.code, 1);
    assert.match(
      refused.stderr,
      new RegExp(
        `"200-${other}" on "000-base-${own}": its programs are of ${other} \\(${machine}\\), and the stack has ${own}.*\\(module_incompatible\\)`,
      ),
    );
    await squashOk(daemon, ['create', own, '-l', `${layers},200-${own}`]);
    assert.equal(await squashOk(daemon, ['exec', own, '--', '/usr/bin/tool']), 'hello');
    const activated = await squash(daemon, ['activate', own, `200-${other}`]);
    assert.match(activated.stderr, /\(module_incompatible\)/);
    assert.equal(await squashOk(daemon, ['exec', own, '--', '/usr/bin/hello']), 'hello', 'it goes on');
    // A base that brings both runs both.
    await squashOk(daemon, ['rm', own]);
  }
  await squashOk(daemon, ['create', 'both', '-l', '000-base-glibc,000-base-musl,200-glibc,200-musl']);
  await squashOk(daemon, ['rm', 'both']);
});

test('gc removes unpacked layers that no sandbox stands on, and they come again when they are wanted', async () => {
  const own = await TestDaemon.start();
  await using _own = own;
  const gc = async (...flags: string[]): Promise<GcAnswer> =>
    gcAnswerSchema.parse(JSON.parse(await squashOk(own, ['module', 'gc', '--json', ...flags])));
  const trees = (): number =>
    readdirSync(join(own.dataDir, 'layers')).filter((name) => name.length === 64).length;
  const disks = (): number => (isOnVms ? readdirSync(join(own.dataDir, 'vm/layers')).length : 0);
  // With the disk that a microVM has of each.
  const each = isOnVms ? 2 : 1;
  const inside = (id: string): Promise<string> => squashOk(own, ['exec', id, '--', 'cat', '/kept']);
  await squashOk(own, ['create', 'dev']);
  const big = 'yes one | head -c 3000000 >/big; ln /big /again; mkdir -p /a/b; echo one >/kept';
  await squashOk(own, ['exec', 'dev', '--', 'sh', '-c', big]);
  await squashOk(own, ['snapshot', 'dev', 'one']);
  await squashOk(own, ['restore', 'dev', 'one']);
  await squashOk(own, ['exec', 'dev', '--', 'sh', '-c', 'echo two >/kept']);
  await squashOk(own, ['snapshot', 'dev', 'two']);
  await squashOk(own, ['restore', 'dev', 'two']);
  // It stands on its base, on both snapshots, and on the certificates of its network.
  assert.deepEqual(await gc(), {
    dry_run: false,
    trees: 4 * each,
    trees_in_use: 4 * each,
    trees_removed: 0,
    bytes_freed: 0,
  });
  assert.equal(await inside('dev'), 'two');
  await squashOk(own, ['restore', 'dev', 'one']);
  const before = trees();
  const dry = await gc('--dry-run');
  assert.equal(trees(), before, 'nothing went');
  assert.ok(dry.dry_run && dry.trees_removed > 0 && dry.trees_in_use === 3 * each, JSON.stringify(dry));
  assert.deepEqual(await gc(), { ...dry, dry_run: false });
  assert.deepEqual([trees(), readdirSync(join(own.dataDir, 'trash'))], [3, []]);
  assert.equal(await inside('dev'), 'one', 'what it stands on is there');
  await squashOk(own, ['restore', 'dev', 'two']);
  assert.equal(await inside('dev'), 'two', 'and the other is unpacked again');
  // A base that nobody stands on goes too, with all its bytes.
  await squashOk(own, ['rm', 'dev']);
  const left = 1 + disks();
  const { json } = await own.request('POST', '/cgi-bin/api/gc', {});
  assert.deepEqual([json.stored_objects, json.live_objects, json.swept_objects], [left, 0, left]);
  assert.ok(json.bytes_freed > 500_000, JSON.stringify(json));
  await squashOk(own, ['create', 'new']);
  const refused = await own.request('POST', '/cgi-bin/api/gc', { include_s3: true });
  assert.deepEqual([refused.status, refused.json.code], [400, 'invalid_request']);
  assert.match(refused.text, /include_s3 is not offered/);
});

test('what a layer shows as a program is read as an enemy’s', async () => {
  const elf = (fields: {
    at?: bigint;
    size?: number;
    count?: number;
    length?: bigint;
    offset?: bigint;
  }): Buffer => {
    const image = Buffer.alloc(4_096);
    image.write('\u007fELF\u0002\u0001\u0001', 'latin1');
    image.writeUInt16LE(62, 18);
    image.writeBigUInt64LE(fields.at ?? 64n, 32);
    image.writeUInt16LE(fields.size ?? 56, 54);
    image.writeUInt16LE(fields.count ?? 1, 56);
    image.writeUInt32LE(3, 64);
    image.writeBigUInt64LE(fields.offset ?? 256n, 72);
    image.writeBigUInt64LE(fields.length ?? 28n, 96);
    image.write('/lib64/ld-linux-x86-64.so.2\0', 256, 'latin1');
    return image;
  };
  const forms: Readonly<Record<string, Buffer>> = {
    'far-table': elf({ at: 2n ** 64n - 1n }),
    'no-size': elf({ size: 0, count: 65_535 }),
    many: elf({ size: 56, count: 65_535, length: 2n ** 63n }),
    'far-name': elf({ offset: 2n ** 64n - 8n }),
    'long-name': elf({ length: 2n ** 40n }),
    short: Buffer.from('\u007fELF\u0002\u0001\u0001', 'latin1'),
    'other-name': Buffer.from(
      elf({}).toString('latin1').replace('ld-linux', '__proto__/constructor'),
      'latin1',
    ),
  };
  const programs = Object.entries(forms).map(([name, data]) => [`usr/bin/${name}`, data] as const);
  await fromDirectory(tree('forms', Object.fromEntries(programs)), '500-forms');
  assert.equal((await inspect('500-forms')).libc, null);
  await fromDirectory(tree('form-sound', { 'usr/bin/program': elf({}) }), '500-sound');
  assert.equal((await inspect('500-sound')).libc, 'glibc');
  // Links out of the tree, and what can be opened for ever.
  const root = join(directory, 'links');
  mkdirSync(join(root, 'usr/sbin'), { recursive: true });
  symlinkSync('/usr/bin', join(root, 'bin'));
  symlinkSync('/usr/bin', join(root, 'usr/bin'));
  symlinkSync('/usr/bin/env', join(root, 'usr/sbin/env'));
  execFileSync('mkfifo', [join(root, 'usr/sbin/fifo')]);
  await fromDirectory(root, '510-links');
  const { libc, architecture } = await inspect('510-links');
  assert.deepEqual([libc, architecture], [null, null]);
  assert.ok(readdirSync(join(daemon.dataDir, 'tmp')).length === 0);
});
