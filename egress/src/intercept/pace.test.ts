/** When the pieces of an answer arrive: soon, and at a time that tells nothing of a value. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { test } from 'node:test';
import { host, Intercepted, key, oneSecret } from '../../../tests/support/intercepted.ts';

async function ask(to: Intercepted, path: string): Promise<IncomingMessage> {
  const { port, ca } = to;
  const options = { host: '127.0.0.1', port, ca, path, servername: host, agent: false, headers: { host } };
  const [answer] = (await once(httpsRequest(options).end(), 'response')) as [IncomingMessage];
  return answer;
}

test('a text without line ends, from a host that may have a value, waits a second at most', async () => {
  const sentMs: number[] = [];
  await using to = await Intercepted.start({
    secrets: oneSecret,
    handler: (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      const timer = setInterval(() => {
        sentMs.push(performance.now());
        response.write('t');
        if (sentMs.length < 40) return;
        clearInterval(timer);
        response.end();
      }, 60);
    },
  });
  const answer = await ask(to, '/');
  let seen = 0;
  let waitedMs = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    const oldest = sentMs[seen] ?? 0;
    waitedMs = Math.max(waitedMs, performance.now() - oldest);
    seen += piece.length;
  }
  assert.equal(seen, 40);
  // A second, and what a busy machine adds. Held until 40 letters were there, the first would have waited for 2.4 s.
  assert.ok(waitedMs < 1_600, `${waitedMs} ms`);
});

test('a server that pauses tells nothing of a value by when its beginning arrives', async () => {
  await using to = await Intercepted.start({
    secrets: oneSecret,
    handler: (incoming, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write(Buffer.from(incoming.url?.slice(1) ?? '', 'hex'));
      incoming.socket.once('close', () => response.end());
    },
  });
  const arrivedMs = async (text: string): Promise<number> => {
    const path = `/${Buffer.from(text).toString('hex')}`;
    const answer = await ask(to, path);
    const sinceMs = performance.now();
    let seen = '';
    for await (const piece of answer as AsyncIterable<Buffer>) {
      seen += piece.toString();
      if (seen.length >= text.length) break;
    }
    assert.equal(seen, text);
    return performance.now() - sinceMs;
  };
  const guesses = [1, 12, key.value.length - 1].flatMap((length) => [
    `text ${key.value.slice(0, length)}`,
    `text ${key.value.slice(0, length - 1)}#`,
  ]);
  const waitedMs = await Promise.all(guesses.map(arrivedMs));
  // Three quarters of a second to a whole one, by when in the quarter it came; the rest is a busy machine's.
  for (const ms of waitedMs) assert.ok(ms > 600 && ms < 1_600, `${waitedMs.join(' ')} ms`);
});
