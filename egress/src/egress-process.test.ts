/** The real process, with a launcher and relays that the test plays: what is decided, and that it is decided in time. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { EgressChanged } from '@squash/contract/egress-protocol';
import { EgressUnderTest } from '../../tests/support/egress-process.ts';
import { addressRecord, queryFor, readAnswer } from '../../tests/support/name-server.ts';
import type { ScriptedRelay } from '../../tests/support/scripted-relay.ts';
import { waitFor } from '../../tests/support/wait.ts';

/** Echoes with a mark; with `greeting` it speaks first. */
async function echoServer(greeting = ''): Promise<{ server: Server; port: number; sockets: Set<Socket> }> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    if (greeting !== '') socket.write(greeting);
    socket.on('data', (chunk: Buffer) => socket.write(`echo ${chunk.toString('latin1')}`));
    socket.on('end', () => socket.end());
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return { server, port: address.port, sockets };
}

const mappedPrefix = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
const A = 1;
const AAAA = 28;

async function addressOf(relay: ScriptedRelay, name: string): Promise<string> {
  const answer = readAnswer(await relay.ask(queryFor(name, A)));
  assert.equal(answer.code, 0, name);
  const [address] = answer.data;
  assert.ok(address !== undefined, `${name} has an address`);
  return address.join('.');
}

let egress: EgressUnderTest;
const stack = new AsyncDisposableStack();
let echo: Awaited<ReturnType<typeof echoServer>>;
let greeter: Awaited<ReturnType<typeof echoServer>>;
let relay: ScriptedRelay;
let instance = 100;

const open = { policy: { allow: ['*'] } };
// Loopback counts as public here: it is in the operator's ranges.
const named = { policy: { allow: ['echo.example.com', '*.wild.example.com', '126.0.0.0/7'] } };

