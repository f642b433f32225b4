/** One peer that opens connections without end, or sends no request on them, keeps nobody from being served. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { limits } from '@squash/contract/limits';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const path = '/cgi-bin/api/sandboxes';

class Crowd implements Disposable {
  readonly sockets = new Set<Socket>();
  /** What those that were closed had been told. */
  readonly farewells: string[] = [];

  async grow(daemon: TestDaemon, count: number, words = ''): Promise<void> {
    const opened = Array.from({ length: count }, async () => {
      const socket = connect(daemon.port, '127.0.0.1');
      let text = '';
      socket.setEncoding('utf8').on('data', (part: string) => (text += part));
      socket.on('error', () => undefined);
      socket.once('close', () => {
        this.sockets.delete(socket);
        this.farewells.push(text);
      });
      this.sockets.add(socket);
      await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
      socket.write(words);
    });
    await Promise.allSettled(opened);
  }

  [Symbol.dispose](): void {
    for (const socket of this.sockets) socket.destroy();
  }
}

/** On a connection of its own, as a client that has just come. */
function fresh(daemon: TestDaemon, target: { readonly socketPath: string } | { readonly port: number }) {
  return new Promise<number>((resolve, reject) => {
    const headers = { authorization: 'Bearer word' };
    request({ ...target, host: '127.0.0.1', path, headers, agent: false, timeout: 10_000 }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on('error', reject)
      .on('timeout', () => reject(new Error(`no answer: ${daemon.output.slice(-500)}`)))
      .end();
  });
}

const crowdedLines = (daemon: TestDaemon): number => daemon.output.split('"http.crowded"').length - 1;

for (const [what, words] of [
  ['silent connections', ''],
  ['connections that only begin a request', `GET ${path} HTTP/1.1\r\nhost: localhost\r\n`],
  ['connections that only ask for health', 'GET /cgi-bin/health HTTP/1.1\r\nhost: localhost\r\n\r\n'],
] as const) {
  test(`a hoard of ${what} makes room for whoever asks`, async () => {
    await using daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: 'word' } });
    using crowd = new Crowd();
    await crowd.grow(daemon, limits.connectionsMax, words);
    await delay(limits.newcomerGraceMs);
    for (let turn = 0; turn < 20; turn += 1) assert.equal(await fresh(daemon, { port: daemon.port }), 200);
    assert.ok(crowd.sockets.size <= limits.newcomersPerPeerMax);
    assert.equal(crowdedLines(daemon), 1);
  });
}

test('who opens connections without end is refused, told why, and named in the log once; others are served', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: 'word' } });
  using crowd = new Crowd();
  const socketPath = join(daemon.dataDir, 'run/api.sock');
  const flood = crowd.grow(daemon, 3 * limits.connectionsMax);
  for (let turn = 0; turn < 10; turn += 1) assert.equal(await fresh(daemon, { socketPath }), 200);
  await flood;
  const isTold = (text: string): boolean => /^HTTP\/1\.1 503 [\s\S]*"code":"connection_limit"/.test(text);
  await waitFor('somebody to be told why', () => crowd.farewells.some(isTold));
  assert.equal(crowdedLines(daemon), 1);
  // From here on one that waits makes room.
  await delay(limits.newcomerGraceMs);
  // Fewer than were opened: the kernel leaves some waiting that nobody ever accepts.
  const metrics = await daemon.request('GET', '/metrics');
  const [, refused] = /^squash_http_connections_refused_total (\d+)$/m.exec(metrics.text) ?? [];
  assert.ok(Number(refused) > 0, metrics.text);
});

test('a burst of honest connections is served', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: 'word' } });
  const answers = await Promise.all(Array.from({ length: 400 }, () => fresh(daemon, { port: daemon.port })));
  assert.ok(answers.every((status) => status === 200));
  assert.equal(crowdedLines(daemon), 0);
});
