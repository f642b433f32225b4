/**
 * Programs that use the network for something: git, pip, apt, WebSocket and gRPC clients, uploads and streams, and every
 * resolver there is. In one sandbox, against the world's servers, with a secret where the program has a place for one.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '../support/wait.ts';
import { canary } from './world/events.ts';
import { places } from './world/places.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot } from './world/world.ts';

const token = { placeholder: 'squash-token-placeholder', value: 'real-token-Zx81q+4f' };
const world = useWorld(
  {
    secrets: {
      TOKEN: {
        ...token,
        allowed_hosts: ['secret.allowed.test', 'git.allowed.test', 'pip.allowed.test'],
        surfaces: ['headers', 'body'],
      },
    },
  },
  (one) => one.create('box', { allow_net: ['*.allowed.test'] }),
);

const sh = (cmd: string, timeoutS = 40): Promise<string> => world().output('box', cmd, timeoutS);

async function authorizations(mark: number): Promise<readonly string[]> {
  const requests = await world().requestsSince(mark);
  return [...new Set(requests.map(({ headers }) => String(headers['authorization'])))];
}

const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

test('git clones and pushes over https when its token is a secret', { skip: needsRoot }, async () => {
  const mark = await world().mark();
  const url = 'https://user:$TOKEN@git.allowed.test/git/project.git';
  await sh(
    `cd /root && git clone --quiet "${url}" project && grep -q 'hello from the repository' project/README`,
  );
  await sh(
    'cd /root/project && git config user.name x && git config user.email x@localhost && ' +
      'head -c 3000000 /dev/urandom > big && git add big && git commit --quiet -m big && git push --quiet origin main',
  );
  assert.ok((await authorizations(mark)).includes(basic(`user:${token.value}`)));
  await assert.rejects(sh('git clone --quiet https://git.evil.test/git/project.git /root/evil'));
});

test('a program that ends its side behind its request gets a long answer', { skip: needsRoot }, async () => {
  const request = 'GET /events HTTP/1.1\\r\\nHost: www.allowed.test\\r\\nConnection: close\\r\\n\\r\\n';
  const program = `import socket
s = socket.create_connection(("www.allowed.test", 80))
s.sendall(b"${request}")
s.shutdown(socket.SHUT_WR)
while part := s.recv(4096): print(part.decode())`;
  assert.match(await sh(`python3 -c '${program}'`), /data: .* 1\n[^]*data: .* 5\n/);
});

test('git works through a tunnel when no secret concerns its host', { skip: needsRoot }, async () => {
  await sh('git clone --quiet https://plain.allowed.test/git/project.git /root/plain');
});

test('pip installs from an index when the index asks for a secret', { skip: needsRoot }, async () => {
  const mark = await world().mark();
  await sh('pip install --quiet --index-url "https://user:$TOKEN@pip.allowed.test/simple/" greeting');
  assert.equal(await sh('python3 -c "import greeting; print(greeting.text)"'), 'hello from the wheel\n');
  assert.ok((await authorizations(mark)).includes(basic(`user:${token.value}`)));
  await assert.rejects(
    sh('pip install --quiet --retries 0 --index-url https://pip.evil.test/simple/ greeting2', 60),
  );
});

test('apt installs over https and http when the archive is allowed', { skip: needsRoot }, async () => {
  for (const scheme of ['https', 'http']) {
    const source = `deb [trusted=yes] ${scheme}://apt.allowed.test/apt/ ./`;
    const own = `-o Dir::Etc::SourceList=/root/${scheme}.list -o Dir::Etc::SourceParts=/dev/null`;
    await sh(`echo '${source}' > /root/${scheme}.list && apt-get ${own} -qq update`);
    await sh(`apt-get ${own} -qq -y install greeting >/dev/null && grep -q package /opt/greeting`);
    await sh('dpkg --purge greeting >/dev/null');
  }
});

test('a WebSocket carries text and bytes when it is read and when it is tunnelled', {
  skip: needsRoot,
}, async () => {
  const mark = await world().mark();
  const read = await sh(
    'python3 /opt/tools/client_websocket.py wss://secret.allowed.test/ws "Bearer $TOKEN"',
  );
  assert.match(read, /hello\n262144\n$/);
  assert.ok(read.includes(token.placeholder) && !read.includes(token.value), read);
  assert.deepEqual(await authorizations(mark), [`Bearer ${token.value}`]);
  assert.match(
    await sh('python3 /opt/tools/client_websocket.py wss://www.allowed.test/ws'),
    /hello\n262144\n$/,
  );
  assert.match(
    await sh('python3 /opt/tools/client_websocket.py ws://www.allowed.test/ws'),
    /hello\n262144\n$/,
  );
  await assert.rejects(sh('python3 /opt/tools/client_websocket.py wss://www.evil.test/ws'), /403/);
});

test('gRPC calls end with their status when they are read and when they are tunnelled', {
  skip: needsRoot,
}, async () => {
  const mark = await world().mark();
  const said = await sh('python3 /opt/tools/client_grpc.py secret.allowed.test:443 "Bearer $TOKEN"');
  assert.match(said, /hello over grpc/);
  assert.deepEqual(await authorizations(mark), [`Bearer ${token.value}`]);
  assert.match(await sh('python3 /opt/tools/client_grpc.py www.allowed.test:443'), /hello over grpc/);
  const refused = await world().exec('box', 'python3 /opt/tools/client_grpc.py www.evil.test:443');
  assert.equal(refused.exit_code, 22);
});

test('HTTP/2 shares one connection between requests when it is read', { skip: needsRoot }, async () => {
  const mark = await world().mark();
  await sh('node /opt/tools/http2.mjs https://secret.allowed.test/hello "Bearer $TOKEN"');
  const requests = await world().requestsSince(mark);
  assert.deepEqual(
    requests.map(({ version, headers }) => [version, headers['authorization']]),
    [
      ['2.0', `Bearer ${token.value}`],
      ['2.0', `Bearer ${token.value}`],
    ],
  );
  const shared = (await world().since(mark)).filter(({ kind }) => kind === 'connection');
  assert.equal(shared.length, 1, JSON.stringify(shared));
});

test('bodies of any size pass when they are chunked, awaited or compressed', {
  skip: needsRoot,
}, async () => {
  const url = 'https://secret.allowed.test/upload';
  for (const flags of ['--http1.1', '--http2', '--http1.1 -H "Expect: 100-continue"']) {
    const answer = await sh(`head -c 60000000 /dev/zero | curl -sS --fail ${flags} -T - ${url}`);
    assert.equal((JSON.parse(answer) as { bytes: number }).bytes, 60_000_000);
  }
  assert.equal(
    await sh('curl -sS "https://secret.allowed.test/download?bytes=60000000" | wc -c'),
    '60000000\n',
  );
  const mark = await world().mark();
  await sh(`curl -sS --fail -d "key=$TOKEN" ${url}`);
  const [request] = await world().requestsSince(mark);
  // As a form says it.
  assert.equal(request?.body, `key=${encodeURIComponent(token.value)}`);
});

test('server-sent events arrive one by one when they are read', { skip: needsRoot }, async () => {
  const lines = await sh(
    'curl -sSN https://secret.allowed.test/events | while read -r line; do echo "$line"; done',
  );
  assert.equal(lines.match(new RegExp(`data: ${canary}`, 'g'))?.length, 5);
});

test('a server that speaks first is heard when nothing is sent', { skip: needsRoot }, async () => {
  assert.match(await sh('python3 /opt/tools/attack.py late www.allowed.test 22 1 x'), /SSH-2\.0/);
});

const resolvers: Readonly<Record<string, string>> = {
  glibc: 'getent ahostsv4 NAME | cut -d " " -f 1 | head -n 1',
  musl: 'cp /opt/tools/resolve-musl /tmp/r && chmod +x /tmp/r && /tmp/r NAME',
  busybox: "busybox nslookup NAME | sed -n 's/^Address: //p' | head -n 1",
  'Node’s getaddrinfo': `node -e 'require("dns").lookup("NAME", {family: 4}, (e, a) => { console.log(a ?? e.code); process.exit(e ? 2 : 0) })'`,
  'c-ares': `node -e 'require("dns").resolve4("NAME", (e, a) => { console.log(a?.[0] ?? e.code); process.exit(e ? 2 : 0) })'`,
  Python: `python3 -c 'import socket; print(socket.gethostbyname("NAME"))'`,
};

for (const [name, command] of Object.entries(resolvers)) {
  const look = (host: string): string => command.replaceAll('NAME', host);
  test(`names mean the same to the resolver of ${name}`, { skip: needsRoot }, async () => {
    const first = (await sh(look('one.allowed.test'))).trim();
    assert.match(first, /^198\.1[89]\.\d+\.\d+$/);
    assert.equal((await sh(look('ONE.Allowed.Test'))).trim(), first);
    assert.notEqual((await sh(look('two.allowed.test'))).trim(), first);
    assert.match(await sh(look('both.allowed.test')), /^198\.1[89]\.\d+\.\d+\n$/);
    // A refused name has an address as well, so that the refusal can be explained.
    assert.match(await sh(look('refused.evil.test')), /^198\.1[89]\.\d+\.\d+\n$/);
    const { stdout } = await world().exec('box', look('empty.allowed.test'));
    assert.doesNotMatch(stdout, /\d+\.\d+\.\d+\.\d+/);
  });
}

test('records other than addresses are passed on when the name is allowed', { skip: needsRoot }, async () => {
  const records = `node -e '
    const { resolveMx, resolveTxt, resolveSrv } = require("dns").promises;
    (async () => console.log(JSON.stringify([
      await resolveMx("records.allowed.test"), await resolveTxt("records.allowed.test"),
      await resolveSrv("_svc._tcp.allowed.test"), await resolveTxt("x.evil.test").catch((e) => e.code)])))()'`;
  assert.deepEqual(JSON.parse(await sh(records)), [
    [{ exchange: 'mail.allowed.test', priority: 10 }],
    [['v=one'], ['two']],
    [{ name: 'api.allowed.test', port: 443, priority: 1, weight: 2 }],
    'ENODATA',
  ]);
});

test('a name of another script is the name that its A-label is', { skip: needsRoot }, async () => {
  const mark = await world().mark();
  await world().create('script', { allow_net: ['bücher.allowed.test'] });
  const fetch = (host: string): string => `python3 /opt/tools/client_urllib.py http://${host}/hello`;
  const label = 'xn--bcher-kva.allowed.test';
  assert.ok((await world().output('script', fetch(label))).includes(canary));
  assert.ok(
    (await world().output('script', `curl -sS --fail http://${label.toUpperCase()}./hello`)).includes(canary),
  );
  const look = `python3 -c 'import socket; print(socket.gethostbyname("b\\u00fccher.allowed.test") == socket.gethostbyname("${label}"))'`;
  assert.equal(await world().output('script', look), 'True\n');
  assert.notEqual((await world().exec('script', fetch('xn--bcher-kvb.allowed.test'))).exit_code, 0);
  assert.equal((await world().requestsSince(mark)).length, 2);
});

test('a refused name does not exist when the policy says nxdomain, and an allowed one does', {
  skip: needsRoot,
}, async () => {
  const mark = await world().mark();
  await world().create('strict', { policy: { allow: ['*.allowed.test'], dns: 'nxdomain' } });
  assert.match(await world().output('strict', 'getent ahostsv4 www.allowed.test'), /^198\.1[89]\./);
  const { exit_code: code, stdout } = await world().exec('strict', 'getent ahostsv4 leak.evil.test');
  assert.deepEqual([code, stdout], [2, '']);
  const { stderr } = await world().exec('strict', 'curl -sS http://leak.evil.test/');
  assert.match(stderr, /Could not resolve host/);
  const asked = (await world().since(mark)).filter((event) => event.kind === 'query');
  assert.ok(!asked.some(({ name }) => name.includes('evil')), JSON.stringify(asked));
});

test('a decision names the address when it was dialled for a name, read or not, and when it may not be', {
  skip: needsRoot,
}, async () => {
  const addressesOf = async (host: string): Promise<readonly unknown[]> => {
    const query = `/v1/sandboxes/box/egress?limit=1000&host=${host}`;
    const { decisions } = await world().daemon.call('GET', query);
    const rows = decisions as readonly { readonly kind: string; readonly address: string | null }[];
    return [...new Set(rows.filter(({ kind }) => kind !== 'dns').map(({ address }) => address))];
  };
  const asked = {
    'named.allowed.test': { url: 'https://named.allowed.test/hello', address: places.front },
    'secret.allowed.test': { url: 'https://secret.allowed.test/hello', address: places.front },
    'private10.allowed.test': { url: 'https://private10.allowed.test/', address: places.private10 },
    'private172.allowed.test': { url: 'http://private172.allowed.test/', address: places.private172 },
    'private192.allowed.test': { url: 'telnet://private192.allowed.test:7777', address: places.private192 },
  };
  for (const [host, { url, address }] of Object.entries(asked)) {
    await sh(`curl -sS -m 10 -o /dev/null ${url} </dev/null || true`);
    await waitFor(`${host} is recorded`, async () => (await addressesOf(host)).length > 0);
    assert.deepEqual(await addressesOf(host), [address], host);
  }
});
