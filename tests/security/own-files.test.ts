/** The files that daemon and egress process may open: what a hijacked one is refused by Landlock, and is not refused without it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { launchProgram, projectDir } from '../../base/src/programs.ts';
import { makeEgressFolders } from '../../host/src/egress/egress-files.ts';
import { enterCommand } from '../../base/src/daemon-command.ts';
import { TestDaemon } from '../support/daemon.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

const perl = '/usr/bin/perl';

/** A file and a directory of somebody else, open to all; an abstract socket that listens. */
async function somebody(
  stack: AsyncDisposableStack,
): Promise<{ readonly path: string; readonly socket: string }> {
  const path = mkdtempSync(join(tmpdir(), ownedPrefix('own-files')));
  stack.defer(() => rmSync(path, { recursive: true }));
  chmodSync(path, 0o777);
  writeFileSync(join(path, 'letter'), 'private');
  chmodSync(join(path, 'letter'), 0o666);
  const socket = `squash-own-files-${process.pid}`;
  const server = createServer((one) => one.destroy()).listen(`\0${socket}`);
  await once(server, 'listening');
  stack.defer(() => void server.close());
  return { path, socket };
}

/** Each prints its name and what the kernel says. */
function attempts(other: { readonly path: string; readonly socket: string }, dataDir: string): string {
  return `
    use Socket;
    sub say_it { my ($name, $ok) = @_; print "$name ", $ok ? 0 : $! + 0, "\\n" }
    sub make { my ($path) = @_; my $ok = open(my $file, ">", $path); my $error = $! + 0; unlink $path if $ok; $! = $error; $ok }
    $| = 1;
    say_it("read", open(my $in, "<", "${other.path}/letter"));
    say_it("change", open(my $out, ">>", "${other.path}/letter"));
    say_it("make", make("${other.path}/new"));
    say_it("list", opendir(my $dir, "${other.path}"));
    socket(my $local, AF_UNIX, SOCK_STREAM, 0);
    say_it("abstract", connect($local, pack_sockaddr_un("\\0${other.socket}")));
    socket(my $tcp, AF_INET, SOCK_STREAM, 0);
    say_it("listen", bind($tcp, pack_sockaddr_in(0, INADDR_LOOPBACK)));
    say_it("signal", kill(0, getppid()));
    say_it("own-signal", kill(0, $$));
    say_it("data-read", opendir(my $data, "${dataDir}"));
    say_it("data-make", make("${dataDir}/new"));
    say_it("sandboxes-make", make("${dataDir}/sandboxes/new"));
    say_it("compiled-make", make("${dataDir}/run/compile/new"));
    say_it("own-make", make("${dataDir}/egress/new"));
    say_it("execute", do { no warnings; exec { "/bin/sh" } "sh", "-c", "echo execute 0" });
  `;
}

function run(program: string, words: readonly string[]): Readonly<Record<string, number>> {
  const lines = execFileSync(program, words, { encoding: 'utf8' }).trim().split('\n');
  return Object.fromEntries(lines.map((line) => [line.split(' ')[0], Number(line.split(' ')[1])]));
}

/** @returns the kernel's number, 0 where it has none */
async function abiOf(daemon: TestDaemon): Promise<number> {
  const { host } = await daemon.call('GET', '/v1/info');
  const rows = host as readonly { readonly name: string; readonly found: string }[];
  return Number(/ABI (\d+)/.exec(rows.find(({ name }) => name === 'landlock')?.found ?? '')?.[1] ?? 0);
}

const eperm = 1;
const eacces = 13;
const others = { read: eacces, change: eacces, make: eacces, list: eacces, execute: eacces };

test('a hijacked daemon opens no file of others and starts no program of the host', async (t) => {
  await using stack = new AsyncDisposableStack();
  const daemon = stack.use(await TestDaemon.start());
  const abi = await abiOf(daemon);
  if (abi < 2) return t.skip(`Landlock ABI ${abi} does not hold a daemon`);
  const other = await somebody(stack);
  const place = { dataDir: daemon.dataDir, runDir: `${daemon.dataDir}/run` };
  const { program, words } = enterCommand(place, [perl, '-e', attempts(other, daemon.dataDir)]);
  const isFilter = (i: number): boolean => words[i] === '--filter' || words[i - 1] === '--filter';
  const free = words.filter((_, i) => !isFilter(i));
  // Whose process the test is depends on who runs it.
  const without = { ...run(program, free.slice(1)), signal: 0 };
  assert.deepEqual([...new Set(Object.values(without))], [0], 'without the rules all of it succeeds');
  const held = { ...run(program, words.slice(1)), signal: 0 };
  assert.deepEqual(held, { ...without, ...others, abstract: abi < 6 ? 0 : eperm });
});

