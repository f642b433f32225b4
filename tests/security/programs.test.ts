/**
 * What the filter refuses must not break what people run: a table of real programs that ask the kernel for interfaces,
 * terminals, filters or asynchronous input and output, each in a sandbox. On the layer of `clients-layer.ts`; iproute2,
 * SQLite and PostgreSQL are taken from this machine, where it has them.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { clientModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';

const run = promisify(execFile);
const sandboxes = '/cgi-bin/api/sandboxes';

interface Program {
  readonly name: string;
  /** Files and folders of this machine that it is; libraries are found. */
  readonly needs?: readonly string[];
  readonly cmd: string;
  readonly says: RegExp;
}

const nativeIo = `import ctypes; c = ctypes.CDLL(None, use_errno=True); p = ctypes.c_ulong(0)
print(c.syscall(206, 1, ctypes.byref(p)), ctypes.get_errno())`;
const interfaces = `import socket; print([name for _, name in socket.if_nameindex()], socket.gethostbyname("localhost"))`;
const terminals = 'import pty, os; print(os.ttyname(pty.openpty()[1]))';
const java = `import java.net.*; import java.util.*; public class I { public static void main(String[] a) throws Exception {
for (NetworkInterface n : Collections.list(NetworkInterface.getNetworkInterfaces())) System.out.println(n.getName()); } }`;
const cluster = `useradd -m db 2>/dev/null; cd /home/db; su db -c 'export PATH=/usr/lib/postgresql/15/bin:$PATH
initdb -A trust -D data >log && pg_ctl -w -D data -o "-k /tmp" -l server start >>log &&
psql -h /tmp postgres -Atc "create table t as select generate_series(1, 1000) n" -c "select sum(n) from t"; pg_ctl -D data -m fast stop >>log'`;

const programs: readonly Program[] = [
  {
    name: 'iproute2',
    needs: ['/usr/sbin/ip'],
    cmd: 'ip addr; ip route; ip -s link',
    says: /lo: .*LOOPBACK.*127\.0\.0\.1\/8/s,
  },
  { name: 'busybox ip', cmd: 'busybox ip addr', says: /lo: .*127\.0\.0\.1\/8/s },
  { name: 'getifaddrs of Python', cmd: `python3 -c '${interfaces}'`, says: /'lo'.* 127\.0\.0\.1/ },
  {
    name: 'getifaddrs of Node',
    cmd: `node -p 'os.networkInterfaces().lo[0].address'`,
    says: /^127\.0\.0\.1$/m,
  },
  {
    name: 'a pseudo-terminal',
    cmd: `python3 -c '${terminals}' && script -qec tty /dev/null`,
    says: /\/dev\/pts\/\d+\s+\/dev\/pts\/\d/,
  },
  {
    name: 'apt',
    cmd: 'apt-get --version; apt-get check 2>&1; apt-cache policy dpkg',
    says: /apt \d.*Installed: \d/s,
  },
  { name: 'dpkg', cmd: 'dpkg --audit; dpkg -l bash', says: /^ii\s+bash/m },
  {
    name: 'a Java machine',
    cmd: `cd /tmp; echo '${java}' >I.java && ecj -proc:none -17 I.java && java -cp . I`,
    says: /^lo$/m,
  },
  {
    name: 'a Go program',
    cmd: 'rclone version; rclone lsf /etc --include hostname --include passwd 2>/dev/null',
    says: /go\/version: go.*passwd/s,
  },
  {
    name: 'a program that asks for io_setup',
    cmd: `test $(uname -m) = x86_64 || { echo -1 38; exit; }; python3 -c '${nativeIo}'`,
    says: /^-1 38$/m,
  },
  {
    name: 'git',
    cmd: 'cd /tmp && git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -qm x --allow-empty && git log --format=%s',
    says: /^x$/m,
  },
  {
    name: 'SQLite of Python',
    cmd: `python3 -c 'import sqlite3; c = sqlite3.connect("/tmp/p.db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(n)"); print(c.execute("select count(*) from t").fetchone())'`,
    says: /\(0,\)/,
  },
  {
    name: 'sqlite3',
    needs: ['/usr/bin/sqlite3'],
    cmd: `sqlite3 /tmp/s.db 'pragma journal_mode=wal; create table t(n); insert into t values (7); select n from t;'`,
    says: /wal\s+7/,
  },
  {
    name: 'PostgreSQL',
    needs: ['/usr/lib/postgresql/15', '/usr/share/postgresql/15'],
    cmd: cluster,
    says: /^500500$/m,
  },
];

const isHere = (program: Program): boolean => (program.needs ?? []).every((path) => existsSync(path));

/** A module of files of this machine with the libraries that the dynamic linker finds for them. */
async function moduleOf(folder: string, needs: readonly string[]): Promise<string> {
  const executables: string[] = [];
  for (const path of needs) {
    const bin = join(path, 'bin');
    if (existsSync(bin)) executables.push(...(await readdir(bin)).map((name) => join(bin, name)));
    else if (!path.startsWith('/usr/share')) executables.push(path);
  }
  const { stdout } = await run('sh', ['-c', 'ldd "$@" 2>/dev/null || true', 'sh', ...executables]);
  const libraries = [...new Set([...stdout.matchAll(/=> (\/\S+)/g)].map((match) => match[1] ?? ''))];
  const tree = join(folder, 'tree');
  await run('mkdir', ['-p', join(tree, 'usr')]);
  // The layer below has the C library, and the same release of it.
  const copied = libraries.filter((path) => !/\/(libc|libm|ld-linux[^/]*)\.so/.test(path));
  const merged = copied.map((path) => (path.startsWith('/lib') ? `/usr${path}` : path));
  await run('sh', ['-c', 'tree=$1; shift; cp -rL --parents "$@" "$tree"', 'sh', tree, ...needs, ...merged]);
  const module = join(folder, 'module.squashfs');
  await run('mksquashfs', [
    tree,
    module,
    '-all-root',
    '-quiet',
    '-no-progress',
    '-comp',
    'zstd',
    '-Xcompression-level',
    '1',
  ]);
  return module;
}

const stack = new AsyncDisposableStack();
let daemon: TestDaemon;

before(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'squash-programs-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const needs = programs.filter(isHere).flatMap((program) => program.needs ?? []);
  const own = needs.length === 0 ? {} : { '200-machine': await moduleOf(folder, needs) };
  const modules = { ...(await clientModules()), ...own };
  daemon = stack.use(await TestDaemon.start({ modules }));
  const layers = Object.keys(modules);
  const created = await daemon.request('POST', sandboxes, { id: 'run', owner: 'a', layers, memory_mb: 1024 });
  assert.equal(created.status, 201, created.text);
});

after(() => stack.disposeAsync());

for (const program of programs) {
  const skip = !isHere(program) && `${program.name} is not installed on this machine`;
  test(`${program.name} runs in a sandbox`, { skip }, async () => {
    const { json } = await daemon.request('POST', `${sandboxes}/run/exec`, { cmd: program.cmd, timeout: 60 });
    assert.match(String(json.stdout), program.says, `exit ${json.exit_code}: ${json.stdout}${json.stderr}`);
  });
}
