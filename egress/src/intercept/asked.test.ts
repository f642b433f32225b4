/** Requests that wait for a person, beside others on their connection. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { test } from 'node:test';
import { Intercepted, host } from '../../../tests/support/intercepted.ts';
import { waitFor } from '../../../tests/support/wait.ts';

test('a stream that gives up while a person is asked takes no other of its connection along', async () => {
  const waiting = new Set<AbortSignal>();
  await using intercepted = await Intercepted.start({
    policy: { ask: [{ to: host, methods: ['POST'] }] },
    ask: (_asked, signal) =>
      new Promise((resolve) => {
        waiting.add(signal);
        signal.addEventListener('abort', () => resolve(undefined), { once: true });
      }),
  });
  const socket = await intercepted.connect(['h2']);
  const session = connectHttp2(`https://${host}`, { createConnection: () => socket });
  try {
    const asked = session.request({ ':method': 'POST', ':path': '/a' });
    asked.on('error', () => undefined);
    await waitFor('the question', () => waiting.size === 1);
    asked.close(constants.NGHTTP2_CANCEL);
    await waitFor('its end', () => [...waiting].every((signal) => signal.aborted));
    await waitFor('its row', () => intercepted.decisions.length === 1);
    const other = session.request({ ':method': 'GET', ':path': '/b' });
    const [headers] = (await once(other, 'response')) as [Record<string, unknown>];
    assert.equal(headers[':status'], 200);
    other.close();
  } finally {
    session.destroy();
  }
});

test('a request that is denied is answered, and the next one on its connection is judged by itself', async () => {
  const asked: string[] = [];
  await using intercepted = await Intercepted.start({
    policy: { ask: [{ to: host, paths: ['/asked'] }] },
    ask: ({ path }) => {
      asked.push(path);
      const isAllowed = asked.length === 2;
      return Promise.resolve(isAllowed ? undefined : { isAllowed: false, rule: 'ask_denied' });
    },
  });
  const socket = await intercepted.connect();
  let text = '';
  socket.on('data', (part: Buffer) => {
    text += part.toString();
  });
  const ask = async (path: string, count: number): Promise<void> => {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await waitFor(`answer ${count}`, () => text.split('HTTP/1.1 ').length > count);
  };
  for (const [at, path] of ['/asked/1?q=hidden', '/asked/2', '/asked/3', '/free'].entries())
    await ask(path, at + 1);
  socket.destroy();
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.deepEqual(statuses, ['403', '200', '403', '200']);
  assert.deepEqual(asked, ['/asked/1', '/asked/2', '/asked/3']);
  assert.match(text, /Rule: ask_denied/);
});