test('a hijacked egress process also changes nothing but in its own folders, listens to nobody and signals nobody', async (t) => {
  await using stack = new AsyncDisposableStack();
  const abi = await abiOf(stack.use(await TestDaemon.start()));
  if (abi < 1) return t.skip('the kernel has no Landlock');
  const other = await somebody(stack);
  const dataDir = mkdtempSync(join(tmpdir(), ownedPrefix('own-files')));
  stack.defer(() => rmSync(dataDir, { recursive: true }));
  for (const name of ['run/compile', 'sandboxes']) mkdirSync(join(dataDir, name), { recursive: true });
  makeEgressFolders(dataDir);
  const changes = `
    say_it("mode", chmod(0600, "${other.path}/letter"));
    say_it("owner", chown($<, $( + 0, "${other.path}/letter"));
    say_it("times", utime(1, 1, "${other.path}/letter"));
    say_it("cut", truncate("${other.path}/letter", 0));
  `;
  const script = [perl, '-e', attempts(other, dataDir).replace(/^ *say_it\("execute"/m, `${changes}$&`)];
  const without = run(perl, script.slice(1));
  assert.deepEqual([...new Set(Object.values(without))], [0], 'without the rules all of it succeeds');
  const place = ['egress', '--data', dataDir, '--run', join(dataDir, 'run'), '--app', projectDir, '--'];
  const files = { 'data-make': eacces, 'sandboxes-make': eacces, 'compiled-make': eacces };
  const spoken = { listen: abi < 4 ? 0 : eacces, abstract: abi < 6 ? 0 : eperm, signal: abi < 6 ? 0 : eperm };
  const named = { mode: eperm, owner: eperm, times: eperm, cut: eperm };
  assert.deepEqual(run(launchProgram, [...place, ...script]), {
    ...without,
    ...others,
    ...files,
    ...spoken,
    ...named,
  });
});

test('a hijacked gateway of SSH opens no file but programs, and no socket but of the family Unix', async (t) => {
  await using stack = new AsyncDisposableStack();
  const daemon = stack.use(await TestDaemon.start());
  const abi = await abiOf(daemon);
  if (abi < 1) return t.skip('the kernel has no Landlock');
  const other = await somebody(stack);
  // In the daemon's namespaces, where it may become another.
  const place = { dataDir: daemon.dataDir, runDir: `${daemon.dataDir}/run` };
  const gateway = [launchProgram, 'gateway', '--app', projectDir, '--', perl, '-e'];
  const { program, words } = enterCommand(place, [...gateway, attempts(other, daemon.dataDir)]);
  // The daemon's own rules know the one program that it starts.
  const free = words.filter((word, i) => word !== '--filter' && words[i - 1] !== '--filter');
  const { signal, abstract, 'own-signal': own, ...held } = run(program, free.slice(1));
  const nothing = {
    'data-read': eacces,
    'data-make': eacces,
    'sandboxes-make': eacces,
    'compiled-make': eacces,
    'own-make': eacces,
  };
  // Without a socket of that family there is none to bind.
  const ebadf = 9;
  assert.deepEqual(held, { ...others, ...nothing, listen: ebadf });
  assert.deepEqual([abstract, signal], abi < 6 ? [0, eperm] : [eperm, eperm]);
  // Another of its id is a relay, which Landlock does not protect before ABI 6: not even itself can it signal.
  assert.equal(own, eperm);
});

test('a database of an earlier release moves into the folder of the egress process, however often that is interrupted', () => {
  const steps: readonly (readonly string[])[] = [
    ['egress.db', 'egress.db-wal', 'egress/egress.db', 'egress/egress.db-wal'],
    ['egress.db', 'egress.next/egress.db-wal', 'egress/egress.db'],
    ['egress.next/egress.db', 'egress.next/egress.db-wal', 'egress/egress.db-wal'],
    ['egress.next/egress.db', 'egress.next/egress.db-wal'],
  ];
  for (const present of steps) {
    const dataDir = mkdtempSync(join(tmpdir(), ownedPrefix('own-files')));
    try {
      for (const name of present) {
        mkdirSync(dirname(join(dataDir, name)), { recursive: true });
        const isOlder = name.startsWith('egress/');
        writeFileSync(join(dataDir, name), isOlder ? 'older' : basename(name));
      }
      makeEgressFolders(dataDir);
      for (const name of ['egress.db', 'egress.db-wal']) {
        assert.equal(readFileSync(join(dataDir, 'egress', name), 'utf8'), name, present.join(' '));
      }
      assert.deepEqual(readdirSync(dataDir).sort(), ['egress', 'log', 'proxy-ca']);
    } finally {
      rmSync(dataDir, { recursive: true });
    }
  }
});
