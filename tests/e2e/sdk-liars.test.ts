/** `@squash/sdk` against what stands where a daemon should: servers that lie, stall, flood, vanish or are too old. By both transports. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, it } from 'node:test';
import { Connection } from '../../sdk/src/connection.ts';
import { fetchTransport } from '../../sdk/src/fetch-transport.ts';
import { Sandbox, Squash, SquashError, version } from '@squash/sdk';

type Answer = (socket: Socket, request: string) => void;

const servers: Server[] = [];
const sockets = new Set<Socket>();
/** The first lines of all requests that came. */
let asked: string[] = [];

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) {
    server.close();
    await once(server, 'close');
  }
});

/** Each connection's first bytes are answered by the next of these, those behind the last by the last. */
async function liar(...answers: readonly Answer[]): Promise<string> {
  asked = [];
  let count = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (bytes) => {
      const text = bytes.toString('latin1');
      if (!/^[A-Z]+ \//.test(text)) return;
      asked.push(text.slice(0, text.indexOf(' HTTP')));
      (answers[Math.min(count++, answers.length - 1)] ?? (() => {}))(socket, text);
    });
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const says =
  (text: string): Answer =>
  (socket) =>
    void socket.end(text);
const head = (type: string, more = ''): string =>
  `HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: ${type}\r\n${more}\r\n`;
const json = (value: unknown, status = '200 OK'): Answer => {
  const text = JSON.stringify(value);
  return says(
    `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
};
const record = { id: 'sb1', state: 'ready' };
const box = json(record);

const ways = ['node:http', 'fetch'] as const;

/** A client of either way, whichever this runtime would take. */
function clientOf(way: (typeof ways)[number], url: string): { readonly connection: Connection } {
  const transport =
    way === 'fetch' ? fetchTransport({ kind: 'tcp', base: url }, { canStream: true }) : undefined;
  return { connection: new Connection({ url, token: 'x', timeout_ms: 300 }, transport) };
}

async function failure(doing: Promise<unknown>): Promise<SquashError> {
  const began = performance.now();
  const error = await doing.then(
    (value) => assert.fail(`nothing was thrown: ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof SquashError, String(error));
  assert.ok(performance.now() - began < 8_000, 'it took too long');
  return error;
}

for (const way of ways) {
  describe(`by ${way}, a daemon`, () => {
    const lies: readonly [what: string, answer: Answer, expected: string, message: RegExp][] = [
      ['that speaks no HTTP', says('SSH-2.0-OpenSSH\r\n'), 'any', /./],
      ['that says nothing', () => {}, 'Unreachable', /nothing for 300 ms/],
      [
        'that stops in its answer',
        (socket) => void socket.write(head('application/json', 'content-length: 99\r\n') + '{"version"'),
        'Unreachable',
        /nothing for 300 ms/,
      ],
      [
        'that answers a page',
        says(`${head('text/html', 'content-length: 6\r\n')}<html>`),
        'ProtocolError',
        /no Squash daemon/,
      ],
      ['that answers a number', json(7), 'ProtocolError', /no Squash daemon/],
      [
        'that answers another page with a failure',
        says('HTTP/1.1 502 Bad\r\ncontent-length: 5\r\n\r\nnginx'),
        'ProtocolError',
        /status 502 is no Squash daemon/,
      ],
      [
        'that sends elsewhere',
        says('HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n'),
        'ProtocolError',
        /status 302/,
      ],
    ];
    for (const [what, answer, expected, message] of lies) {
      it(`${what} is told as that`, async () => {
        const error = await failure(clientOf(way, await liar(answer)).connection.call('daemon.info'));
        if (expected !== 'any') assert.equal(error.name, expected);
        assert.equal(error.request, 'GET /v1/info');
        assert.match(error.message, message);
      });
    }

    it('that floods is left in time', async () => {
      const flood: Answer = (socket) => {
        socket.write(head('application/json'));
        const part = Buffer.alloc(4_194_304, 0x20);
        const more = (): void => {
          while (!socket.destroyed && socket.write(part));
        };
        socket.on('drain', more);
        more();
      };
      const error = await failure(clientOf(way, await liar(flood)).connection.call('daemon.info'));
      assert.equal(error.name, 'ProtocolError');
      assert.match(error.message, /longer than \d+ bytes/);
    });

    it('that breaks off is asked again what only reads, and what carries a key, with the same key', async () => {
      const breaks: Answer = (socket) =>
        void socket.end(head('application/json', 'content-length: 99\r\n') + '{"id"');
      const keys: string[] = [];
      const client = clientOf(
        way,
        await liar(breaks, box, (socket, text) => {
          keys.push(/idempotency-key: (\w+)/i.exec(text)?.[1] ?? '');
          breaks(socket, text);
        }),
      );
      const found = await Sandbox.get('sb1', { client });
      assert.equal(asked.length, 2);
      // The pauses are the same by both.
      if (way === 'fetch') return;
      const error = await failure(found.exec('true'));
      assert.equal(error.name, 'Unreachable');
      assert.equal(keys.length, 4);
      assert.equal(new Set(keys).size, 1);
    });

    it('that breaks off is asked again to remove: what was removed then is not there at the second time', async () => {
      const gone = json({ status: 404, code: 'sandbox_not_found', detail: 'gone' }, '404 Not Found');
      const breaks: Answer = (socket) => void socket.end();
      const client = clientOf(way, await liar(box, breaks, gone));
      const found = await Sandbox.get('sb1', { client });
      asked = [];
      await found.remove();
      assert.deepEqual(asked, Array(2).fill('DELETE /v1/sandboxes/sb1'));
      assert.equal((await failure(found.remove())).code, 'sandbox_not_found');
    });

    it('that is too old names the operation and both versions', async () => {
      const notFound = json(
        { type: 'about:blank', status: 404, code: 'not_found', detail: 'x' },
        '404 Not Found',
      );
      const client = clientOf(way, await liar(notFound, json({ version: '0.0.9' })));
      const error = await failure(Sandbox.get('sb1', { client }));
      assert.deepEqual([error.name, error.code], ['ProtocolError', 'daemon_outdated']);
      assert.match(error.message, new RegExp(`sandbox.get.*0\\.0\\.9.*${version}`));
    });
  });
}

describe('a stream', () => {
  const start = json({ process: 1, tag: null });
  const event = (name: string, seq: number, more: object): string =>
    `event: ${name}\nid: ${seq}\ndata: ${JSON.stringify({ type: name, seq, ...more })}\n\n`;
  const stream = (...events: readonly string[]): Answer => says(head('text/event-stream') + events.join(''));

  const textOf = (...answers: readonly Answer[]): Promise<string> => textIn(300, answers);
  async function textIn(silenceMs: number, answers: readonly Answer[]): Promise<string> {
    const url = await liar(box, start, ...answers);
    const client = new Squash({ url, timeout_ms: silenceMs });
    const process = await (await Sandbox.get('sb1', { client })).start('x');
    let text = '';
    for await (const each of process.output()) if (each.type === 'output') text += each.text;
    return text;
  }

  it('goes on behind the last event when it is cut, also in the middle of one', async () => {
    const cut = `${event('output', 3, { stream: 'stdout', text: 'one' })}event: output\nid: 6\ndata: {"typ`;
    const text = await textOf(stream(cut), (socket, request) => {
      assert.match(request, /last-event-id: 3/i);
      stream(
        event('output', 6, { stream: 'stdout', text: 'two' }),
        event('exit', 6, { process: { process: 1 } }),
      )(socket, request);
    });
    assert.equal(text, 'onetwo');
  });

  it('that falls silent is opened again, and one that goes back or is no stream is refused', async () => {
    const silent: Answer = (socket) =>
      void socket.write(head('text/event-stream') + event('output', 1, { stream: 'stdout', text: 'a' }));
    assert.equal(await textOf(silent, stream(event('exit', 1, { process: { process: 1 } }))), 'a');
    const backwards = stream(
      event('output', 9, { stream: 'stdout', text: 'a' }),
      event('output', 2, { stream: 'stdout', text: 'a' }),
    );
    assert.match((await failure(textOf(backwards))).message, /sends output again/);
    assert.match((await failure(textOf(json({})))).message, /no stream of events/);
    assert.match(
      (await failure(textOf(stream('event: output\nid: 1\ndata: nonsense\n\n')))).message,
      /no JSON/,
    );
    // So much takes a busy machine a while.
    const endless = textIn(30_000, [stream(`data: ${'x'.repeat(9_000_000)}`)]);
    assert.match((await failure(endless)).message, /too long/);
  });
});

describe('a list or a download', () => {
  it('that never ends, or has no items, is left', async () => {
    const circle = json({ items: [record], next: 'again' });
    const squash = new Squash({ url: await liar(circle) });
    assert.match((await failure(Array.fromAsync(squash.sandboxes.list()))).message, /same page again/);
    const none = new Squash({ url: await liar(json({ next: null })) });
    assert.equal((await failure(Array.fromAsync(none.sandboxes.list()))).name, 'ProtocolError');
    const noId = new Squash({ url: await liar(json({ state: 'ready' })) });
    assert.match((await failure(noId.sandboxes.get('x'))).message, /no id/);
  });

  it('that breaks off or leads out of its directory leaves nothing behind', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'squash-sdk-'));
    try {
      const half = says(`${head('application/x-tar', 'content-length: 9999\r\n')}abc`);
      const evil = (name: string, flag = '0'): Answer => {
        const block = Buffer.alloc(512);
        block.write(name, 0);
        block.write('0000644', 100);
        block.write('00000000000', 124);
        block.write('00000000000', 136);
        block.write('        ', 148);
        block.write(flag, 156);
        block.write(
          `${block
            .reduce((sum, byte) => sum + byte, 0)
            .toString(8)
            .padStart(6, '0')}\0 `,
          148,
        );
        const body = Buffer.concat([block, Buffer.alloc(1024)]).toString('latin1');
        return (socket) => void socket.end(Buffer.from(head('application/x-tar') + body, 'latin1'));
      };
      for (const tar of [half, evil('../out'), evil('/etc/out'), evil('a/b'), evil('device', '3')]) {
        const client = new Squash({ url: await liar(box, tar), timeout_ms: 300 });
        const { files, snapshots } = await client.sandboxes.get('sb1');
        await failure(files.downloadDirectory('/x', join(folder, 'to')));
        if (tar === half) await failure(snapshots.download('x', join(folder, 'file')));
        assert.deepEqual(await readdir(folder), []);
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
