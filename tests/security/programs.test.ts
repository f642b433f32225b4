/**
 * What the filter refuses must not break what people run: a table of real programs that ask the kernel for interfaces,
 * terminals, filters or asynchronous input and output, each in a sandbox. On the layers of `clients-layer.ts`.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { clientModules, databaseModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { patience } from '../support/wait.ts';

const sandboxes = '/cgi-bin/api/sandboxes';

interface Program {
  readonly name: string;
  readonly cmd: string;
  readonly says: RegExp;
}

const nativeIo = `import ctypes; c = ctypes.CDLL(None, use_errno=True); p = ctypes.c_ulong(0)
print(c.syscall(206, 1, ctypes.byref(p)), ctypes.get_errno())`;
const interfaces = `import socket; print([name for _, name in socket.if_nameindex()], socket.gethostbyname("localhost"))`;
const terminals = 'import pty, os; print(os.ttyname(pty.openpty()[1]))';
const java = `import java.net.*; import java.util.*; public class I { public static void main(String[] a) throws Exception {
for (NetworkInterface n : Collections.list(NetworkInterface.getNetworkInterfaces())) System.out.println(n.getName()); } }`;
const cluster = `useradd -m db 2>/dev/null; cd /home/db; su db -c 'export PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
initdb -A trust -D data >log && pg_ctl -w -D data -o "-k /tmp" -l server start >>log &&
psql -h /tmp postgres -Atc "create table t as select generate_series(1, 1000) n" -c "select sum(n) from t"; pg_ctl -D data -m fast stop >>log'`;

const programs: readonly Program[] = [
  {
    name: 'iproute2',
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
    // A guest's kernel has it, and is nobody else's.
    says: isOnVms ? /^0 0$/m : /^-1 38$/m,
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
    cmd: `sqlite3 /tmp/s.db 'pragma journal_mode=wal; create table t(n); insert into t values (7); select n from t;'`,
    says: /wal\s+7/,
  },
  {
    name: 'PostgreSQL',
    cmd: cluster,
    says: /^500500$/m,
  },
];

const stack = new AsyncDisposableStack();
let daemon: TestDaemon;

before(async () => {
  const modules = { ...(await databaseModules()), ...(await clientModules()) };
  daemon = stack.use(await TestDaemon.start({ modules }));
  const layers = Object.keys(modules);
  const created = await daemon.request('POST', sandboxes, { id: 'run', owner: 'a', layers, memory_mb: 1024 });
  assert.equal(created.status, 201, created.text);
});

after(() => stack.disposeAsync());

for (const program of programs) {
  test(`${program.name} runs in a sandbox`, async () => {
    const { json } = await daemon.request('POST', `${sandboxes}/run/exec`, {
      cmd: program.cmd,
      timeout: 60 * patience,
    });
    assert.match(String(json.stdout), program.says, `exit ${json.exit_code}: ${json.stdout}${json.stderr}`);
  });
}
