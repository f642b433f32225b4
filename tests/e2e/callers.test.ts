/** Ports of callers: programs in a sandbox connect to what a client of the API offers, as far as the policy names it, and no further. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { buffer } from 'node:stream/consumers';
import type { CallerEvent } from '@squash/contract/callers';
import type { KeyCreated } from '@squash/contract/keys';
import WebSocket from 'ws';
import { isOnVms } from '../support/backend.ts';
import { type CliEnd, endOf, squash, startCli } from '../support/cli.ts';
import { HostServer } from '../support/host-server.ts';
import { processesOf } from '../support/leaks.ts';
import { PreviewScene } from '../support/previews.ts';
import { waitFor } from '../support/wait.ts';

const operator = 'the-operator-of-this-test';
const port = 5432;
const name = `caller.squash.internal:${port}`;
const bytesMost = 5_000_000;

let scene: PreviewScene;
/** Its time runs while the other tests do. */
let late: Awaited<ReturnType<typeof connectionThatNobodyTakes>>;
const stack = new AsyncDisposableStack();

before(async () => {
  scene = stack.use(await PreviewScene.start(['dev', 'other'], { env: { SQUASH_AUTH_TOKEN: operator } }));
  for (const id of ['dev', 'other']) await allow(id, ['*', 'caller.squash.internal:5400-5499']);
  late = await connectionThatNobodyTakes();
});
after(() => stack.disposeAsync());

async function allow(id: string, list: readonly string[]): Promise<void> {
  await scene.daemon.call('PUT', `/v1/sandboxes/${id}/policy`, { allow: list });
}

/** A microVM's network connects before it answers the guest: what is reset meanwhile the guest is told as refused. */
const said = isOnVms ? `error.code.replace('ECONNREFUSED', 'ECONNRESET')` : 'error.code';

/** What a Node program in the sandbox prints; `connect` is there, and `say` prints JSON. */
async function inside(program: string, id = 'dev'): Promise<string> {
  const text = `const net = require('net'), crypto = require('crypto');
const sha = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex');
const connect = (port = ${port}) => net.connect({ host: 'caller.squash.internal', port, allowHalfOpen: true });
const outcome = (port, first = '') => new Promise((done) => { const socket = connect(port); let text = ''; socket.write(first);
  socket.on('data', (piece) => { text += piece; }).on('end', () => done(text)).on('error', (error) => done(${said})); });
${program}`;
  return await scene.exec(id, `node -e "$(echo ${Buffer.from(text).toString('base64')} | base64 -d)"`);
}

/** \`squash port-forward --reverse\` that stands. */
async function reverse(words: readonly string[], id = 'dev') {
  const child = startCli(scene.daemon, ['port-forward', id, ...words.flatMap((word) => ['--reverse', word])]);
  const ended = endOf(child);
  let said = '';
  child.stdout?.on('data', (piece: Buffer) => (said += piece.toString()));
  await waitFor('the offer', () => {
    assert.equal(child.exitCode, null, said);
    return said.split('\n').length > words.length;
  });
  const stop = async (): Promise<CliEnd> => {
    child.kill('SIGINT');
    return await ended;
  };
  return { child, said, stop, [Symbol.asyncDispose]: async () => void (await stop()) };
}

function open(path: string, protocol: string, token = operator): WebSocket {
  const headers = { authorization: `Bearer ${token}` };
  return new WebSocket(`${scene.daemon.url.replace('http', 'ws')}/v1/sandboxes/${path}`, protocol, {
    headers,
  });
}

/** An offer made by hand: what the daemon has said of it. */
async function offer(at = port, id = 'dev', token = operator) {
  const socket = open(`${id}/callers/${at}`, 'squash.caller.v1', token);
  const events: CallerEvent[] = [];
  socket.on('message', (data: Buffer) => void events.push(JSON.parse(data.toString()) as CallerEvent));
  await waitFor('a word about the offer', () => events.length > 0);
  const told = async (count: number): Promise<readonly string[]> =>
    await waitFor(`${count} connections`, () => {
      const ids = events.flatMap((event) => (event.type === 'connection' ? [event.connection] : []));
      return ids.length >= count ? ids : undefined;
    });
  return { socket, events, told };
}

