/** Previews over TLS: the operator's certificate, exchanged while the daemon runs, and nothing but ports behind it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chown, copyFile, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import { portLinkSchema } from '@squash/contract/ports';
import { squash } from '../support/cli.ts';
import { freePort } from '../support/free-port.ts';
import { PreviewScene } from '../support/previews.ts';
import { waitFor } from '../support/wait.ts';

const run = promisify(execFile);

interface Pair {
  readonly cert: string;
  readonly key: string;
}

describe('previews over TLS', () => {
  let directory: string;
  let scene: PreviewScene;
  let port = 0;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'squash-ports-'));
    const first = await makePair('first');
    port = await freePort();
    scene = await PreviewScene.start(['dev'], {
      env: { SQUASH_PREVIEW_DOMAIN: 'preview.test', SQUASH_PREVIEW_TLS_PORT: String(port) },
      files: {
        'preview-cert.pem': await readFile(first.cert, 'utf8'),
        'preview-cert.key': await readFile(first.key, 'utf8'),
      },
    });
    await scene.serve('dev', 3000);
  });
  after(async () => {
    await scene[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  async function makePair(name: string): Promise<Pair> {
    const pair = { cert: join(directory, `${name}.pem`), key: join(directory, `${name}.key`) };
    const words = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
    ];
    const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:*.preview.test'];
    await run('openssl', [...words, ...names, '-keyout', pair.key, '-out', pair.cert]);
    return pair;
  }

  /** As whoever renews a certificate does it. */
  async function install({ cert, key }: Pair): Promise<void> {
    const { uid, gid } = await stat(join(scene.daemon.dataDir, 'squash.db'));
    for (const [from, name] of [
      [key, 'preview-cert.key'],
      [cert, 'preview-cert.pem'],
    ] as const) {
      const path = join(scene.daemon.dataDir, name);
      await copyFile(from, `${path}.new`);
      await chown(`${path}.new`, uid, gid);
      await rename(`${path}.new`, path);
    }
  }

  async function ask(name: string, path: string, headers: Record<string, string> = {}) {
    const ca = await readFile(join(directory, 'first.pem'));
    const host = `${name}.preview.test`;
    const sent = request({
      host: '127.0.0.1',
      port,
      path,
      ca,
      agent: false,
      servername: host,
      headers: { host: `${host}:${port}`, ...headers },
    });
    sent.end();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    return { status: answer.statusCode, headers: answer.headers, text: await readText(answer) };
  }

  async function issuer(): Promise<string> {
    const socket = connect({
      host: '127.0.0.1',
      port,
      servername: '3000-dev.preview.test',
      rejectUnauthorized: false,
    });
    await once(socket, 'secureConnect');
    const { CN } = (socket as TLSSocket).getPeerCertificate().issuer;
    socket.destroy();
    return String(CN);
  }

  it('shows a port to who has a link, by a cookie that goes over TLS alone', async () => {
    const answer: unknown = await scene.daemon.call('POST', '/v1/sandboxes/dev/ports/3000/url', {});
    const { url, token } = portLinkSchema.parse(answer);
    assert.equal(url, `https://3000-dev.preview.test:${port}/?squash_token=${token}`);
    const opened = await ask('3000-dev', `/echo?squash_token=${token}`, { accept: 'text/html' });
    const [cookie = ''] = opened.headers['set-cookie'] ?? [];
    assert.match(cookie, /^__Host-squash_preview=.*; Secure$/);
    const seen = await ask('3000-dev', '/echo', { cookie: cookie.split(';')[0] ?? '' });
    assert.equal(seen.status, 200);
    assert.match(seen.text, /"X-Forwarded-Proto","https"/);
  });

  it('takes nobody’s connection for a proof, and serves nothing of the API', async () => {
    assert.equal((await ask('3000-dev', '/echo')).status, 401);
    for (const name of ['www', '3000-dev.deep']) {
      const seen = await ask('3000-dev', '/cgi-bin/health', { host: `${name}.preview.test` });
      assert.deepEqual([seen.status, /not_found/.test(seen.text)], [404, true]);
    }
    assert.equal((await ask('3000-dev', '/cgi-bin/health', { host: `127.0.0.1:${port}` })).status, 404);
  });

  it('takes another certificate while it runs, and keeps what it has where that does not fit', async () => {
    assert.equal(await issuer(), 'first');
    const [second, third] = [await makePair('second'), await makePair('third')];
    await install({ cert: second.cert, key: third.key });
    await waitFor(
      'the pair to be refused',
      () => /"preview\.certificate".*reason/.test(scene.daemon.output),
      15_000,
    );
    assert.equal(await issuer(), 'first');
    await install(second);
    await waitFor('the new certificate', async () => (await issuer()) === 'second', 15_000);
  });

  it('does not start without a certificate that can be used', async () => {
    await scene.daemon.stop();
    await rm(join(scene.daemon.dataDir, 'preview-cert.key'));
    await scene.daemon.launch();
    await waitFor('it to refuse', () =>
      /preview-cert\.key.*is missing.*config_invalid|config_invalid.*preview-cert\.key/.test(
        scene.daemon.output,
      ),
    );
    await scene.daemon.ended();
    assert.equal((await squash(scene.daemon, ['ls'])).code, 3);
  });
});
