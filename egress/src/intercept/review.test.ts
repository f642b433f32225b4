/** Rules that change while requests are under way: what they no longer allow is ended, and nothing else. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientHttp2Stream, connect as connectHttp2 } from 'node:http2';
import { test } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import {
  everySurface,
  host,
  Intercepted,
  type InterceptedOptions,
  key,
} from '../../../tests/support/intercepted.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const wide = { allow: [{ to: host, paths: ['/ws', '/events'], upgrades: ['websocket'] }] };
const narrow = { allow: [{ to: host, paths: ['/other'] }] };
const other = { placeholder: 'other-placeholder-0123456789', value: 'other-value-9876543210' };
const { KEY } = everySurface.secrets;

class OpenSocket implements AsyncDisposable {
  readonly to: Intercepted;
  readonly client: WebSocket;
  readonly got: string[] = [];
  readonly #server: WebSocketServer;

  private constructor(to: Intercepted) {
    this.to = to;
    this.#server = new WebSocketServer({ server: to.originServer as never });
    this.#server.on('connection', (socket) => {
      socket.on('error', () => {});
      socket.on('message', (data) => {
        this.got.push(String(data as Buffer));
        socket.send('heard');
      });
    });
    const options = { ca: to.ca, servername: host, headers: { host } };
    this.client = new WebSocket(`wss://127.0.0.1:${to.port}/ws`, options);
    this.client.on('error', () => {});
  }

  static async open(options: InterceptedOptions): Promise<OpenSocket> {
    const opened = new OpenSocket(await Intercepted.start({ policy: wide, ...options }));
    await once(opened.client, 'open');
    return opened;
  }

  async say(text: string): Promise<string | undefined> {
    this.client.send(text);
    await once(this.client, 'message');
    return this.got.at(-1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.terminate();
    this.#server.close();
    await this.to[Symbol.asyncDispose]();
  }
}

async function expectEnd(change: { readonly secrets: unknown }): Promise<void> {
  await using socket = await OpenSocket.open({ secrets: everySurface });
  assert.equal(await socket.say(key.placeholder), key.value);
  assert.equal(socket.to.change(change), 1);
  await once(socket.client, 'close');
  assert.equal(socket.got.length, 1);
  assert.equal((await socket.to.decision(0)).verdict, 'allowed');
}

test('an open WebSocket ends when its secret is deleted', () => expectEnd({ secrets: { secrets: {} } }));

for (const [what, changed] of [
  ['gets another value', { value: 'another-value-0123' }],
  ['is taken from bodies', { surfaces: ['headers'] }],
  ['is taken from its host', { allowed_hosts: ['elsewhere.test'] }],
] as const) {
  test(`an open WebSocket ends when its secret ${what}`, () =>
    expectEnd({ secrets: { secrets: { KEY: { ...KEY, ...changed } } } }));
}

test('an open WebSocket goes on when a secret of another host changes, or nothing for it', async () => {
  const more = { ...other, allowed_hosts: ['elsewhere.test'] };
  await using socket = await OpenSocket.open({ secrets: { secrets: { MORE: more, KEY } } });
  const { to } = socket;
  for (const secrets of [
    { secrets: { KEY, MORE: more } },
    { secrets: { KEY, MORE: { ...more, value: 'another-value-0123' } } },
    { secrets: { KEY: { ...KEY, allowed_hosts: [host, 'more.test'] } } },
  ])
    assert.equal(to.change({ secrets }), 0);
  assert.equal(to.change({ policy: { allow: [host] } }), 0);
  assert.equal(await socket.say(key.placeholder), key.value);
});

test('an open WebSocket ends when a rule no longer allows its path', async () => {
  for (const secrets of [everySurface, { secrets: {} }]) {
    await using socket = await OpenSocket.open({ secrets });
    assert.equal(socket.to.change({ policy: narrow }), 1);
    await once(socket.client, 'close');
  }
});

/** Two streams of events in one session, and a way to say the next event in both. */
async function events(to: Intercepted): Promise<[ClientHttp2Stream, ClientHttp2Stream]> {
  const socket = await to.connect(['h2']);
  const session = connectHttp2(`https://${host}`, { createConnection: () => socket }).on('error', () => {});
  const open = async (path: string): Promise<ClientHttp2Stream> => {
    const stream = session.request({ ':path': path }).on('error', () => {});
    await once(stream, 'data');
    return stream;
  };
  return [await open('/events/1'), await open('/events/2')];
}

test('of two streams of events the one ends that a rule no longer allows, the other goes on', async () => {
  for (const origin of ['h2', 'http/1.1'] as const) {
    const tell = new Set<() => void>();
    await using to = await Intercepted.start({
      origin,
      policy: wide,
      secrets: everySurface,
      handler: (_, response) => {
        tell.add(() => void response.write('data: next\n\n'));
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: first\n\n');
      },
    });
    const [one, two] = await events(to);
    assert.equal(to.change({ policy: { allow: [{ to: host, paths: ['/events/2'] }] } }), 1);
    await waitFor('the end of the one', () => one.closed);
    // It waits for what it asked for with the secrets of then, and nothing is put into it any more.
    assert.equal(to.change({ secrets: { secrets: {} } }), 0);
    const next = once(two, 'data');
    for (const each of tell) each();
    await next;
    two.session?.destroy();
  }
});

test('a request that is still being sent ends when its secret is deleted', async () => {
  let got = '';
  await using to = await Intercepted.start({
    secrets: everySurface,
    handler: (request) => {
      request
        .on('error', () => {})
        .on('data', (piece: Buffer) => {
          got += piece.toString();
          if (got.includes(key.value)) to.change({ secrets: { secrets: {} } });
        });
    },
  });
  const socket = await to.connect();
  socket.on('error', () => {}).resume();
  socket.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  socket.write(`${(key.placeholder.length + 1).toString(16)}\r\n${key.placeholder}\n\r\n`);
  await once(socket, 'close');
  assert.equal(got.trim(), key.value);
});
