/** Previews: what goes through unchanged, what is said of the visitor, and the pages where nothing is to be seen. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { text as readText } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { PreviewScene } from '../support/previews.ts';
import { waitFor } from '../support/wait.ts';

describe('a preview of a port', () => {
  let scene: PreviewScene;
  before(async () => {
    scene = await PreviewScene.start(['dev', 'My_App']);
    await scene.serve('dev', 3000);
  });
  after(async () => {
    await scene[Symbol.asyncDispose]();
  });

  it('passes method, path, headers and body, with the page’s Host and who asked', async () => {
    const body = randomBytes(300_000);
    const seen = await scene.ask('3000-dev', {
      method: 'PUT',
      path: '/echo?a=%20b&c',
      headers: {
        'x-mine': ['one', 'two'],
        // Without its length the body would stand behind the head as a request of its own.
        connection: 'x-hop, content-length, host',
        'x-hop': '1',
        te: 'trailers',
        cookie: 'app=1',
      },
      body,
    });
    assert.equal(seen.status, 200);
    assert.equal(seen.json.url, '/echo?a=%20b&c');
    assert.equal(seen.json.method, 'PUT');
    assert.equal(seen.json.sha256, createHash('sha256').update(body).digest('hex'));
    const headers = headersOf(seen.json.rawHeaders);
    assert.deepEqual(headers['host'], [scene.host('3000-dev')]);
    assert.deepEqual(headers['x-mine'], ['one', 'two']);
    assert.deepEqual(headers['cookie'], ['app=1']);
    assert.deepEqual(headers['x-forwarded-for'], ['127.0.0.1']);
    assert.deepEqual(headers['x-forwarded-host'], [scene.host('3000-dev')]);
    assert.deepEqual(headers['x-forwarded-proto'], ['http']);
    for (const gone of ['x-hop', 'te', 'keep-alive']) assert.equal(headers[gone], undefined, gone);
    const chunked = await scene.raw(
      `POST /echo HTTP/1.1\r\nhost: ${scene.host('3000-dev')}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
    );
    assert.match(chunked, /"bytes":3/);
  });

  it('serves several requests on one connection, answers without a body, and HEAD', async () => {
    const host = `host: ${scene.host('3000-dev')}\r\n`;
    const answer = await scene.raw(
      `HEAD /echo HTTP/1.1\r\n${host}\r\nGET /nothing HTTP/1.1\r\n${host}\r\nGET /none HTTP/1.1\r\n${host}connection: close\r\n\r\n`,
    );
    assert.deepEqual(
      [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status),
      ['200', '204', '404'],
    );
  });

  it('passes an answer that comes before the body is over', async () => {
    const socket = await scene.dial();
    socket.write(
      `POST /early HTTP/1.1\r\nhost: ${scene.host('3000-dev')}\r\ncontent-length: 1000000\r\n\r\n`,
    );
    socket.write(Buffer.alloc(1_000));
    const [first] = (await once(socket, 'data')) as [Buffer];
    assert.match(first.toString(), /^HTTP\/1\.1 413 /);
    socket.destroy();
  });

  it('carries large bodies both ways', async () => {
    const bytes = 64 * 1_048_576;
    const down = await scene.open('3000-dev', { path: `/large?bytes=${bytes}` });
    let got = 0;
    for await (const chunk of down) got += (chunk as Buffer).length;
    assert.equal(got, bytes);
    const up = await scene.ask('3000-dev', { path: '/count', body: Buffer.alloc(bytes) });
    assert.equal(up.text, String(bytes));
  });

  it('passes events as they come, and tells the program when the visitor leaves', async () => {
    const events = await scene.open('3000-dev', { path: '/events' });
    let text = '';
    events.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    await waitFor('three events', () => text.includes('data: 3'));
    events.destroy();
    await waitFor('the program to be left', async () => {
      const open = await scene.exec('dev', "grep -c ':0BB8 .* 01 ' /proc/net/tcp || true");
      return open === '0';
    });
  });

  const skip = isOnVms ? 'a microVM has a monitor that passes no end of one direction alone' : false;
  it('switches protocols and keeps half-closes, early ones too', { skip }, async () => {
    const head = `GET /up HTTP/1.1\r\nhost: ${scene.host('3000-dev')}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n`;
    const more = 'sec-websocket-key: x\r\nsquash-preview-token: y\r\n\r\nfirst ';
    for (const [first, last] of [
      [`${head}${more}`, 'second'],
      ['', `${head}${more}second`],
      [`${head}${more}`, `${'z'.repeat(300_000)}second`],
    ] as const) {
      const socket = await scene.dial();
      socket.setEncoding('utf8').write(first);
      socket.end(last);
      const answer = await readText(socket);
      assert.match(answer, /^HTTP\/1\.1 101 Switching Protocols\r\n[\s\S]*upgrade: websocket/i);
      assert.match(answer, /"sec-websocket-key","x"/);
      assert.doesNotMatch(answer, /squash-preview-token/);
      assert.match(answer, /first z*second$/);
    }
  });

  it('passes a refusal to switch', async () => {
    const answer = await scene.raw(
      `GET /refuse HTTP/1.1\r\nhost: ${scene.host('3000-dev')}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`,
    );
    assert.match(answer, /^HTTP\/1\.1 403 [\s\S]*set-cookie: a=1\r\n[\s\S]*no$/i);
  });

  it('says in the visitor’s language that nothing listens, and that there is no such sandbox', async () => {
    const closed = await scene.ask('3999-dev');
    assert.equal(closed.status, 502);
    assert.equal(closed.headers['content-type'], 'application/problem+json');
    assert.equal(closed.json.code, 'port_unreachable');
    assert.match(closed.json.detail, /Nothing listens on port 3999 of sandbox "dev"/);
    const page = await scene.ask('3999-dev', { headers: { accept: 'text/html,*/*;q=0.8' } });
    assert.equal(page.status, 502);
    assert.match(page.headers['content-type'] ?? '', /^text\/html/);
    assert.match(page.text, /Nothing listens on port 3999 of sandbox &quot;dev&quot;/);
    assert.match(String(page.headers['content-security-policy']), /default-src 'none'/);
    assert.equal((await scene.ask('3000-nobody')).json.code, 'sandbox_not_found');
    for (const name of ['0-dev', '65536-dev', '03000-dev', '3000-', '3000-dev_x', '99999999999-dev']) {
      const seen = await scene.ask(name, { path: '/cgi-bin/health' });
      assert.equal(seen.json?.code, 'sandbox_not_found', name);
    }
  });

  it('says of a sandbox that was paused that it is, and shows it again when it goes on', async () => {
    await scene.daemon.call('POST', '/v1/sandboxes/dev/pause');
    const paused = await scene.ask('3000-dev', { headers: { accept: 'text/html' } });
    assert.equal(paused.status, 409);
    assert.match(paused.text, /sandbox_paused/);
    await scene.daemon.call('POST', '/v1/sandboxes/dev/resume');
    assert.equal((await scene.ask('3000-dev', { path: '/echo' })).status, 200);
  });

  it('reaches a server on ::1 alone, and a sandbox whose id is no DNS label', async () => {
    await scene.run('My_App', 'python3 -m http.server 8000 --bind ::1 --directory /opt', 8000);
    const label = scene.labelOf('My_App');
    assert.match(label, /^my-app-[0-9a-f]{12}$/);
    assert.match((await scene.ask(`8000-${label}`)).text, /server\.mjs/);
  });
});

function headersOf(raw: readonly string[]): Record<string, string[]> {
  const headers: Record<string, string[]> = {};
  for (let i = 0; i + 1 < raw.length; i += 2)
    (headers[(raw[i] ?? '').toLowerCase()] ??= []).push(raw[i + 1] ?? '');
  return headers;
}
