/** A sandbox's connections and queries, from its programs through relay and launcher to a scripted egress process. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { dialerLayer } from '../../../tests/support/program-layer.ts';
import { HostServer } from '../../../tests/support/host-server.ts';
import { type LaunchedSandbox, launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher } from '../../../tests/support/launcher.ts';
import { processesOf } from '../../../tests/support/leaks.ts';
import { type ScriptedConnection, ScriptedEgress } from '../../../tests/support/scripted-egress.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const echo = (socket: Socket): void => void socket.pipe(socket);

await insideLauncher(import.meta.filename, ['default', 'single', 'user', 'user-single'], async (place) => {
  const { dataDir, runDir } = place;
  const lowers = [await dialerLayer(place), place.lower];
  const launch = (name: string): Promise<LaunchedSandbox> => launchSandbox(place, name, { lowers });
  const relays = () => processesOf(dataDir).filter(({ command }) => command.startsWith('squash-relay'));
  /** A script that tunnels everything to one server of the host. */
  const tunnel = (port: number, seen: ScriptedConnection[] = []) => ({
    async onOpen(connection: ScriptedConnection): Promise<void> {
      seen.push(connection);
      assert.equal(await connection.dial(port), 0);
      connection.release();
    },
  });

  test('100 MB come back as they were sent when a connection is tunnelled', async () => {
    await using server = await HostServer.start(echo);
    const seen: ScriptedConnection[] = [];
    await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port, seen));
    await using box = await launch('bytes');
    const { output } = await box.sh('/dialer echo 93.184.216.34 443 104857600');
    assert.equal(output, '104857600 sent 104857600 received |end\n');
    const [connection] = seen;
    assert.ok(connection !== undefined);
    assert.equal(`${connection.sandbox} ${connection.address} ${connection.port}`, 'bytes 93.184.216.34 443');
    assert.deepEqual(await connection.closed, { bytesUp: 104_857_600, bytesDown: 104_857_600, reason: 0 });
  });

  test('who watches is told when a sandbox connects and no egress process is there', async () => {
    const told = Promise.withResolvers<string>();
    const waiting: string[] = [];
    const listener = {
      onEvent: (change: string, { name }: { readonly name: string }) => {
        if (change !== 'relay_waits') return;
        waiting.push(name);
        told.resolve(name);
      },
      onHelper: () => undefined,
      onGap: () => undefined,
    };
    await using watch = place.client.watch(listener);
    await watch.begun;
    await using server = await HostServer.start(echo);
    {
      await using box = await launch('waiting');
      const connecting = box.sh('/dialer half 1.1.1.1 80 hello');
      assert.equal(await told.promise, 'waiting');
      await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port));
      assert.equal((await connecting).output, 'hello|end\n');
    }
    await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port));
    await using box = await launch('heard');
    assert.equal((await box.sh('/dialer half 1.1.1.1 80 hello')).output, 'hello|end\n');
    assert.deepEqual(waiting, ['waiting']);
  });

  test('address and port are what the program wanted when they are unusual', async () => {
    await using server = await HostServer.start(echo);
    const seen: ScriptedConnection[] = [];
    await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port, seen));
    await using box = await launch('where');
    const targets = [
      '2606:4700::1111 53',
      '169.254.169.254 80',
      '10.1.2.3 65533',
      '198.18.7.7 1',
      '240.0.0.1 65535',
    ];
    for (const target of targets) {
      assert.equal((await box.sh(`/dialer half ${target} hello`)).output, 'hello|end\n');
    }
    const found = seen.map(({ address, port }) => `${address} ${port}`);
    assert.deepEqual(found, ['2606:4700:0:0:0:0:0:1111 53', ...targets.slice(1)]);
  });

  test('end of one direction leaves the other open when a connection is half-closed', async () => {
    await using server = await HostServer.start((socket) => {
      let text = '';
      socket.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      socket.on('end', () => socket.end(`heard ${text} to its end`));
    });
    const seen: ScriptedConnection[] = [];
    await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port, seen));
    await using box = await launch('half');
    assert.equal((await box.sh('/dialer half 1.1.1.1 80 abc')).output, 'heard abc to its end|end\n');
    assert.equal(await seen[0]?.how(), 'ended');
  });

  test('a reset of one side becomes a reset of the other', async () => {
    const resets: string[] = [];
    await using server = await HostServer.start((socket) => {
      socket.on('error', ({ message }) => resets.push(message));
      socket.write('hello\n');
      socket.once('data', (bytes) => {
        if (bytes.toString() === 'please') socket.resetAndDestroy();
      });
    });
    const seen: ScriptedConnection[] = [];
    await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port, seen));
    await using box = await launch('reset');
    assert.match((await box.sh('/dialer half 1.1.1.1 80 please')).output, /recv: ECONNRESET/);
    assert.equal(await seen[0]?.how(), 'reset by upstream');
    assert.equal((await box.sh('/dialer reset 1.1.1.1 80 goodbye')).output, 'reset\n');
    assert.equal(await seen[1]?.how(), 'reset by program');
    await waitFor('the server to be reset', () => resets.some((message) => message.includes('ECONNRESET')));
  });

  test('first bytes are shown and still arrive when a connection is held', async () => {
    await using server = await HostServer.start(echo);
    const shown: string[] = [];
    await using _egress = await ScriptedEgress.start(runDir, {
      async onOpen(connection) {
        const first = await connection.hold(5);
        const more = await connection.hold(16_384, first.bytes.length);
        shown.push(`${first.bytes.toString()} ${more.bytes.toString()} ${more.ended}`);
        if (!more.ended) shown.push(String((await connection.hold(16_384, more.bytes.length)).ended));
        assert.equal(await connection.dial(server.port), 0);
        connection.release();
      },
    });
    await using box = await launch('held');
    assert.equal((await box.sh('/dialer half 1.1.1.1 443 hello-world')).output, 'hello-world|end\n');
    assert.match(shown.join(), /^hello hello-world (true|false,true)$/);
  });

  test('server speaks first when the program’s first bytes are awaited', async () => {
    await using server = await HostServer.start((socket) => {
      socket.write('220 ready\n');
      socket.once('data', (one: Buffer) => {
        socket.write(`250 ${one.toString()}\n`);
        socket.once('data', (two: Buffer) => socket.end(`221 ${two.toString()}`));
      });
    });
    const shown: string[] = [];
    await using _egress = await ScriptedEgress.start(runDir, {
      async onOpen(connection) {
        const first = connection.hold(16_384);
        assert.equal(await connection.dial(server.port), 0);
        shown.push((await first).bytes.toString());
        connection.release();
      },
    });
    await using box = await launch('speaks');
    assert.equal((await box.sh('/dialer late 1.1.1.1 25 EHLO QUIT')).output, '221 QUIT|end\n');
    assert.deepEqual(shown, ['EHLO']);
  });

  test('raw bytes go to the egress process and back when it asks for the stream', async () => {
    const seen: ScriptedConnection[] = [];
    await using _egress = await ScriptedEgress.start(runDir, {
      async onOpen(connection) {
        seen.push(connection);
        const stream = await connection.stream();
        stream.pipe(stream);
        connection.release();
      },
    });
    await using box = await launch('stream');
    const { output } = await box.sh('/dialer echo 1.1.1.1 443 20000000');
    assert.equal(output, '20000000 sent 20000000 received |end\n');
    assert.deepEqual(await seen[0]?.closed, { bytesUp: 20_000_000, bytesDown: 20_000_000, reason: 0 });
  });

  test('nothing is reached and the error is told when a dial fails', async () => {
    const errnos: number[] = [];
    await using _egress = await ScriptedEgress.start(runDir, {
      async onOpen(connection) {
        errnos.push(await connection.dial(1));
        errnos.push(await connection.dial(1, Uint8Array.of(...Array<number>(15).fill(0), 1)));
        connection.reset();
      },
    });
    await using box = await launch('refused');
    assert.match((await box.sh('/dialer listen 1.1.1.1 80')).output, /recv: ECONNRESET/);
    assert.deepEqual(errnos, [111, 111]);
  });

  test('queries over UDP come back from the address they were sent to', async () => {
    const asked: string[] = [];
    await using _egress = await ScriptedEgress.start(runDir, {
      onQuery(message, sandbox) {
        asked.push(`${sandbox} ${message.toString()}`);
        return Buffer.from(`answer to ${message.toString()}`);
      },
    });
    await using box = await launch('dns');
    for (const server of ['198.18.0.1', '8.8.8.8', '2001:4860:4860::8888']) {
      assert.equal((await box.sh(`/dialer udp ${server} 53 ${server}`)).output, `answer to ${server}\n`);
    }
    assert.deepEqual(asked, ['dns 198.18.0.1', 'dns 8.8.8.8', 'dns 2001:4860:4860::8888']);
  });

  test('everything else goes nowhere and fails at once', async () => {
    const seen: ScriptedConnection[] = [];
    await using _egress = await ScriptedEgress.start(runDir, {
      onOpen: (connection) => void seen.push(connection),
      onQuery: () => Buffer.from('never'),
    });
    await using box = await launch('else');
    // Silence takes its seconds, meanwhile goes the rest.
    const silent = box.sh('/dialer udp 127.0.0.1 65533 x');
    for (const target of [
      '8.8.8.8 443',
      '8.8.8.8 65533',
      '2606::1 123',
      '224.0.0.251 5353',
      '255.255.255.255 67',
    ]) {
      const { output } = await box.sh(`/dialer udp ${target} x`);
      assert.match(output, /^(send: EPERM|connect: EACCES|connect: ENETUNREACH)\n$/, target);
    }
    assert.equal(
      (await box.sh('/dialer raw')).output,
      'raw4:no raw6:no raw-tcp:no ping4:no packet:no netfilter:no vsock:no transparent:no mark:no\n',
    );
    // The listeners themselves are nobody to talk to, and nobody can take their place.
    assert.match((await box.sh('/dialer listen 127.0.0.1 65533')).output, /ECONNRESET/);
    assert.match((await box.sh('/dialer listen ::1 65533')).output, /ECONNRESET/);
    assert.match((await silent).output, /silence/);
    assert.match((await box.sh('/dialer bind tcp 65533')).output, /EADDRINUSE/);
    assert.match((await box.sh('/dialer bind udp 65533')).output, /EADDRINUSE/);
    assert.equal((await box.sh('/dialer bind udp 53')).output, 'had\n');
    assert.deepEqual(seen, []);
  });

  test('programs of one sandbox reach each other without the relay', async () => {
    await using box = await launch('inner');
    for (const address of ['127.0.0.1', '::1', '198.18.0.2', '127.9.9.9']) {
      // From a file: nc ends when the client has no more to say, and by then a pipe may still be empty.
      const serve =
        'echo inside >/tmp/word; nc -l -p 8080 </tmp/word & until netstat -ltn | grep -q :8080; do :; done';
      const { output } = await box.sh(`${serve}; nc ${address} 8080 </dev/null`);
      assert.match(output, /inside/, address);
    }
    assert.deepEqual(relays(), []);
  });

  test('connections are held, then reset, and queries dropped when no egress process is there', async () => {
    await using box = await launch('alone');
    const [held, dropped] = await Promise.all([
      box.sh('/dialer listen 1.1.1.1 443'),
      box.sh('/dialer udp 8.8.8.8 53 x'),
    ]);
    assert.match(held.output, /recv: ECONNRESET/);
    assert.equal(dropped.output, 'silence\n');
  });

  test('connections that were held go on when the egress process comes back', async () => {
    await using server = await HostServer.start(echo);
    let held = Promise.withResolvers<ScriptedConnection>();
    const first = await ScriptedEgress.start(runDir, { onOpen: (connection) => held.resolve(connection) });
    await using box = await launch('returns');
    const running = box.sh('/dialer half 1.1.1.1 443 patient');
    const before = await held.promise;
    await first[Symbol.asyncDispose]();
    held = Promise.withResolvers();
    await using _second = await ScriptedEgress.start(runDir, tunnel(server.port));
    assert.equal((await running).output, 'patient|end\n');
    // A tunnel outlives the egress process that decided it.
    assert.equal(before.sandbox, 'returns');
  });

  test('tunnels go on and end as ever when the egress process is killed', async () => {
    const sockets: Socket[] = [];
    await using server = await HostServer.start(
      (socket) => void sockets.push(socket.on('end', () => socket.end())),
    );
    // The server has the connection before the relay does: only what was released is a tunnel.
    const released = Promise.withResolvers<void>();
    const script = tunnel(server.port);
    const first = await ScriptedEgress.start(runDir, {
      onOpen: (connection) => script.onOpen(connection).then(released.resolve),
    });
    await using box = await launch('outlives');
    const running = box.sh('/dialer listen 1.1.1.1 443');
    await released.promise;
    const socket = await waitFor('the tunnel', () => sockets[0]);
    socket.write('before');
    await first[Symbol.asyncDispose]();
    socket.end(' after');
    assert.equal((await running).output, 'before after|end\n');
  });

  test('the newest egress process has the word when two attach', async () => {
    await using server = await HostServer.start(echo);
    const old = await ScriptedEgress.start(runDir, { onOpen: () => assert.fail('the old one was asked') });
    await using _young = await ScriptedEgress.start(runDir, tunnel(server.port));
    await using box = await launch('newest');
    assert.equal((await box.sh('/dialer half 1.1.1.1 443 x')).output, 'x|end\n');
    await old[Symbol.asyncDispose]().catch(() => undefined);
  });

  test('the next connection has a relay again when it was killed', async () => {
    await using server = await HostServer.start(echo);
    const seen: ScriptedConnection[] = [];
    await using egress = await ScriptedEgress.start(runDir, tunnel(server.port, seen));
    await using box = await launch('killed');
    assert.deepEqual(relays(), [], 'an idle sandbox has none');
    assert.equal((await box.sh('/dialer half 1.1.1.1 443 one')).output, 'one|end\n');
    const [relay] = relays();
    assert.ok(relay !== undefined);
    const open = box.sh('/dialer listen 1.1.1.1 443');
    await waitFor('the second connection', () => seen.length === 2);
    process.kill(relay.pid, 'SIGKILL');
    assert.match((await open).output, /recv: ECONNRESET|end/);
    assert.equal((await box.sh('/dialer half 1.1.1.1 443 two')).output, 'two|end\n');
    assert.equal(egress.controls, 2);
    assert.equal(new Set(seen.map(({ id }) => id)).size, 3);
  });

  test('a relay has no right and no file beyond what it works with', async () => {
    await using server = await HostServer.start(echo);
    await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port));
    await using box = await launch('bare');
    assert.equal((await box.sh('/dialer half 1.1.1.1 443 x')).output, 'x|end\n');
    const [relay] = relays();
    assert.ok(relay !== undefined);
    const status = readFileSync(`/proc/${relay.pid}/status`, 'utf8');
    assert.match(status, /CapEff:\t0{16}\nCapBnd:\t0{16}\nCapAmb:\t0{16}\nNoNewPrivs:\t1\nSeccomp:\t2/);
    assert.match(status, /CapInh:\t0{16}\nCapPrm:\t0{16}/);
    const isSingle = place.mode === 'single' || place.mode === 'user-single';
    if (!isSingle) assert.match(status, /Uid:\t65536\t65536\t65536\t65536\nGid:\t65536\t/);
    // Not dumpable: not even the daemon sees more of it.
    assert.throws(() => readlinkSync(`/proc/${relay.pid}/ns/net`), { code: 'EACCES' });
    assert.throws(() => readdirSync(`/proc/${relay.pid}/fd`), { code: 'EACCES' });
    const groups = readFileSync(`/proc/${relay.pid}/cgroup`, 'utf8');
    assert.ok(!groups.includes(`/s${box.start.instance}`), groups);
  });

  test('connections within a sandbox are not paced, whatever the host has chosen for its own', async () => {
    await using box = await launch('paced');
    const { output } = await box.sh('read chosen < /proc/sys/net/ipv4/tcp_congestion_control; echo $chosen');
    assert.equal(output, 'reno\n');
  });

  test('nothing of a sandbox’s network is left when it stops in the middle', async () => {
    await using server = await HostServer.start(echo);
    const seen: ScriptedConnection[] = [];
    await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port, seen));
    const box = await launch('middle');
    const running = box.sh('/dialer listen 1.1.1.1 443').catch(() => undefined);
    await waitFor('the connection', () => seen.length === 1);
    await box[Symbol.asyncDispose]();
    await running;
    assert.deepEqual(relays(), []);
    // The launcher holds some of its spares' as well: all of them wait, or it keeps none in this mode.
    const spares = () =>
      processesOf(dataDir).filter(({ command }) => command.startsWith('squash-launch spare'));
    const settle = () => waitFor('all spares to wait', () => [0, 3].includes(spares().length), 20_000);
    await settle();
    // Not before: a child that has just begun has its name.
    const launcher = Number(
      processesOf(dataDir).find(({ command }) => command.startsWith('squash-launch resident'))?.pid,
    );
    const files = (): number => readdirSync(`/proc/${launcher}/fd`).length;
    const before = files();
    const second = await launch('middle');
    await second[Symbol.asyncDispose]();
    await settle();
    await waitFor('its files to be closed', () => files() === before);
  });

  test('hundreds of connections at once are all served', async () => {
    await using server = await HostServer.start(echo);
    await using _egress = await ScriptedEgress.start(runDir, tunnel(server.port));
    await using box = await launch('many');
    assert.equal((await box.sh('/dialer hold 1.1.1.1 443 900 </dev/null')).output, '900 open 0 failed\n');
  });

  test('a process is put into the group of the egress process when the daemon asks', async () => {
    const child = spawn('/bin/sleep', ['1000']);
    const exited = once(child, 'exit');
    const pid = child.pid ?? 0;
    const { warning } = await place.client.joinGroup({ group: 'egress', pid, memoryBytesMax: 2 ** 30 });
    const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8');
    if (warning === undefined) assert.match(groups, /\/squash-[0-9a-f]{16}\/egress/);
    else assert.doesNotMatch(groups, /egress/);
    child.kill('SIGKILL');
    await exited;
    const wrong = { group: 'launcher' as 'egress', pid: process.pid, memoryBytesMax: 0 };
    await assert.rejects(place.client.joinGroup(wrong), { code: 'invalid_request' });
    await assert.rejects(place.client.joinGroup({ group: 'egress', pid: 1, memoryBytesMax: 0 }));
  });
});
