/**
 * A hostile page in a preview, and a hostile program behind it: nothing of the API or of another preview is reached, and nothing
 * of the daemon is used up.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { limits } from '@squash/contract/limits';
import { PreviewScene } from '../support/previews.ts';
import { waitFor } from '../support/wait.ts';

describe('a preview', () => {
  let scene: PreviewScene;
  /** It is let go on for ten seconds, in which the other tests run. */
  let endless: Promise<string>;
  before(async () => {
    scene = await PreviewScene.start(['dev', 'calm'], { env: { SQUASH_ALLOWED_HOSTS: '*.localhost' } });
    await scene.serve('dev', 3000);
    await scene.serve('calm', 3000);
    await scene.run('dev', 'node /opt/hostile.mjs', 9014);
    endless = headWithoutEnd();
  });
  after(async () => {
    await scene[Symbol.asyncDispose]();
  });

  const host = (): string => `host: ${scene.host('3000-dev')}\r\n`;
  const headWithoutEnd = async (): Promise<string> => {
    const socket = await scene.dial();
    socket.write(`GET / HTTP/1.1\r\n${host()}`);
    const drip = setInterval(() => socket.write('x: y\r\n'), 500);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    clearInterval(drip);
    socket.destroy();
    return answer.toString();
  };
  const memoryKb = (): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${scene.daemon.pid}/status`, 'utf8'))?.[1]);

  it('never serves the API, whatever host name or target a request comes with', async () => {
    const api = `localhost:${scene.daemon.port}`;
    for (const path of ['/v1/info', '/cgi-bin/health', '/cgi-bin/api/sandboxes', '/openapi.json']) {
      for (const name of ['3000-dev', '3000-none', '0-dev', '3000-dev_', '77777-dev']) {
        const { status, text } = await scene.ask(name, { path });
        assert.ok([404].includes(status), `${name}${path}: ${status}`);
        assert.doesNotMatch(text, /"version"|"sandboxes"|openapi/);
      }
    }
    for (const [head, expected] of [
      [`GET http://${api}/v1/info HTTP/1.1\r\n${host()}`, 400],
      [`GET http://${scene.host('3000-dev')}/v1/info HTTP/1.1\r\nhost: ${api}\r\n`, 400],
      [`GET /v1/info HTTP/1.1\r\n${host()}host: ${api}\r\n`, 400],
      [`GET /v1/info HTTP/1.1\r\nhost: ${api}\r\n${host()}`, 400],
      [`GET /v1/info HTTP/1.1\r\nhost: ${scene.host('3000-dev')}, ${api}\r\n`, 403],
      [`GET /v1/info HTTP/1.1\r\nhost: ${api}/3000-dev.localhost\r\n`, 403],
      [`GET /v1/info HTTP/1.1\r\nhost: user@3000-dev.localhost\r\n`, 403],
      [`CONNECT ${api} HTTP/1.1\r\n${host()}`, 400],
      [`OPTIONS * HTTP/1.1\r\n${host()}`, 400],
    ] as const) {
      const answer = await scene.raw(`${head}connection: close\r\n\r\n`, 1_000);
      assert.equal(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1], expected?.toString(), head);
      assert.doesNotMatch(answer, /"version"/);
    }
  });

  it('has pages that are foreign to the API and to other previews', async () => {
    const api = { host: `localhost:${scene.daemon.port}` };
    const page = `http://${scene.host('3000-dev')}`;
    for (const headers of [
      { origin: page },
      { origin: page, 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
      { origin: 'null' },
    ]) {
      for (const [method, path] of [
        ['GET', '/cgi-bin/api/sandboxes'],
        ['POST', '/cgi-bin/api/sandboxes/calm/exec'],
        ['OPTIONS', '/v1/sandboxes/calm/ports/3000'],
      ] as const) {
        const seen = await scene.ask('x', { method, path, headers: { ...headers, ...api } });
        assert.equal(seen.status, 403, JSON.stringify(headers));
        assert.equal(seen.headers['access-control-allow-origin'], undefined);
      }
    }
    for (const headers of [
      { origin: page },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
    ]) {
      assert.equal((await scene.ask('3000-calm', { path: '/echo', headers })).status, 403);
      const socket = await scene.raw(
        `GET /v1/sandboxes/calm/exec HTTP/1.1\r\nhost: ${api.host}\r\norigin: ${page}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`,
      );
      assert.match(socket, /^HTTP\/1\.1 403 /);
    }
  });

  it('sets cookies for its own host alone, and nothing that reaches beyond it', async () => {
    const { headers } = await scene.ask('3000-dev', { path: '/cookies' });
    assert.deepEqual(headers['set-cookie'], ['a=1; Path=/', 'b=2; HttpOnly; Secure', 'c=3']);
    for (const gone of ['clear-site-data', 'alt-svc', 'x-secret'])
      assert.equal(headers[gone], undefined, gone);
    assert.equal(headers['x-own'], 'kept');
  });

  it('takes no request inside another', async () => {
    const inner = `GET /v1/info HTTP/1.1\r\nhost: localhost\r\n\r\n`;
    for (const head of [
      'content-length: 4\r\ntransfer-encoding: chunked\r\n',
      'transfer-encoding: chunked\r\ncontent-length: 4\r\n',
      'content-length: 4\r\ncontent-length: 5\r\n',
      'transfer-encoding: chunked, identity\r\n',
      'transfer-encoding: xchunked\r\n',
      'transfer-encoding : chunked\r\n',
      'transfer-encoding:\x0bchunked\r\n',
      'content-length: +4\r\n',
      'content-length: 4 \x00\r\n',
      'x: 1\n\ttransfer-encoding: chunked\r\n',
      ' transfer-encoding: chunked\r\n',
    ]) {
      const answer = await scene.raw(`POST /echo HTTP/1.1\r\n${host()}${head}\r\n0\r\n\r\n${inner}`, 1_000);
      assert.match(answer, /^HTTP\/1\.1 400 /, JSON.stringify(head));
      assert.doesNotMatch(answer, /"version"/);
    }
    // What is one body on our side is one body on the other, in its own framing.
    const long = `${inner}${'x'.repeat(100)}`;
    const whole = await scene.raw(
      `POST /echo HTTP/1.1\r\n${host()}connection: close, content-length, transfer-encoding\r\ncontent-length: ${long.length}\r\n\r\n${long}`,
    );
    assert.match(whole, new RegExp(`"bytes":${long.length}\\b`));
    const plain = await scene.raw(`POST /echo HTTP/1.1\r\n${host()}connection: close\r\n\r\n`);
    assert.match(plain, /"bytes":0/);
  });

  it('switches protocols only as asked, and never back', async () => {
    const inner = `GET /v1/info HTTP/1.1\r\nhost: localhost\r\n\r\n`;
    const upgrade = (path: string, protocol: string, more = ''): string =>
      `GET ${path} HTTP/1.1\r\n${host()}connection: upgrade, http2-settings\r\nupgrade: ${protocol}\r\n${more}\r\n`;
    // HTTP/2 inside would be judged by nobody.
    for (const protocol of ['h2c', 'H2C', 'h2c, websocket', 'websocket, h2c', '\t', 'a b']) {
      const answer = await scene.raw(upgrade('/echo', protocol, 'http2-settings: AAMAAABk\r\n'), 500);
      assert.match(answer, /^HTTP\/1\.1 200 [\s\S]*"rawHeaders"/, protocol);
      assert.doesNotMatch(answer, /h2c|http2-settings/i);
    }
    const refused = await scene.raw(upgrade('/refuse', 'websocket') + inner);
    assert.match(refused, /^HTTP\/1\.1 403 /);
    assert.doesNotMatch(refused, /"version"/);
    // With a body it is no upgrade, so that its bytes are nobody's next request.
    const body = await scene.raw(
      upgrade('/echo', 'websocket', `content-length: ${inner.length}\r\n`) + inner,
      500,
    );
    assert.match(body, new RegExp(`^HTTP/1\\.1 200 [\\s\\S]*"bytes":${inner.length}\\b`));
    const unasked = await scene.ask('9008-dev');
    assert.equal(unasked.json.code, 'port_unreachable');
  });

  it('turns what is no answer into its own words, and waits for nobody without end', async () => {
    for (const [port, pattern] of [
      [9001, /no HTTP/],
      [9002, /larger than 65536 bytes/],
      [9003, /larger than 65536 bytes/],
      [9004, /no HTTP/],
      [9005, /no HTTP/],
      [9009, /closed the connection/],
      [9010, /no HTTP/],
    ] as const) {
      const seen = await scene.ask(`${port}-dev`);
      assert.equal(seen.status, 502, `${port}`);
      assert.match(seen.json.detail, pattern, `${port}`);
      assert.equal(seen.headers['set-cookie'], undefined);
    }
    const two = await scene.raw(
      `GET / HTTP/1.1\r\nhost: ${scene.host('9006-dev')}\r\nconnection: close\r\n\r\n`,
    );
    assert.match(two, /ok$/);
    assert.doesNotMatch(two, /evil/);
    await assert.rejects(scene.ask('9007-dev'), { code: 'ECONNRESET' });
    for (const port of [9012, 9013]) {
      const socket = await scene.dial();
      socket.write(`GET / HTTP/1.1\r\nhost: ${scene.host(`${port}-dev`)}\r\n\r\n`);
      assert.equal((await scene.ask('3000-dev', { path: '/echo' })).status, 200);
      const open = () =>
        scene.exec('dev', `grep -c ':${port.toString(16).toUpperCase()} .* 01 ' /proc/net/tcp || true`);
      await waitFor('it to be asked', async () => Number(await open()) > 0);
      socket.destroy();
      await waitFor('it to be left', async () => (await open()) === '0');
    }
  });

  it('holds little of what nobody reads', async () => {
    const before = memoryKb();
    const sockets: Socket[] = [];
    for (let i = 0; i < 80; i += 1) {
      const socket = await scene.dial();
      socket.pause();
      socket.write(`GET / HTTP/1.1\r\nhost: ${scene.host('9011-dev')}\r\n\r\n`);
      sockets.push(socket);
    }
    const up = await scene.dial();
    up.write(`POST / HTTP/1.1\r\nhost: ${scene.host('9014-dev')}\r\ncontent-length: 100000000\r\n\r\n`);
    for (let i = 0; i < 200; i += 1) up.write(Buffer.alloc(65_536));
    assert.equal((await scene.ask('3000-calm', { path: '/echo' })).status, 200);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const grown = memoryKb() - before;
    for (const socket of [...sockets, up]) socket.destroy();
    // Some tens of MB are what has gone through and is not collected yet.
    assert.ok(grown < 120_000, `${grown} KB for 81 visitors who do not read`);
  });

  it('leaves room for the API and for the visitors of others', async () => {
    const sockets: Socket[] = [];
    try {
      for (let i = 0; i < limits.previewConnectionsPerSandboxMax; i += 1) {
        const socket = await scene.dial();
        socket.write(`GET /nothing HTTP/1.1\r\n${host()}\r\n`);
        await once(socket, 'data');
        sockets.push(socket);
      }
      const full = await scene.ask('3000-dev', { path: '/echo' });
      assert.equal(full.status, 503);
      assert.equal(full.json.code, 'connection_limit');
      assert.equal((await scene.ask('3000-calm', { path: '/echo' })).status, 200);
      assert.equal((await scene.daemon.request('GET', '/v1/info')).status, 200);
      // One that changes over makes room.
      const [first] = sockets;
      assert.ok(first);
      first.write(`GET /nothing HTTP/1.1\r\nhost: ${scene.host('3000-calm')}\r\n\r\n`);
      await once(first, 'data');
      assert.equal((await scene.ask('3000-dev', { path: '/echo' })).status, 200);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });

  it('drops who sends the head of a request without end', async () => {
    assert.match(await endless, /^HTTP\/1\.1 408 /);
    const large = await scene.raw(
      `GET / HTTP/1.1\r\n${host()}x: ${'y'.repeat(limits.headerBytesMax)}\r\n\r\n`,
    );
    assert.match(large, /^HTTP\/1\.1 431 /);
  });
});
