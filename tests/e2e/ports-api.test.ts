/** `port.*` over the API and `squash ports`, `url`, `port-forward`: what listens, links, waiting, and bytes as they are. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { limits } from '@squash/contract/limits';
import { portLinkSchema, portListSchema } from '@squash/contract/ports';
import WebSocket from 'ws';
import { ApiClient } from '../support/api-client.ts';
import { endOf, squash, squashOk, startCli } from '../support/cli.ts';
import { isOnVms } from '../support/backend.ts';
import { PreviewScene } from '../support/previews.ts';
import { waitFor } from '../support/wait.ts';

describe('ports', () => {
  let scene: PreviewScene;
  let api: ApiClient;
  before(async () => {
    scene = await PreviewScene.start(['dev']);
    api = new ApiClient(scene.daemon);
    await scene.serve('dev', 3000);
  });
  after(async () => {
    await scene[Symbol.asyncDispose]();
  });

  const ports = '/v1/sandboxes/dev/ports';

  it('lists what listens, with names that a sandbox chose escaped', async () => {
    const rename = 'open("/proc/self/comm", "w").write("\\033]0;owned\\007")';
    const listen = 'import socket, time; listener = socket.create_server(("", 4000)); time.sleep(999)';
    await scene.run('dev', `python3 -c '${rename}; ${listen}'`, 4000);
    const server = 'python3 -m http.server 8001 --bind ::1';
    await scene.run('dev', `setpriv --reuid=1000 --clear-groups ${server}`, 8001);
    const { items, next } = portListSchema.parse((await api.get(ports)).json);
    assert.equal(next, null);
    assert.deepEqual(
      items.map(({ port, addresses, process, access }) => [port, addresses, process?.name, access]),
      [
        [3000, ['0.0.0.0'], 'node', 'token'],
        [4000, ['0.0.0.0'], '\u001b]0;owned\u0007', 'token'],
        [8001, ['::1'], undefined, 'token'],
      ],
    );
    assert.equal(items[0]?.url, `http://${scene.host('3000-dev')}/`);
    const shown = await squashOk(scene.daemon, ['ports', 'dev']);
    assert.match(shown, /^ *3000 {2}0\.0\.0\.0 +node \(\d+\) +token +http:\/\/3000-dev\.localhost:/m);
    assert.match(shown, /\\u\{1b\}\]0;owned\\u\{7\}/);
  });

  it('sets who may see a port, and makes links that end', async () => {
    assert.deepEqual((await api.send('PUT', `${ports}/3000`, { body: { access: 'public' } })).json, {
      port: 3000,
      access: 'public',
      url: `http://${scene.host('3000-dev')}/`,
    });
    assert.equal(
      await squashOk(scene.daemon, ['url', 'dev', '3000', '--private', '--json']).then(
        (text) => portLinkSchema.safeParse(JSON.parse(text)).success,
      ),
      true,
    );
    const link = portLinkSchema.parse((await api.post(`${ports}/3000/url`, { expires_s: 60 })).json);
    assert.equal(link.url, `http://${scene.host('3000-dev')}/?squash_token=${link.token}`);
    const ms = Date.parse(link.expires_at) - Date.now();
    assert.ok(ms > 50_000 && ms < 61_000, link.expires_at);
    assert.equal(
      await squashOk(scene.daemon, ['url', 'dev', '3000', '--public']),
      `http://${scene.host('3000-dev')}/`,
    );
    for (const body of [{ expires_s: 0 }, { expires_s: limits.previewLinkSMax + 1 }, { expires_s: 1.5 }])
      assert.equal((await api.post(`${ports}/3000/url`, body)).status, 400);
    for (const path of [`${ports}/0/url`, `${ports}/65536/url`, `${ports}/x/url`])
      assert.equal((await api.post(path, {})).status, 400, path);
    assert.equal((await api.send('PUT', `${ports}/3000`, { body: { access: 'all' } })).status, 400);
    assert.equal((await api.get('/v1/sandboxes/none/ports')).status, 404);
  });

  it('waits for a port, within a bounded time', async () => {
    const late = await api.get(`${ports}/5000/wait?timeout_ms=200`);
    assert.equal(late.json.code, 'port_unreachable');
    const waiting = api.get(`${ports}/5000/wait`);
    await scene.serve('dev', 5000);
    assert.equal((await waiting).json.port, 5000);
    assert.match(await squashOk(scene.daemon, ['url', 'dev', '5000', '--wait', '5']), /squash_token=/);
    assert.equal((await api.get(`${ports}/5000/wait?timeout_ms=${limits.portWaitMsMax + 1}`)).status, 400);
  });

  it('is opened in a browser where there is one, and printed', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'squash-open-'));
    try {
      const seen = join(directory, 'seen');
      writeFileSync(
        join(directory, 'xdg-open'),
        `#!/bin/sh\necho "$1" > ${seen}.new; mv ${seen}.new ${seen}\n`,
        {
          mode: 0o755,
        },
      );
      const env = { DISPLAY: ':9', PATH: `${directory}:${process.env['PATH']}` };
      const url = await squashOk(scene.daemon, ['open', 'dev', '3000'], { env });
      assert.match(url, /^http:\/\/3000-dev\.localhost:\d+\/\?squash_token=\S+$/);
      await waitFor('the browser', () => existsSync(seen));
      assert.equal(readFileSync(seen, 'utf8'), `${url}\n`);
      const printed = await squashOk(scene.daemon, ['open', 'dev', '3000', '--json'], {
        env: { DISPLAY: '' },
      });
      assert.equal((JSON.parse(printed) as { readonly opened: boolean }).opened, false);
      rmSync(seen);
      const liar = createServer((_, response) =>
        response.end(JSON.stringify({ port: 3000, url: 'file:///bin/sh' })),
      );
      await once(liar.listen(0, '127.0.0.1'), 'listening');
      const place = `http://127.0.0.1:${(liar.address() as AddressInfo).port}`;
      const lie = await squash(undefined, ['--url', place, 'open', 'dev', '3000'], { env });
      assert.match(lie.stderr, /which is no page/);
      liar.close();
      assert.ok(!existsSync(seen));
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  const skip = isOnVms ? 'a microVM has a monitor that passes no end of one direction alone' : false;
  it('carries bytes over a WebSocket, each side to its own end', { skip }, async () => {
    await scene.run(
      'dev',
      'node -e \'require("net").createServer({allowHalfOpen:true},s=>{s.on("data",()=>{});s.on("end",()=>s.end("bye"))}).listen(6000)\'',
      6000,
    );
    const socket = new WebSocket(
      `${scene.daemon.url.replace('http', 'ws')}${ports}/6000/tcp`,
      'squash.tcp.v1',
    );
    const messages: (string | Buffer)[] = [];
    socket.on('message', (data: Buffer, isBinary) => void messages.push(isBinary ? data : data.toString()));
    await once(socket, 'open');
    socket.send(Buffer.from('hello'));
    socket.send('{"type":"eof"}');
    await once(socket, 'close');
    assert.deepEqual(messages, [Buffer.from('bye'), '{"type":"eof"}']);
  });

  it('says over a WebSocket why a port is not reached, and what it does not take', async () => {
    for (const [port, first, code] of [
      [6001, undefined, 'port_unreachable'],
      [3000, '{"type":"end"}', 'invalid_request'],
      [3000, 'no json', 'invalid_request'],
    ] as const) {
      const socket = new WebSocket(
        `${scene.daemon.url.replace('http', 'ws')}${ports}/${port}/tcp`,
        'squash.tcp.v1',
      );
      if (first !== undefined) socket.once('open', () => socket.send(first));
      const [data] = (await once(socket, 'message')) as [Buffer];
      assert.equal((JSON.parse(data.toString()) as { code: string }).code, code);
      await once(socket, 'close');
    }
  });

  it('forwards ports of this machine, and goes with a signal', async () => {
    const child = startCli(scene.daemon, ['port-forward', 'dev', '0:3000', '0:6002']);
    const ended = endOf(child);
    let said = '';
    child.stdout?.on('data', (part: Buffer) => {
      said += part.toString();
    });
    while (!/6002\n/.test(said)) await once(child.stdout ?? child, 'data');
    const [, open = '', closed = ''] =
      /^127\.0\.0\.1:(\d+) -> dev:3000\n127\.0\.0\.1:(\d+) -> dev:6002\n$/.exec(said) ?? [];
    const socket = connect({ host: '127.0.0.1', port: Number(open), allowHalfOpen: true });
    socket.write('GET /large?bytes=20000000 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    const answer = await readText(socket);
    assert.match(answer, /^HTTP\/1\.1 200 OK/);
    assert.ok(answer.length > 20_000_000);
    const refused = connect({ host: '127.0.0.1', port: Number(closed) });
    await once(refused, 'error');
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    assert.equal(code, 0);
    assert.match(stderr, /port 6002: Nothing listens on port 6002/);
    const taken = await squash(scene.daemon, ['port-forward', 'dev', `${scene.daemon.port}:3000`]);
    assert.match(taken.stderr, /EADDRINUSE.*\(port_taken\)/);
    assert.equal((await squash(scene.daemon, ['port-forward', 'none', '3000'])).code, 1);
  });
});
