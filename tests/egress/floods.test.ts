/**
 * What costs a program little and the egress process much: every sandbox shares that process, so a neighbour is served
 * meanwhile, and it is the same process afterwards.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { waitFor } from '../support/wait.ts';
import { canary } from './world/events.ts';
import { needsRoot, World } from './world/world.ts';

const stack = new AsyncDisposableStack();
let world: World;

before(async () => {
  if (needsRoot !== false) return;
  const secret = { placeholder: 'squash-key-placeholder', value: 'real-key-value-0123' };
  world = stack.use(
    await World.start({ secrets: { KEY: { ...secret, allowed_hosts: ['secret.allowed.test'] } } }),
  );
  await world.create('quiet', { allow_net: ['*.allowed.test'] });
});

after(() => stack.disposeAsync());

const python = (body: string): string => `cat > /tmp/flood.py <<'END'
import os, socket, ssl, time
def connected(port=80, host="www.allowed.test"):
    end = socket.create_connection((host, port), 5)
    end.setblocking(False)
    return end
def send(end, data):
    try: return end.send(data)
    except OSError: return 0
${body}
END
python3 /tmp/flood.py`;

const floods: Readonly<Record<string, string>> = {
  'requests ahead of answers that never come': python(`
head = b"GET /never HTTP/1.1\\r\\nHost: www.allowed.test\\r\\n" + b"".join(b"x-%d: %s\\r\\n" % (at, b"x" * 60) for at in range(800)) + b"\\r\\n"
held = [connected() for _ in range(40)]
while True:
    for at, end in enumerate(held):
        rest = head * 2
        while rest and (sent := send(end, rest)): rest = rest[sent:]
        if os.urandom(1)[0] == 0: held[at] = connected()
    time.sleep(0.01)
`),
  'bodies that swell': `node -e '
const { brotliCompressSync, constants } = require("node:zlib");
const body = brotliCompressSync(Buffer.alloc(40 << 20, 97), { params: { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: 1 } });
const head = "POST /never HTTP/1.1\\r\\nHost: www.allowed.test\\r\\nContent-Encoding: br\\r\\nContent-Length: 999999\\r\\n\\r\\n";
const held = [];
setInterval(() => {
  const end = require("node:net").connect(80, "www.allowed.test").on("error", () => {});
  end.write(Buffer.concat([Buffer.from(head), body]));
  held.push(end);
  if (held.length > 120) held.shift().destroy();
}, 20);
'`,
  'methods and paths in headers': python(`
lines = "".join("x-original-url: /%%2e%%2e;a%d/./b//c\\r\\n" % at for at in range(900)) + "".join("x-http-method: A%d\\r\\n" % at for at in range(1000))
while True:
    with socket.create_connection(("rules.allowed.test", 80), 60) as end:
        end.sendall(f"GET /x HTTP/1.1\\r\\nHost: rules.allowed.test\\r\\n{lines}\\r\\n".encode())
        end.settimeout(60)
        end.recv(4096)
`),
  'hellos without a handshake': python(`
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
out = ssl.MemoryBIO()
try: context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="aaaaaaaaaaaa.evil.test").do_handshake()
except ssl.SSLWantReadError: pass
hello = out.read()
held = []
while True:
    try: held.append(connected(443, "5.6.6.6"))
    except OSError: pass
    if held: send(held[-1], hello.replace(b"a" * 12, os.urandom(6).hex().encode()))
    if len(held) > 200: held.pop(0).close()
    time.sleep(0.001)
`),
};

async function end(id: string): Promise<void> {
  await world.daemon.call('DELETE', `/cgi-bin/api/sandboxes/${id}`);
}

/** The network has decided something for it. */
async function isHeard(id: string): Promise<boolean> {
  const { decisions } = await world.daemon.call('GET', `/v1/sandboxes/${id}/egress`);
  return (decisions as readonly unknown[]).length > 0;
}

for (const [what, script] of Object.entries(floods)) {
  test(`a neighbour is served when a sandbox floods with ${what}`, { skip: needsRoot }, async () => {
    const id = `flood-${what.split(' ').slice(0, 2).join('-')}`;
    await world.create(id, {
      policy: { allow: ['*.allowed.test'], deny: [{ to: 'rules.allowed.test', paths: ['/denied'] }] },
      cpu: 1,
    });
    await using _flood = { [Symbol.asyncDispose]: async () => await end(id) };
    const job = await world.start(id, script);
    await waitFor('the flood to begin', () => isHeard(id), 30_000);
    for (let round = 0; round < 10; round++) {
      const answer = await world.output('quiet', `curl -sS --fail http://quiet${round}.allowed.test/hello`);
      assert.ok(answer.includes(canary), answer);
    }
    const { status, output_tail: tail } = (await world.daemon.call('GET', job)) as Record<string, unknown>;
    assert.equal(status, 'running', String(tail));
    const log = await readFile(join(world.daemon.dataDir, 'log/egress.log'), 'utf8');
    assert.equal(log.match(/egress\.ready/g)?.length, 1, log.slice(-4_000));
  });
}

/** Two hundred downloads over TLS that is read; how many bytes have come so far stands in /tmp/bytes. */
const downloads = python(`
import selectors, threading
context = ssl.create_default_context()
ready = selectors.DefaultSelector()
asked = b"GET /download?bytes=100000000000 HTTP/1.1\\r\\nHost: secret.allowed.test\\r\\n\\r\\n"
for _ in range(200):
    end = context.wrap_socket(socket.create_connection(("secret.allowed.test", 443)), server_hostname="secret.allowed.test")
    end.sendall(asked)
    end.setblocking(False)
    ready.register(end, selectors.EVENT_READ)
total, said = 0, 0
while True:
    for key, _ in ready.select():
        try:
            while part := key.fileobj.recv(65536): total += len(part)
        except ssl.SSLWantReadError: pass
    if total - said > 1 << 20:
        said = total
        with open("/tmp/bytes.next", "w") as file: file.write(str(total))
        os.rename("/tmp/bytes.next", "/tmp/bytes")
`);

/** Requests one after the other over one connection, which was open before. */
const requests = (count: number): string => `python3 -c '
import http.client
end = http.client.HTTPSConnection("secret.allowed.test", timeout=120)
for _ in range(${count}):
    end.request("GET", "/hello")
    assert b"${canary}" in end.getresponse().read()
'`;

test('a neighbour’s requests take turns with two hundred downloads, not with each of them', {
  skip: needsRoot,
}, async () => {
  await world.create('loud', { allow_net: ['*.allowed.test'], cpu: 1 });
  await using _flood = { [Symbol.asyncDispose]: async () => await end('loud') };
  await world.start('loud', downloads);
  const downloaded = async (): Promise<number> => Number((await world.exec('loud', 'cat /tmp/bytes')).stdout);
  await waitFor('the downloads to flow', async () => (await downloaded()) > 100 << 20, 60_000);
  const before = await downloaded();
  await world.output('quiet', requests(50));
  const passed = (await downloaded()) - before;
  assert.ok(passed < 50 * (8 << 20), `${passed} bytes passed beside fifty requests`);
});
