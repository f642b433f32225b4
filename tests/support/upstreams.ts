/** What the upstreams of the presets publish, in little: their layouts, their archives' forms and how they tell their sums. */
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ArchiveEntry, type ArchiveMirror, packed, tarOf } from './archive-mirror.ts';

const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
export const debianMachine = process.arch === 'arm64' ? 'arm64' : 'amd64';

function compiledIn(place: string, compiler: string, says: string): Buffer {
  const source = join(place, 'says.c');
  const program = join(place, compiler);
  writeFileSync(
    source,
    `#include <stdio.h>\nint main(int n, char **w) { puts(${JSON.stringify(says)}); for (int i = 1; i < n; i++) printf("[%s]\\n", w[i]); return 0; }\n`,
  );
  execFileSync(compiler, ['-O1', '-o', program, source]);
  return readFileSync(program);
}

const folders = (...names: string[]): ArchiveEntry[] => names.map((name) => ({ name, type: 'dir' }));

/** A root with musl's loader and a shell, as Alpine's and Void's archives are. */
function muslRoot(program: Buffer): readonly ArchiveEntry[] {
  const loader = /\/lib\/ld-musl-[\w-]+\.so\.1/.exec(program.toString('latin1'))?.[0] ?? '';
  return [
    ...folders(
      './',
      './bin',
      './dev',
      './etc',
      './lib',
      './proc',
      './root',
      './run',
      './sys',
      './tmp',
      './usr',
      './usr/bin',
    ),
    { name: './dev/null', type: 'char', mode: 0o666 },
    { name: './bin/busybox', data: readFileSync('/bin/busybox') },
    { name: './bin/sh', type: 'symlink', target: '/bin/busybox' },
    { name: './bin/cat', type: 'link', target: './bin/busybox' },
    { name: `.${loader}`, data: readFileSync(loader) },
    { name: './usr/bin/hello', data: program },
    { name: './usr/bin/su', data: program, mode: 0o4755 },
    { name: './etc/passwd', data: 'root:x:0:0:root:/root:/bin/sh\n', mode: 0o644 },
    { name: './etc/shadow', data: 'root:*::0:::::\n', mode: 0o640, gid: 42 },
    { name: './etc/hostname', data: 'builder-of-alpine\n', mode: 0o644 },
    { name: './etc/os-release', data: 'ID=alpine\n', mode: 0o644 },
  ];
}

