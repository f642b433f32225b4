/** Previews in Debian's Chromium: a development server with a WebSocket, a link, and a hostile page beside them. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { portLinkSchema } from '@squash/contract/ports';
import { Browser, noBrowser } from '../support/browser.ts';
import { PreviewScene } from '../support/previews.ts';

const skip = noBrowser ?? false;
const dev = 'node /opt/dev-server.mjs 3000';

describe('a preview in a browser', { skip }, () => {
  let browser: Browser;
  before(async () => {
    browser = await Browser.start();
  });
  after(async () => {
    await browser[Symbol.asyncDispose]();
  });

  it('is opened by a link, and follows the program over its WebSocket', async () => {
    await using scene = await PreviewScene.start(['dev'], {
      env: { SQUASH_AUTH_TOKEN: 'the-operators-token' },
    });
    await scene.run('dev', dev, 3000);
    const answer: unknown = await scene.daemon.call('POST', '/v1/sandboxes/dev/ports/3000/url', {});
    const page = await browser.open(portLinkSchema.parse(answer).url ?? '');
    await page.until('document.title === "first"');
    assert.equal(await page.evaluate('location.href'), `http://${scene.host('3000-dev')}/`);
    assert.equal(await page.evaluate('document.cookie'), '');
    await scene.exec('dev', 'echo second > /tmp/shown');
    await page.until('document.title === "second"');
    const closed = await browser.open(`http://${scene.host('3001-dev')}/`);
    await closed.until('document.body?.textContent.includes("squash url SANDBOX PORT")');
  });

  it('does nothing to the API, to another sandbox’s preview, or to its cookies', async () => {
    await using scene = await PreviewScene.start(['dev', 'evil']);
    await scene.run('dev', dev, 3000);
    await scene.serve('evil', 3000);
    const page = await browser.open(`http://${scene.host('3000-dev')}/`);
    await page.until('document.title === "first"');
    // Browsers ask for it when they like.
    const asked = await scene.exec('dev', 'grep -v favicon /tmp/asked');
    const evil = await browser.open(`http://${scene.host('3000-evil')}/cookies`);
    await evil.until('document.body?.textContent === "cookies"');
    const api = `localhost:${scene.daemon.port}`;
    const other = scene.host('3000-dev');
    const attempts = await evil.evaluate(`(async () => {
      const failed = (work) => work.then(() => 'worked', () => 'failed');
      const socket = (url, protocol) => new Promise((resolve, reject) => {
        const opened = new WebSocket(url, protocol);
        opened.onopen = resolve;
        opened.onerror = reject;
      });
      const frame = (url) => new Promise((resolve) => {
        const made = document.createElement('iframe');
        made.onload = resolve;
        made.src = url;
        document.body.append(made);
      });
      const exec = 'http://${api}/cgi-bin/api/sandboxes/dev/exec';
      const body = '{"cmd":"touch /tmp/owned"}';
      const form = { method: 'POST', mode: 'no-cors', credentials: 'include', body };
      document.cookie = 'tossed=1; domain=localhost';
      document.cookie = 'squash_preview=1; domain=localhost';
      await fetch(exec, form).catch(() => {});
      await fetch('http://${other}/written', form).catch(() => {});
      await fetch('http://${other}/read', { mode: 'no-cors', credentials: 'include' }).catch(() => {});
      await frame('http://${other}/framed');
      await frame('http://${api}/v1/info');
      return [
        await failed(fetch('http://${api}/v1/info')),
        await failed(fetch(exec, { method: 'POST', headers: { 'content-type': 'application/json' }, body })),
        await failed(fetch('http://${other}/')),
        await failed(socket('ws://${api}/v1/sandboxes/dev/exec', 'squash.exec.v1')),
        await failed(socket('ws://${other}/hot')),
      ].join();
    })()`);
    assert.equal(attempts, 'failed,failed,failed,failed,failed');
    assert.equal(
      await scene.exec('dev', 'grep -v favicon /tmp/asked; ls /tmp/owned 2>&1'),
      `${asked}\nls: cannot access '/tmp/owned': No such file or directory`,
    );
    // What it can do to others it can do to itself.
    assert.equal(await evil.evaluate('fetch("/echo").then((answer) => answer.status)'), 200);
    const again = await browser.open(`http://${other}/`);
    await again.until('document.title === "first"');
    assert.equal(await again.evaluate('document.cookie'), '');
  });
});
