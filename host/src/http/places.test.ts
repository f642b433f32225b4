/** Who has how many of what there are few of: half of them at most for one owner, whatever his keys and clients do. */
import assert from 'node:assert/strict';
import { open, readdir, writeFile } from 'node:fs/promises';
import { request, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { test } from 'node:test';
import { limits } from '@squash/contract/limits';
import { Secret } from '@squash/base/secret';
import { thinEngine } from '../../../tests/support/thin-engine.ts';
import { ThinServer } from '../../../tests/support/thin-server.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const operator = { authorization: 'Bearer the-operator' };
const one = { authorization: 'Bearer sqk_one' };
const two = { authorization: 'Bearer sqk_two' };

/** Until nobody listens. */
async function* silence(signal: AbortSignal): AsyncGenerator<never, void, void> {
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  yield* [];
}

async function start(): Promise<ThinServer> {
  const place = { file: '' };
  const server = await ThinServer.start(
    thinEngine({
      keys: {
        count: 2,
        holds: () => true,
        find: (token) => ({ id: token, name: '', owner: token.slice(4), scope: 'manage', expiresMs: null }),
      },
      sandboxes: { ownerOf: () => 'one' },
      processes: { jobLog: (...[, , , signal]) => silence(signal) },
      files: {
        watch: (_place, _recursive, signal) =>
          Promise.resolve({ events: () => silence(signal), [Symbol.dispose]: () => undefined }),
      },
      snapshots: { open: () => open(place.file), diff: () => new Promise(() => undefined) },
    }),
    { authToken: new Secret('the-operator') },
  );
  place.file = join(server.directory, 'large');
  // More than the sockets on the way hold.
  await writeFile(place.file, Buffer.alloc(64 * 1_048_576));
  return server;
}

const refusal = (what: string, max: number): RegExp =>
  new RegExp(`Of owner \\\\?"one\\\\?" ${max / 2} ${what}, and no owner has more than half of ${max}:`);

for (const { what, path, max } of [
  { what: 'streams are open', path: '/cgi-bin/api/sandboxes/box/jobs/1/logs', max: limits.streamsMax },
  { what: 'watches are open', path: '/v1/sandboxes/box/files/watch?path=/', max: limits.watchesMax },
  { what: 'downloads are in progress', path: '/v1/sandboxes/box/snapshots/a/file', max: limits.downloadsMax },
]) {
  test(`one owner’s clients leave half of the places to others when ${what}`, async () => {
    await using server = await start();
    const opened: IncomingMessage[] = [];
    const begin = async (headers: OutgoingHttpHeaders): Promise<void> => {
      const answer = await server.open({ path, headers });
      assert.equal(answer.statusCode, 200);
      opened.push(answer);
    };
    for (let count = 0; count < max / 2; count += 1) await begin(one);
    const refused = await server.open({ path, headers: one });
    assert.equal(refused.statusCode, 429);
    assert.match(await readText(refused), refusal(what, max));
    // The sandbox is the first one's: the operator is not counted as its owner.
    await begin(operator);
    opened[0]?.destroy();
    await waitFor('the place to be free', async () => {
      const answer = await server.open({ path, headers: one });
      opened.push(answer);
      return answer.statusCode === 200;
    });
    for (const answer of opened) answer.destroy();
  });
}

test('one owner’s tickets leave half of the places to others, and are free when they are used', async () => {
  await using server = await start();
  const path = '/cgi-bin/api/sandboxes/box/jobs/1/logs';
  const ask = (headers: OutgoingHttpHeaders) =>
    server.send({ method: 'POST', path: '/v1/tickets', headers }, JSON.stringify({ path }));
  const first = (await ask(one)).json as { readonly ticket: string };
  for (let count = 1; count < limits.ticketsMax / 2; count += 1) assert.equal((await ask(one)).status, 201);
  assert.match((await ask(one)).text, refusal('tickets wait for their use', limits.ticketsMax));
  for (const headers of [two, operator]) assert.equal((await ask(headers)).status, 201);
  (await server.open({ path: `${path}?ticket=${first.ticket}` })).destroy();
  assert.equal((await ask(one)).status, 201);
});

test('one owner’s uploads leave half of the places to others', async () => {
  await using server = await start();
  const put = (headers: OutgoingHttpHeaders) => ({
    method: 'PUT',
    path: '/v1/sandboxes/box/snapshots/a/file',
    headers: { ...headers, 'content-length': 100 },
  });
  const begun = async (headers: OutgoingHttpHeaders, count: number) => {
    const sent = request({ host: '127.0.0.1', port: server.port, agent: false, ...put(headers) });
    sent.on('error', () => undefined).write('hsqs');
    await waitFor('it', async () => (await readdir(join(server.directory, 'tmp'))).length === count);
    return sent;
  };
  const uploads = [];
  for (let count = 1; count <= limits.uploadsMax / 2; count += 1) uploads.push(await begun(one, count));
  const refused = await server.send(put(one), Buffer.alloc(100));
  assert.match(refused.text, refusal('uploads are in progress', limits.uploadsMax));
  uploads.push(await begun(operator, limits.uploadsMax / 2 + 1));
  for (const upload of uploads) upload.destroy();
});

test('one owner’s comparisons leave half of the places to others', async () => {
  await using server = await start();
  const path = '/v1/sandboxes/box/snapshots/a/diff?against=current';
  const codes: (number | undefined)[] = [];
  const begun = Array.from({ length: limits.treeReadsMax }, () =>
    request({ host: '127.0.0.1', port: server.port, agent: false, path, headers: one })
      .on('error', () => undefined)
      .on('response', ({ statusCode }) => codes.push(statusCode))
      .end(),
  );
  // Two wait for their comparison.
  await waitFor('the others to be refused', () => codes.length === limits.treeReadsMax / 2);
  assert.deepEqual(codes, [429, 429]);
  for (const sent of begun) sent.destroy();
});
