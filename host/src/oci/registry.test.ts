/** Registries that answer as none should: whom the daemon tells its login, and where it lets itself be sent. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { parseImageReference } from '@squash/contract/image-reference';
import { RegistryRequests } from './registry-request.ts';
import { HttpRegistries } from './registry.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'squash-registry-'));
mkdirSync(join(dataDir, 'tmp'));
after(() => rmSync(dataDir, { recursive: true }));
const { signal } = new AbortController();

async function listening(answer: RequestListener): Promise<{ readonly host: string } & AsyncDisposable> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert(address !== null && typeof address === 'object');
  return {
    host: `127.0.0.1:${address.port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

test('a host that a registry sends us to gets no login by asking for one itself', async () => {
  const asked: (string | undefined)[] = [];
  await using elsewhere = await listening(({ headers }, answer) => {
    asked.push(headers.authorization);
    const realm = `Bearer realm="http://${headers.host}/token"`;
    answer.writeHead(401, { 'www-authenticate': realm }).end('{"token":"t"}');
  });
  await using registry = await listening((_, answer) => {
    answer.writeHead(307, { location: `http://${elsewhere.host}/blob` }).end();
  });
  const authFile = join(dataDir, 'auth.json');
  writeFileSync(
    authFile,
    JSON.stringify({ auths: { [registry.host]: { username: 'u', password: 'secret' } } }),
  );
  const registries = { authFile, insecure: [registry.host, elsewhere.host] };
  const reference = parseImageReference(`${registry.host}/image:1`);
  assert(reference !== undefined);
  await assert.rejects(new HttpRegistries({ dataDir, registries }).find(reference, signal), {
    code: 'registry_denied',
  });
  assert.deepEqual(asked, [undefined]);
});

test('a registry sends us to no network but the public one and that which it has answered from', async () => {
  await using registry = await listening((_, answer) => {
    answer.writeHead(302, { location: 'http://10.0.0.1/latest' }).end();
  });
  const requests = new RegistryRequests({
    host: registry.host,
    insecure: new Set([registry.host, '10.0.0.1']),
  });
  const sent = requests.send({ url: new URL(`http://${registry.host}/v2/`) }, signal);
  await assert.rejects(sent, { code: 'registry_unavailable', message: /whose address is private/ });
});

test('what is no host that could be asked is no name of an image', () => {
  for (const name of ['a.b:99999/x', '[:::::]/x', '1.2.3.400:5000/x'])
    assert.equal(parseImageReference(name), undefined, name);
  assert.equal(parseImageReference('a.b:443/x')?.registry, 'a.b:443');
});