before(async () => {
  echo = await echoServer();
  greeter = await echoServer('220 ready\r\n');
  for (const { server, sockets } of [echo, greeter]) {
    stack.defer(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
  }
  egress = stack.use(await EgressUnderTest.start({ open, named }));
  const { zone } = egress.names;
  for (const name of ['echo.example.com', 'a.wild.example.com', 'other.example.com']) {
    zone.set(name, [addressRecord('127.0.0.1')]);
  }
  zone.set('meta.example.com', [addressRecord('169.254.169.254')]);
  zone.set('empty.example.com', []);
  zone.set('broken.example.com', 'failure');
  relay = await egress.launcher.relay((instance += 1), 'named');
});
after(() => stack.disposeAsync());

describe('DNS', () => {
  test('an allowed name gets an address that stays the same', async () => {
    const first = await addressOf(relay, 'echo.example.com');
    assert.match(first, /^198\.1[89]\./);
    assert.ok(!first.startsWith('198.18.0.'));
    assert.equal(await addressOf(relay, 'ECHO.example.COM'), first);
    assert.notEqual(await addressOf(relay, 'a.wild.example.com'), first);
  });

  test('a refused name gets an address too, and no query for it leaves the host', async () => {
    await addressOf(relay, 'secret-data.evil.example');
    assert.deepEqual(
      egress.names.asked.filter((one) => one.includes('evil')),
      [],
    );
    const rows = await egress.decisions('sandbox=named&kind=dns&verdict=denied');
    assert.ok(rows.some(({ host }) => host === 'secret-data.evil.example'));
  });

  test('AAAA of a known name has no data, so that programs take the other family', async () => {
    const answer = readAnswer(await relay.ask(queryFor('echo.example.com', AAAA)));
    assert.deepEqual(answer, { code: 0, isCut: false, data: [] });
  });

  test('what the resolver says of an allowed name is passed on', async () => {
    const other = await egress.launcher.relay((instance += 1), 'open');
    for (const [name, type, code] of [
      ['missing.example.com', A, 3],
      ['missing.example.com', AAAA, 3],
      ['empty.example.com', A, 0],
      ['broken.example.com', A, 2],
      ['localhost', A, 0],
      ['printer.local', A, 3],
      ['singlelabel', A, 3],
      ['127.1', A, 3],
    ] as const) {
      assert.equal(readAnswer(await other.ask(queryFor(name, type))).code, code, name);
    }
    const own = readAnswer(await other.ask(queryFor('localhost', A)));
    assert.deepEqual([...(own.data[0] ?? [])], [127, 0, 0, 1]);
  });

  test('a name of /etc/hosts has its address there', async () => {
    writeFileSync(egress.hostsFile, '127.0.0.1 from-hosts.wild.example.com localhost\n');
    await waitFor('the change of the hosts file', async () => {
      const answer = readAnswer(await relay.ask(queryFor('from-hosts.wild.example.com', A)));
      return answer.code === 0;
    });
  });

  test('an address is told back its name', async () => {
    const address = await addressOf(relay, 'echo.example.com');
    const reverse = `${address.split('.').reverse().join('.')}.in-addr.arpa`;
    const answer = readAnswer(await relay.ask(queryFor(reverse, 12)));
    assert.match(answer.data[0]?.toString('latin1') ?? '', /echo.example.com/);
    assert.equal(readAnswer(await relay.ask(queryFor('1.0.0.127.in-addr.arpa', 12))).code, 3);
  });

  test('queries come over TCP, to whatever address', async () => {
    const stream = relay.open('8.8.8.8', 53);
    const query = queryFor('echo.example.com', A);
    stream.write(Buffer.concat([Uint8Array.of(0, query.length), query]));
    await waitFor('an answer', () => stream.received.length > 2);
    const address = readAnswer(stream.received.subarray(2)).data[0];
    assert.equal(address?.join('.'), await addressOf(relay, 'echo.example.com'));
    stream.endWrites();
    await stream.closed();
  });

  test('a sandbox that floods loses its own queries only', async () => {
    const flooder = await egress.launcher.relay((instance += 1), 'flooder');
    const query = queryFor('echo.example.com', A);
    for (let at = 0; at < 8_000; at += 1) flooder.query(`flood ${at}`, query);
    await relay.ask(query);
    await waitFor('dropped queries', async () => (await egress.stats()).dns.dropped > 0);
    assert.ok(flooder.answers < 8_000);
  });
});

describe('connections', () => {
  test('an allowed name reaches its server, recorded with its bytes', async () => {
    const program = relay.open(await addressOf(relay, 'echo.example.com'), echo.port);
    program.write('PING\r\n');
    await program.read('echo PING');
    program.endWrites();
    assert.equal(await program.closed(), 0);
    const row = await waitFor('the row', async () =>
      (await egress.decisions('sandbox=named&kind=connection&host=echo.example.com')).find(
        ({ bytes_up }) => bytes_up === 6,
      ),
    );
    assert.equal(row.verdict, 'allowed');
    assert.equal(row.address, '127.0.0.1');
    assert.equal(row.port, echo.port);
    assert.equal(row.bytes_down, 11);
    assert.match(row.rule, /echo\.example\.com/);
  });

  test('a refused name is reset, and nothing is dialled', async () => {
    const before = egress.launcher.dialled.length;
    const program = relay.open(await addressOf(relay, 'other.example.com'), echo.port);
    program.write('PING\r\n');
    assert.equal(await program.closed(), 3);
    assert.equal(egress.launcher.dialled.length, before);
    const [row] = await egress.decisions('sandbox=named&kind=connection&host=other.example.com');
    assert.equal(row?.verdict, 'denied');
  });

  test('a virtual address that means nothing is refused, and so is one of another sandbox', async () => {
    const stranger = await egress.launcher.relay((instance += 1), 'stranger');
    for (const [who, where] of [
      [relay, '198.19.200.1'],
      [relay, '198.18.0.1'],
      [stranger, await addressOf(relay, 'echo.example.com')],
    ] as const) {
      assert.equal(await who.open(where, 443).closed(), 3);
    }
    const [row] = await egress.decisions('sandbox=stranger&kind=connection');
    assert.equal(row?.rule, 'unknown_address');
    const rows = await egress.decisions('sandbox=named&kind=connection&verdict=denied');
    assert.ok(
      rows.some(({ rule, address: asked }) => rule === 'unknown_address' && asked === '198.19.200.1'),
    );
  });

  test('a name that leads to the metadata service is refused where it is dialled', async () => {
    const stranger = await egress.launcher.relay((instance += 1), 'open');
    const program = stranger.open(await addressOf(stranger, 'meta.example.com'), 80);
    program.write('\x00\x01');
    assert.equal(await program.closed(), 3);
    assert.ok(!egress.launcher.dialled.some((one) => one.startsWith('169.254')));
    const [row] = await egress.decisions('sandbox=open&kind=connection&host=meta.example.com');
    assert.equal(row?.verdict, 'denied');
  });

  test('a literal address is judged in every spelling', async () => {
    const stranger = await egress.launcher.relay((instance += 1), 'open');
    for (const address of [
      '169.254.169.254',
      '10.0.0.1',
      '0.0.0.0',
      Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 169, 254),
      Uint8Array.of(0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1),
      Uint8Array.of(0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
    ]) {
      const program = stranger.open(address, 80);
      program.write('\x00\x01');
      assert.equal(await program.closed(), 3, String(address));
    }
    const program = relay.open('127.0.0.1', echo.port);
    program.write('PING\r\n');
    await program.read('echo PING');
    program.reset();
  });

  test('the daemon’s own listener is refused whatever allows it, also to a tunnel that is open', async () => {
    const rules = { policy: { allow: ['*', 'host.squash.internal:1-65535', '126.0.0.0/7'] } };
    const listeners = [{ address: '127.0.0.1', port: echo.port }];
    await egress.sync({ open, named, daring: rules });
    const daring = await egress.launcher.relay((instance += 1), 'daring');
    const name = await addressOf(daring, 'echo.example.com');
    const host = await addressOf(daring, 'host.squash.internal');
    const before = daring.open(name, echo.port);
    before.write('PING\r\n');
    await before.read('echo PING');
    await egress.sync({ open, named, daring: rules }, { listeners });
    assert.equal(await before.closed(), 3);
    for (const address of [name, host, '127.0.0.1', Uint8Array.of(...mappedPrefix, 127, 0, 0, 1)]) {
      const program = daring.open(address, echo.port);
      program.write('PING\r\n');
      assert.equal(await program.closed(), 3, String(address));
      const other = daring.open(address, greeter.port);
      await other.read('220 ready');
      other.reset();
    }
    const rows = await waitFor('the rows', async () => {
      const all = await egress.decisions('sandbox=daring&kind=connection&verdict=denied');
      return all.length >= 2 ? all : undefined;
    });
    for (const { rule } of rows) assert.equal(rule, 'daemon_address');
    await egress.sync({ open, named });
  });

  test('a server that speaks first is heard before the program has said a word', async () => {
    const program = relay.open(await addressOf(relay, 'echo.example.com'), greeter.port);
    await program.read('220 ready');
    program.write('EHLO me\r\n');
    await program.read('echo EHLO');
    program.reset();
  });

  test('a message without a line end passes within a second, and so does one that ends there', async () => {
    const name = await addressOf(relay, 'echo.example.com');
    const program = relay.open(name, echo.port);
    const sinceMs = performance.now();
    program.write('PING me');
    await program.read('echo PING me');
    // A second, and what a busy machine adds.
    assert.ok(performance.now() - sinceMs < 2_000);
    program.write(' and more\n');
    await program.read('echo  and more');
    program.endWrites();
    assert.equal(await program.closed(), 0);
    const ended = relay.open(name, echo.port);
    ended.write('hello');
    ended.endWrites();
    await ended.read('echo hello');
    assert.equal(await ended.closed(), 0);
  });

  test('HTTP that begins late is read as if it had begun at once, unless a part of it has left', async () => {
    const name = await addressOf(relay, 'echo.example.com');
    const others = new Set(echo.sockets);
    const late = relay.open(name, echo.port);
    const dialled = await waitFor('its server to be dialled', () =>
      [...echo.sockets].find((socket) => !others.has(socket)),
    );
    late.write('GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n');
    await late.read('HTTP/1.1 403');
    assert.equal(dialled.bytesRead, 0);
    late.reset();
    const parted = relay.open(name, echo.port);
    parted.write('GET / HT');
    await parted.read('echo GET / HT');
    const [socket] = [...echo.sockets].filter(({ bytesRead }) => bytesRead > 0);
    parted.write('TP/1.1\r\nHost: evil.example\r\n\r\n');
    assert.notEqual(await parted.closed(), 0);
    assert.equal(socket?.bytesRead, 8);
    // Where requests are judged nothing is let go, and a slow one is waited for.
    await egress.put('ruled', { policy: { allow: [{ to: 'echo.example.com', paths: ['/ok'] }] } });
    const ruled = await egress.launcher.relay((instance += 1), 'ruled');
    const slow = ruled.open(await addressOf(ruled, 'echo.example.com'), echo.port);
    const sinceMs = performance.now();
    slow.write('GET /no HT');
    await waitFor('a second to pass', () => (performance.now() - sinceMs > 1_000 ? true : undefined));
    slow.write('TP/1.1\r\nHost: echo.example.com\r\n\r\n');
    await slow.read('HTTP/1.1 403');
    slow.reset();
  });

  test('a server that is not there is a reset, recorded with the reason', async () => {
    const nobody = await echoServer();
    nobody.server.close();
    const program = relay.open(await addressOf(relay, 'echo.example.com'), nobody.port);
    program.write('x\r\n');
    assert.equal(await program.closed(), 3);
    const rows = await egress.decisions('sandbox=named&kind=connection&host=echo.example.com');
    assert.ok(rows.some(({ rule, port }) => port === nobody.port && rule.includes('ECONNREFUSED')));
  });

  test('a tunnel that has ended before the launcher answers is recorded with its bytes', async () => {
    const { launcher } = egress;
    const short = await launcher.relay((instance += 1), 'short');
    await egress.put('short', named);
    const address = await addressOf(short, 'echo.example.com');
    const nobody = await echoServer();
    nobody.server.close();
    launcher.isLate = true;
    const reached = short.open(address, echo.port);
    const refused = short.open(address, nobody.port);
    for (const program of [reached, refused]) {
      program.write('PING\r\n');
      program.endWrites();
    }
    assert.equal(await reached.closed(), 0);
    refused.reset();
    await waitFor('both answers', () => launcher.lateAnswers === 2);
    // Connections are reported in order: once this one is known, so are the ends of those.
    const last = short.open('198.19.200.1', 443);
    assert.equal(await last.closed(), 3);
    launcher.answerLate();
    launcher.isLate = false;
    const rows = await waitFor('the rows', async () => {
      const found = await egress.decisions('sandbox=short&kind=connection&host=echo.example.com');
      return found.length === 2 ? found : undefined;
    });
    const row = rows.find(({ port }) => port === echo.port);
    assert.deepEqual([row?.verdict, row?.bytes_up, row?.bytes_down], ['allowed', 6, 11]);
    assert.match(rows.find(({ port }) => port === nobody.port)?.rule ?? '', /ECONNREFUSED/);
  });

  test('bytes that are no frame end the relay, and only it', async () => {
    const broken = await egress.launcher.relay((instance += 1), 'open');
    broken.raw(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
    await waitFor('the end of the relay', () => broken.hasEnded);
    const confused = await egress.launcher.relay((instance += 1), 'open');
    confused.post('connectionRelease', [['connection', 1]]);
    await waitFor('the end of the relay', () => confused.hasEnded);
    await addressOf(relay, 'echo.example.com');
  });
});

describe('rules that change', () => {
  test('a connection that is no longer allowed ends, another one goes on', async () => {
    const changing = await egress.launcher.relay((instance += 1), 'changing');
    await egress.put('changing', named);
    const one = changing.open(await addressOf(changing, 'echo.example.com'), echo.port);
    const other = changing.open(await addressOf(changing, 'a.wild.example.com'), echo.port);
    for (const program of [one, other]) {
      program.write('PING\r\n');
      await program.read('echo PING');
    }
    assert.equal(await egress.put('changing', { policy: { allow: ['*.wild.example.com'] } }), 1);
    assert.equal(await one.closed(), 3);
    other.write('PONG\r\n');
    await other.read('echo PONG');
    await egress.ask('DELETE', '/sandboxes/changing');
    await waitFor('the end of the relay', () => changing.hasEnded);
  });

  test('a policy that does not compile changes nothing, and the others beside it hold', async () => {
    const change = (id: string, host: string): object => ({ id, secrets: 'all', policy: { allow: [host] } });
    const changes = [change('named', 'no good'), change('beside', 'a.wild.example.com')];
    const { problems } = (await egress.ask('PUT', '/sandboxes', changes)) as EgressChanged;
    assert.equal(problems.map(({ id }) => id).join(), 'named');
    const beside = await egress.launcher.relay((instance += 1), 'beside');
    await addressOf(beside, 'a.wild.example.com');
    await egress.ask('DELETE', '/sandboxes/beside');
    await addressOf(relay, 'echo.example.com');
    const program = relay.open(await addressOf(relay, 'echo.example.com'), echo.port);
    program.write('PING\r\n');
    await program.read('echo PING');
    program.reset();
  });

  test('nothing is allowed to a sandbox of which the daemon has not spoken', async () => {
    const unknown = await egress.launcher.relay((instance += 1), 'unheard-of');
    const program = unknown.open('1.1.1.1', 443);
    program.write('\x00');
    assert.equal(await program.closed(), 3);
    const [row] = await egress.decisions('sandbox=unheard-of&kind=connection');
    assert.equal(row?.rule, 'no_policy');
  });
});

describe('the process', () => {
  test('killed and started again it knows the same addresses, and refuses until it is told the rules', async () => {
    const address = await addressOf(relay, 'echo.example.com');
    await egress.end('SIGKILL');
    await waitFor('the end of the relay', () => relay.hasEnded);
    await egress.spawn();
    assert.equal((await egress.stats()).synced, false);
    await assert.rejects(egress.put('named', named), /not_synced/);
    await assert.rejects(egress.launcher.relay((instance += 1), 'named'));
    await egress.sync({ open, named });
    relay = await egress.launcher.relay((instance += 1), 'named');
    await waitFor('the launcher', async () => (await egress.stats()).launcher);
    const program = relay.open(address, echo.port);
    program.write('PING\r\n');
    await program.read('echo PING');
    program.reset();
    assert.equal(await addressOf(relay, 'echo.example.com'), address);
  });

  test('a tunnel goes on while the process is replaced, and ends when the rules that come then refuse it', async () => {
    const lasting = await egress.launcher.relay((instance += 1), 'lasting');
    await egress.put('lasting', named);
    const address = await addressOf(lasting, 'echo.example.com');
    const kept = lasting.open(await addressOf(lasting, 'a.wild.example.com'), echo.port);
    const lost = lasting.open(address, echo.port);
    for (const program of [kept, lost]) {
      program.write('PING\r\n');
      await program.read('echo PING');
    }
    await egress.end('SIGKILL');
    await egress.spawn();
    const wild = { policy: { allow: ['*.wild.example.com'] } };
    await egress.sync({ open, named, lasting: wild });
    relay = await egress.launcher.relay((instance += 1), 'named');
    await egress.launcher.reconnect(lasting);
    assert.equal(await lost.closed(), 3);
    kept.write('PONG\r\n');
    await kept.read('echo PONG');
    assert.equal(await egress.put('lasting', { policy: { allow: ['none'] } }), 1);
    assert.equal(await kept.closed(), 3);
  });

  test('a relay of this protocol is heard, and one of a later one is not', async () => {
    const known = await egress.launcher.relay((instance += 1), 'named', 1);
    await addressOf(known, 'echo.example.com');
    const unknown = await egress.launcher.relay((instance += 1), 'named', 2);
    await waitFor('the end of the relay', () => unknown.hasEnded);
  });

  test('it finds the launcher again', async () => {
    egress.launcher.drop();
    const { attached } = egress.launcher;
    await waitFor('the launcher', () => egress.launcher.attached > attached);
    const program = relay.open(await addressOf(relay, 'echo.example.com'), echo.port);
    program.write('PING\r\n');
    await program.read('echo PING');
    program.reset();
  });

  test('it ends when it is told, and leaves no socket behind', async () => {
    assert.equal(await egress.end('SIGTERM'), 0);
    assert.deepEqual(readdirSync(egress.runDir), ['launch.sock']);
    await egress.spawn();
    await egress.sync({ open, named });
    relay = await egress.launcher.relay((instance += 1), 'named');
  });
});
