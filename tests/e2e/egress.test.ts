/** A sandbox's network as its programs see it: what policy allows is there, what it refuses is not, whoever dies meanwhile. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createWebServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import type { SandboxUsage } from '@squash/contract/usage';
import { packModule } from '../support/base-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { glibcProgram } from '../support/glibc-program.ts';
import { processesOf } from '../support/leaks.ts';
import { addressRecord, NameServer } from '../support/name-server.ts';
import { waitFor } from '../support/wait.ts';

const stack = new AsyncDisposableStack();
let daemon: TestDaemon;
let names: NameServer;
let port = 0;
let webPort = 0;
/** What the echo server has accepted, in order. */
const opened: Socket[] = [];

before(async () => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-glibc-'));
  stack.defer(() => rmSync(directory, { recursive: true }));
  const module = join(directory, '100-glibc.squashfs');
  await packModule(module, glibcProgram('/usr/bin/getent'));
  names = stack.use(await NameServer.listen());
  for (const name of ['echo.example.com', 'sub.wild.example.com', 'other.example.com']) {
    names.zone.set(name, [addressRecord('127.0.0.1')]);
  }
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    opened.push(socket);
    socket.on('data', (chunk: Buffer) => socket.write(`echo ${chunk.toString('latin1')}`));
    socket.on('end', () => socket.end());
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => void server.close());
  const web = createWebServer((asked, answer) => {
    answer.end(`you asked ${asked.headers.host} for ${asked.url}`);
  });
  web.listen(0, '127.0.0.1');
  await once(web, 'listening');
  stack.defer(() => void web.close());
  port = portOf(server);
  webPort = portOf(web);
  daemon = stack.use(
    await TestDaemon.start({
      env: { SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.0/8', SQUASH_EGRESS_RESOLVERS: names.address },
      modules: { '100-glibc': module },
    }),
  );
});
after(() => stack.disposeAsync());

function portOf(server: Server): number {
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return address.port;
}

async function create(id: string, allowNet: readonly string[] | undefined): Promise<void> {
  const layers = '000-base-test,100-glibc';
  await daemon.call('POST', '/cgi-bin/api/sandboxes', {
    id,
    layers,
    ...(allowNet === undefined ? {} : { allow_net: allowNet }),
  });
  await run(id, 'chmod +x /lib64/* /usr/bin/getent');
}