function take(connection: string, at = port, id = 'dev'): WebSocket {
  return open(`${id}/callers/${at}/${connection}`, 'squash.tcp.v1');
}

async function refusedTake(socket: WebSocket): Promise<number> {
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number }];
  socket.on('error', () => undefined).terminate();
  return response.statusCode;
}

async function ruleOf(text: string, id = 'dev'): Promise<{ verdict: string; bytes_up: number | null }> {
  return await waitFor(`a decision by "${text}"`, async () => {
    const { decisions } = await scene.daemon.call(
      'GET',
      `/v1/sandboxes/${id}/egress?limit=1000&kind=connection&host=caller.squash.internal`,
    );
    return (decisions as { rule: string; verdict: string; bytes_up: number | null }[]).find(({ rule }) =>
      rule.includes(text),
    );
  });
}

describe('squash port-forward --reverse', () => {
  it('lets a program reach an HTTP server of the caller’s loopback, by its name and port', async () => {
    const server = createServer((request, response) =>
      response.end(`${request.url} of ${request.headers.host}`),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port: local } = server.address() as AddressInfo;
    await using running = await reverse([`${port}:127.0.0.1:${local}`, `5433:${local}`]);
    assert.match(running.said, new RegExp(`^dev ${name} -> 127\\.0\\.0\\.1:${local}\\ndev caller\\.squash`));
    for (const at of [port, 5433]) {
      const got = await inside(
        `fetch('http://caller.squash.internal:${at}/x').then(async (a) => console.log(await a.text()))`,
      );
      assert.equal(got, `/x of caller.squash.internal:${at}`);
    }
    const row = await ruleOf('allow[1] caller.squash.internal:5400-5499');
    assert.equal(row.verdict, 'allowed');
    assert.equal((await running.stop()).code, 0);
    server.close();
  });

  it('carries five megabytes each way to the byte, whichever side ends first', async () => {
    const sent = randomBytes(bytesMost);
    const heard: string[] = [];
    const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
    let isFirst = true;
    await using server = await HostServer.start((socket) => {
      if (isFirst) socket.end(sent);
      void buffer(socket).then((bytes) => {
        heard.push(sha(bytes));
        if (!isFirst) socket.end(sent);
      });
    });
    await using running = await reverse([`${port}:localhost:${server.port}`]);
    const mine = `const mine = crypto.randomBytes(${bytesMost}); const parts = []; const socket = connect();
socket.on('data', (piece) => parts.push(piece));`;
    const end = `console.log(sha(mine), sha(Buffer.concat(parts)))`;
    const orders = [
      `socket.on('end', () => { socket.end(mine); ${end} })`,
      `socket.end(mine); socket.on('end', () => ${end})`,
    ];
    for (const order of [...orders, ...orders.slice(1), ...orders.slice(1)]) {
      const [up, down] = (await inside(`${mine}${order}`)).split(' ');
      assert.equal(down, sha(sent));
      await waitFor('what the program sent', () => heard.length > 0);
      assert.equal(heard.pop(), up);
      isFirst = false;
    }
    await running.stop();
  });

  it('resets what nobody answers at the port here, and says so', async () => {
    await using closed = await HostServer.start(() => undefined);
    const { port: local } = closed;
    await closed[Symbol.asyncDispose]();
    await using running = await reverse([`${port}:127.0.0.1:${local}`]);
    assert.equal(await inside('outcome().then(console.log)'), 'ECONNRESET');
    const { stderr } = await running.stop();
    assert.match(stderr, new RegExp(`port ${port}: can't connect to 127\\.0\\.0\\.1:${local}: ECONNREFUSED`));
    assert.equal((await ruleOf('(caller_refused)')).verdict, 'allowed');
  });

  it('says which entry a policy lacks; nothing but such an entry lets a connection through', async () => {
    await using server = await HostServer.start((socket) => socket.end('reached'));
    let said = '';
    // What a program says first is waited for, two seconds where it is silent; this begins no request.
    for (const [list, first] of [
      [['*'], ''],
      [['*.squash.internal', '0.0.0.0/0'], 'hello:'],
      [['host.squash.internal:1-65535'], 'hello:'],
      [['none'], 'hello:'],
    ] as const) {
      await allow('dev', list);
      await using running = await reverse([`${port}:127.0.0.1:${server.port}`]);
      const program = `outcome(${port}, '${first}').then(console.log)`;
      assert.equal(await inside(program), 'ECONNRESET', list.join());
      const { stderr } = await running.stop();
      said = stderr;
      assert.match(
        stderr,
        /does not let it reach caller\.squash\.internal:5432 .*squash policy allow dev caller\.squash/,
      );
    }
    assert.equal((await ruleOf('not_allowed')).verdict, 'denied');
    await scene.daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'brief', allow_net: [] });
    assert.equal((await squash(scene.daemon, ['policy', 'test', 'brief', name])).code, 1);
    await scene.daemon.call('DELETE', '/cgi-bin/api/sandboxes/brief');
    const [, command = ''] = /squash (policy allow \S+ \S+)/.exec(said) ?? [];
    await allow('dev', ['*']);
    assert.equal((await squash(scene.daemon, command.split(' '))).code, 0);
    await using running = await reverse([`${port}:127.0.0.1:${server.port}`]);
    assert.equal(await inside('outcome().then(console.log)'), 'reached');
    const tested = await squash(scene.daemon, ['policy', 'test', 'dev', name]);
    assert.equal(tested.code, 0, tested.stdout.toString());
    assert.equal((await running.stop()).stderr, '');
    await allow('dev', ['*', 'caller.squash.internal:5400-5499']);
  });

  it('waits for a person, and has requests read, where the policy says so', async () => {
    await using server = await HostServer.start((socket) => {
      socket.once('data', () =>
        socket.end('HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nreached'),
      );
    });
    await using running = await reverse([`${port}:127.0.0.1:${server.port}`]);
    const fetched = (method: string): Promise<string> =>
      inside(
        `fetch('http://${name}/', { method: '${method}' }).then(async (a) => console.log(a.status, await a.text()))`,
      );
    await scene.daemon.call('PUT', '/v1/sandboxes/dev/policy', { allow: ['*'], ask: [name] });
    const asked = fetched('GET');
    const question = await waitFor('the question', async () => {
      const { items } = await scene.daemon.call('GET', '/v1/approvals?state=pending');
      return (items as { readonly id: string }[])[0];
    });
    await scene.daemon.call('POST', `/v1/approvals/${question.id}`, { decision: 'allow', scope: 'once' });
    assert.equal(await asked, '200 reached');
    await scene.daemon.call('PUT', '/v1/sandboxes/dev/policy', { allow: [{ to: name, methods: ['GET'] }] });
    assert.equal(await fetched('GET'), '200 reached');
    assert.match(await fetched('POST'), /^403 [^]*not_allowed/);
    await allow('dev', ['*', 'caller.squash.internal:5400-5499']);
    assert.equal((await running.stop()).code, 0);
  });

  it('ends what is open and lets nothing new through when it goes', async () => {
    const sockets: Socket[] = [];
    await using server = await HostServer.start((socket) => void sockets.push(socket.resume()));
    await using running = await reverse([`${port}:127.0.0.1:${server.port}`]);
    const open = inside('outcome().then(console.log)');
    await waitFor('the connection', () => sockets.length === 1);
    running.child.kill('SIGKILL');
    await running.stop();
    assert.equal(await open, 'ECONNRESET');
    assert.equal(await inside('outcome().then(console.log)'), 'ECONNRESET');
    assert.equal((await ruleOf('(caller_not_there)')).verdict, 'allowed');
  });

  it('refuses words that are no place', async () => {
    for (const word of ['x', ':1', '1:2:3:4', '0:localhost:80', 'localhost:99999', '']) {
      const { code, stderr } = await squash(scene.daemon, ['port-forward', 'dev', '--reverse', word]);
      assert.equal(code, 2, word);
      assert.match(stderr, /no port|takes \[PORT:\]HOST:PORT/, word);
    }
    assert.equal((await squash(scene.daemon, ['port-forward', 'dev'])).code, 2);
    assert.equal((await squash(scene.daemon, ['port-forward', 'none', '--reverse', '80'])).code, 1);
  });
});