/** Every upstream's layout, and how it publishes its sums. */
export function publishUpstreams(mirror: ArchiveMirror, place: string): void {
  const compiled = (compiler: string, says: string) => compiledIn(place, compiler, says);
  const musl = compiled('musl-gcc', 'hello of musl');
  const glibc = compiled('gcc', 'Python 3.12.12');
  const root = tarOf(muslRoot(musl));
  const alpine = `ALPINE/v3.21/releases/${machine}`;
  const minirootfs = `alpine-minirootfs-3.21.10-${machine}.tar.gz`;
  const sum = mirror.put(`${alpine}/${minirootfs}`, packed('gzip', root));
  mirror.put(`${alpine}/${minirootfs}.sha256`, Buffer.from(`${sum}  ${minirootfs}\n`));
  const flavours = ['3.21.9', '3.21.10'].flatMap((version) => [
    `-\n  flavor: alpine-standard\n  file: alpine-standard-${version}-${machine}.iso\n`,
    `-\n  flavor: alpine-minirootfs\n  file: alpine-minirootfs-${version}-${machine}.tar.gz\n`,
  ]);
  mirror.put(`${alpine}/latest-releases.yaml`, Buffer.from(`---\n${flavours.join('')}`));

  publishApk(mirror);

  const void_ = `void-${machine}-musl-ROOTFS-20250202.tar.xz`;
  const voidSum = mirror.put(`VOID/current/${void_}`, packed('xz', root));
  const other = void_.replace('musl-', '');
  mirror.put(
    'VOID/current/sha256sum.txt',
    Buffer.from(`SHA256 (${other}) = ${'0'.repeat(64)}\nSHA256 (${void_}) = ${voidSum}\n`),
  );

  const ubuntu = `ubuntu-base-24.04.3-base-${debianMachine}.tar.gz`;
  const merged: ArchiveEntry[] = [
    ...folders('usr', 'usr/bin', 'etc', 'etc/apt'),
    { name: 'bin', type: 'symlink', target: 'usr/bin' },
    { name: 'usr/bin/busybox', data: readFileSync('/bin/busybox') },
    { name: 'etc/apt/sources.list', data: 'deb http://archive.ubuntu.com/ubuntu noble main\n', mode: 0o644 },
  ];
  const ubuntuSum = mirror.put(`UBUNTU/24.04/release/${ubuntu}`, packed('gzip', tarOf(merged)));
  mirror.put('UBUNTU/24.04/release/SHA256SUMS', Buffer.from(`${ubuntuSum} *${ubuntu}\n`));

  const python = `cpython-3.12.12+20251031-${machine}-unknown-linux-gnu-install_only_stripped.tar.gz`;
  const tree = tarOf([
    { name: 'python/bin/python3.12', data: glibc, uid: 1001, gid: 1001 },
    { name: 'python/bin/python3', type: 'symlink', target: 'python3.12' },
  ]);
  const pythonSum = mirror.put(`PYTHON/20251031/${python}`, packed('gzip', tree));
  mirror.put(
    'PYTHON/20251031/SHA256SUMS',
    Buffer.from(`${'1'.repeat(64)}  ${python.replace('3.12.12', '3.12.9')}\n${pythonSum}  ${python}\n`),
  );

  const golang = `go1.25.4.linux-${debianMachine}.tar.gz`;
  const golangSum = mirror.put(
    `GOLANG/${golang}`,
    packed(
      'gzip',
      tarOf([
        { name: 'go/bin/go', data: compiled('gcc', 'go version go1.25.4') },
        { name: 'go/bin/gofmt', data: glibc },
        { name: 'go/test/x.go' },
      ]),
    ),
  );
  const release = (version: string, filename: string, sha: string) => ({
    version,
    files: [
      { filename: filename.replace('.linux', '.src.linux'), sha256: '2'.repeat(64) },
      { filename, sha256: sha },
    ],
  });
  mirror.put(
    'GOLANG/?mode=json&include=all',
    Buffer.from(
      JSON.stringify([
        release('go1.9', golang.replace('1.25.4', '1.9'), '3'.repeat(64)),
        release('go1.25.4', golang, golangSum),
      ]),
    ),
  );

  const tailscale = `tailscale_1.90.2_${debianMachine}.tgz`;
  const tailscaleSum = mirror.put(
    `TAILSCALE/${tailscale}`,
    packed(
      'gzip',
      tarOf(
        ['tailscale', 'tailscaled', 'systemd/tailscaled.service'].map((name) => ({
          name: `${tailscale.slice(0, -4)}/${name}`,
          data: glibc,
        })),
      ),
    ),
  );
  mirror.put(
    'TAILSCALE/?mode=json',
    Buffer.from(JSON.stringify({ Tarballs: { [debianMachine]: tailscale } })),
  );
  mirror.put(`TAILSCALE/${tailscale}.sha256`, Buffer.from(tailscaleSum));

  const nullclaw = `nullclaw-linux-${machine}.bin`;
  const script = `#!/bin/sh\necho "nullclaw 2026.5.4"; for word; do echo "[$word]"; done\n`;
  const nullclawSum = mirror.put(`NULLCLAW/v2026.5.4/${nullclaw}`, Buffer.from(script));
  mirror.put('NULLCLAW/v2026.5.4/SHA256SUMS', Buffer.from(`${nullclawSum}  ${nullclaw}\n`));
}

/** SQLite's library as Alpine has it: a signature, what the index has the sum of, what that has the sum of. */
function publishApk(mirror: ArchiveMirror): void {
  // All but the last end without the two empty blocks.
  const part = (name: string, text: string) =>
    packed('gzip', tarOf([{ name, data: text }]).subarray(0, 1_024));
  const data = packed('gzip', tarOf([{ name: 'usr/lib/libsqlite3.so.0', data: 'musl' }]));
  const hash = createHash('sha256').update(data).digest('hex');
  const control = part('.PKGINFO', `pkgname = sqlite-libs\ndatahash = ${hash}\n`);
  const sum = createHash('sha1').update(control).digest('base64');
  const index = `P:sqlite\nV:3.48.0-r0\nC:Q1x=\n\nC:Q1${sum}\nP:sqlite-libs\nV:3.48.0-r4\n\n`;
  const folder = `ALPINE/v3.21/main/${machine}`;
  const signature = part('.SIGN.RSA.alpine', 'signature');
  mirror.put(
    `${folder}/APKINDEX.tar.gz`,
    Buffer.concat([signature, packed('gzip', tarOf([{ name: 'APKINDEX', data: index }]))]),
  );
  mirror.put(`${folder}/sqlite-libs-3.48.0-r4.apk`, Buffer.concat([signature, control, data]));
}