async function run(id: string, cmd: string): Promise<string> {
  const { stdout } = await daemon.call('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd });
  return String(stdout);
}

/** What the echo server answers to PING at this place; empty where nobody does. */
function ping(id: string, host: string): Promise<string> {
  return run(id, `printf 'PING\\r\\n' | nc -w 5 ${host} ${port}`);
}

test('a sandbox without a policy reaches a server by its name', async () => {
  await create('open', undefined);
  assert.equal(await ping('open', 'echo.example.com'), 'echo PING\r\n');
  // PING with its line end, and the answer's.
  const counted = await waitFor('the end of the connection', async () => {
    const usage = (await daemon.call('GET', '/v1/sandboxes/open/usage')) as SandboxUsage;
    return usage.connections_open === 0 && usage.network_in_bytes !== 0 ? usage : undefined;
  });
  assert.deepEqual([counted.network_out_bytes, counted.network_in_bytes, counted.connections], [6, 11, 1]);
});

test('a policy of names allows those and refuses others, and says so', async () => {
  await create('named', ['echo.example.com', '*.wild.example.com']);
  assert.equal(await ping('named', 'echo.example.com'), 'echo PING\r\n');
  assert.equal(await ping('named', 'sub.wild.example.com'), 'echo PING\r\n');
  assert.equal(await ping('named', 'other.example.com'), '');
  assert.equal(await ping('named', '127.0.0.1'), '', 'the sandbox has a loopback of its own');
  assert.ok(!names.asked.includes('leak.of.data.example/1'));
  await run('named', 'nslookup leak.of.data.example');
  assert.ok(!names.asked.some((one) => one.startsWith('leak.of.data.example/')));
});

test('plain HTTP under a policy of names is read, and a refusal of it can be read', async () => {
  // The program keeps its side open until it has the answer, as HTTP clients do.
  const ask = (dialled: string, host: string): Promise<string> =>
    run(
      'named',
      `rm -f /p; mkfifo /p; { printf 'GET /x HTTP/1.1\\r\\nHost: ${host}:${webPort}\\r\\nConnection: close\\r\\n\\r\\n'; cat /p; } | { nc -w 5 ${dialled} ${webPort}; : > /p; }`,
    );
  assert.match(
    await ask('echo.example.com', 'echo.example.com'),
    /^HTTP\/1\.1 200 [\s\S]*you asked echo\.example\.com:\d+ for \/x$/,
  );
  assert.match(await ask('other.example.com', 'other.example.com'), /^HTTP\/1\.1 403 /);
  // Another name behind the same address: the line that chooses it is not the program's to choose.
  assert.match(await ask('echo.example.com', 'other.example.com'), /^HTTP\/1\.1 403 /);
  const { decisions } = await daemon.call('GET', '/v1/sandboxes/named/egress?kind=request');
  assert.ok(
    decisions.some(
      (row: { verdict: string; path: string }) => row.verdict === 'allowed' && row.path === '/x',
    ),
  );
  assert.ok(decisions.some((row: { verdict: string }) => row.verdict === 'denied'));
});

test('nothing is reached where nothing is allowed', async () => {
  await create('none', ['none']);
  assert.equal(await ping('none', 'echo.example.com'), '');
});

test('getaddrinfo of glibc finds names, and finds that others are missing', async () => {
  await create('glibc', undefined);
  const found = await run('glibc', 'getent ahosts echo.example.com');
  assert.match(found, /^198\.1[89]\.\d+\.\d+\s+STREAM echo\.example\.com\n/);
  assert.doesNotMatch(found, /:/, 'no address of the other family');
  assert.equal(await run('glibc', 'getent ahosts missing.example.com; echo $?'), '2\n');
  assert.match(await run('glibc', 'getent ahosts localhost'), /^(127\.0\.0\.1|::1)/);
});

/** Kills the egress process, and keeps the next one from starting by taking what only one may have. */
async function holdDown(): Promise<Disposable> {
  return await waitFor('the egress database', () => {
    for (const { command, pid } of processesOf(daemon.dataDir)) {
      if (command.includes('egress/src/main.ts')) process.kill(pid, 'SIGKILL');
    }
    const database = new DatabaseSync(join(daemon.dataDir, 'egress/egress.db'));
    try {
      database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
      let isOpen = true;
      return {
        [Symbol.dispose]: () => {
          if (isOpen) database.close();
          isOpen = false;
        },
      };
    } catch {
      // The next one was faster.
      database.close();
      return undefined;
    }
  });
}

test('while the egress process is away there is no network, and afterwards the same one', async () => {
  await create('box', ['echo.example.com']);
  const address = (await run('box', 'getent ahostsv4 echo.example.com')).split(' ')[0] ?? '';
  assert.match(address, /^198\./);
  assert.equal(await ping('box', address), 'echo PING\r\n');
  using held = await holdDown();
  // Both wait for their own end.
  const away = [ping('box', address), run('box', 'getent ahostsv4 echo.example.com')];
  assert.deepEqual(await Promise.all(away), ['', '']);
  held[Symbol.dispose]();
  await waitFor('the egress process', async () => (await ping('box', address)) === 'echo PING\r\n');
  assert.equal((await run('box', 'getent ahostsv4 echo.example.com')).split(' ')[0], address);
  assert.equal(await ping('box', 'other.example.com'), '');
});

test('a tunnel outlives the egress process, and ends when a later policy refuses it', async () => {
  await create('long', ['echo.example.com']);
  const before = opened.length;
  await daemon.call('POST', '/cgi-bin/api/sandboxes/long/exec-bg', {
    cmd: `(printf 'PING\\r\\n'; sleep 1000) | nc echo.example.com ${port}`,
  });
  const socket = await waitFor('the connection', () => opened[before]);
  // Noted at the latest when its row is written.
  await waitFor('the row', async () => {
    const { decisions } = await daemon.call('GET', '/v1/sandboxes/long/egress?kind=connection');
    return decisions.length > 0;
  });
  (await holdDown())[Symbol.dispose]();
  await waitFor(
    'the egress process',
    async () => (await ping('long', 'echo.example.com')) === 'echo PING\r\n',
  );
  assert.ok(!socket.destroyed && socket.readable);
  await daemon.call('PUT', '/v1/sandboxes/long/policy', { allow: ['none'] });
  await waitFor('the end of the tunnel', () => socket.destroyed);
});