describe('an offer over the API', () => {
  it('stands once for a sandbox and port, and so many times for one sandbox', async () => {
    const first = await offer();
    assert.deepEqual(first.events, [{ type: 'offered' }]);
    const second = await offer();
    assert.equal(second.events[0]?.type === 'error' && second.events[0].code, 'port_offered');
    const others = [await offer(port, 'other')];
    assert.equal(others[0]?.events[0]?.type, 'offered');
    for (let at = 1; at < 16; at += 1) others.push(await offer(port + at));
    const tooMany = await offer(port + 16);
    assert.equal(tooMany.events[0]?.type === 'error' && tooMany.events[0].code, 'offer_limit');
    first.socket.terminate();
    const again = await waitFor('the port to be free', async () => {
      const next = await offer();
      return next.events[0]?.type === 'offered' ? next : undefined;
    });
    for (const { socket } of [again, ...others]) socket.terminate();
  });

  it('is nothing to a key of another owner, and its connections to nobody who was not told of them', async () => {
    const standing = await waitForOffer();
    const key = (await scene.daemon.call('POST', '/v1/keys', {
      name: 'x',
      owner: 'team',
      scope: 'exec',
    })) as KeyCreated;
    assert.equal(await refusedTake(open(`dev/callers/${port}`, 'squash.caller.v1', key.token)), 404);
    const outcome = inside('outcome().then(console.log)');
    const [connection = ''] = await standing.told(1);
    assert.equal(
      await refusedTake(open(`dev/callers/${port}/${connection}`, 'squash.tcp.v1', key.token)),
      404,
    );
    assert.equal(await refusedTake(take(connection, port + 1)), 404);
    assert.equal(await refusedTake(take(connection, port, 'other')), 404);
    assert.equal(await refusedTake(take('0'.repeat(32))), 404);
    const taken = take(connection);
    await once(taken, 'open');
    assert.equal(await refusedTake(take(connection)), 404);
    taken.send(Buffer.from('taken'));
    taken.send('{"type":"eof"}');
    assert.equal(await outcome, 'taken');
    taken.terminate();
    standing.socket.terminate();
  });

  it('resets a connection that is refused, or that nobody takes in time', async () => {
    const standing = await waitForOffer();
    const refused = inside('outcome().then(console.log)');
    const [first = ''] = await standing.told(1);
    standing.socket.send(JSON.stringify({ type: 'refuse', connection: first }));
    assert.equal(await refused, 'ECONNRESET');
    assert.equal(await late.outcome, 'ECONNRESET');
    assert.equal((await ruleOf('(caller_late)', 'other')).verdict, 'allowed');
    assert.equal(await refusedTake(take(late.connection, late.port, 'other')), 404);
    late.socket.terminate();
    standing.socket.send('{"type":"other"}');
    await once(standing.socket, 'close');
    assert.match(JSON.stringify(standing.events.at(-1)), /invalid_request/);
  });

  it('carries so many connections of a sandbox at once, and resets the next', async () => {
    const standing = await waitForOffer();
    const many = inside(`const all = []; let open = 0;
for (let at = 0; at < 65; at += 1) all.push(outcome());
Promise.all(all).then((texts) => console.log(texts.filter((text) => text === 'ECONNRESET').length, new Set(texts).size))`);
    const taken = (await standing.told(64)).map((connection) => {
      const socket = take(connection);
      socket.on('open', () => socket.send(Buffer.from(connection)));
      return socket;
    });
    await Promise.all(taken.map((socket) => once(socket, 'open')));
    assert.equal((await ruleOf('(connection_limit)')).verdict, 'allowed');
    for (const socket of taken) socket.send('{"type":"eof"}');
    assert.equal(await many, '1 65');
    for (const socket of [...taken, standing.socket]) socket.terminate();
  });

  it('stalls a program whose caller reads nothing, instead of holding what it writes', async () => {
    const standing = await waitForOffer();
    const program = `const socket = connect(); const piece = Buffer.alloc(65536); let sent = 0;
const next = () => { sent += piece.length; require('fs').writeFileSync('/tmp/sent', String(sent)); socket.write(piece, next); };
socket.on('error', () => {}); next(); setTimeout(() => process.exit(), 60000)`;
    const written = inside(program);
    const [connection = ''] = await standing.told(1);
    const taken = take(connection);
    await once(taken, 'open');
    taken.pause();
    let before = '';
    let equal = 0;
    const sent = await waitFor('the program to stall', async () => {
      const now = await scene.exec('dev', 'cat /tmp/sent');
      equal = now === before ? equal + 1 : 0;
      before = now;
      return equal > 5 ? Number(now) : undefined;
    });
    assert.ok(sent > 65_536 && sent < 16_000_000, `${sent} bytes`);
    taken.terminate();
    await scene.exec('dev', 'pkill node');
    await written;
    standing.socket.terminate();
  });

  it('ends with its key and with its sandbox, and is none of the next one’s of that id', async () => {
    await scene.daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'brief', owner: 'team' });
    const key = (await scene.daemon.call('POST', '/v1/keys', {
      name: 'y',
      owner: 'team',
      scope: 'exec',
    })) as KeyCreated;
    const byKey = await offer(port, 'brief', key.token);
    assert.equal(byKey.events[0]?.type, 'offered');
    const over = once(byKey.socket, 'close');
    await scene.daemon.call('DELETE', `/v1/keys/${key.id}`);
    await over;
    const standing = await waitForOffer('brief');
    const closed = once(standing.socket, 'close');
    await scene.daemon.call('DELETE', '/cgi-bin/api/sandboxes/brief');
    await closed;
    assert.match(JSON.stringify(standing.events), /sandbox_not_found/);
    await scene.daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'brief' });
    const next = await offer(port, 'brief');
    assert.equal(next.events[0]?.type, 'offered');
    next.socket.terminate();
    await scene.daemon.call('DELETE', '/cgi-bin/api/sandboxes/brief');
  });

  it('ends with a change of the policy for what is open, and with the egress process for all', async () => {
    const standing = await waitForOffer();
    const open = inside('outcome().then(console.log)');
    const [connection = ''] = await standing.told(1);
    const taken = take(connection);
    await once(taken, 'open');
    const cut = once(taken, 'close');
    await allow('dev', ['*']);
    assert.equal(await open, 'ECONNRESET');
    await cut;
    const closed = once(standing.socket, 'close');
    const egress = processesOf(scene.daemon.dataDir).find(({ command }) =>
      command.includes('egress/src/main.ts'),
    );
    assert.ok(egress !== undefined);
    process.kill(egress.pid, 'SIGKILL');
    await closed;
    assert.match(JSON.stringify(standing.events.at(-1)), /egress_unavailable/);
    await allow('dev', ['*', 'caller.squash.internal:5400-5499']);
  });
});

async function connectionThatNobodyTakes() {
  const at = port + 60;
  const standing = await offer(at, 'other');
  const outcome = inside(`outcome(${at}).then(console.log)`, 'other');
  const [connection = ''] = await standing.told(1);
  return { outcome, connection, port: at, socket: standing.socket };
}

/** The one before may be on its way out. */
async function waitForOffer(id = 'dev') {
  return await waitFor('the port to be free', async () => {
    const next = await offer(port, id);
    return next.events[0]?.type === 'offered' ? next : undefined;
  });
}
