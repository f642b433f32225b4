/**
 * What changes while programs are connected, what no policy may exceed, and what one sandbox's flood does to another: in
 * one world whose operator has set a ceiling.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { waitFor } from '../support/wait.ts';
import { canary } from './world/events.ts';
import { places } from './world/places.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot } from './world/world.ts';

const world = useWorld(
  {
    ceiling: { allow: ['*.allowed.test', '10.1.2.0/24:80'], deny: ['denied.allowed.test'] },
    secrets: {
      KEY: {
        placeholder: 'squash-key-placeholder',
        value: 'real-key-value-0123',
        allowed_hosts: ['secret.allowed.test'],
      },
    },
  },
  (one) => one.create('quiet', { allow_net: ['*.allowed.test'] }),
);

/** Says a line a second, over a connection that it opens once; `over` when that has ended. */
const talk = (host: string, tls: boolean): string => `python3 -u -c '
import socket, ssl, sys, time
plain = socket.create_connection(("${host}", ${tls ? 443 : 7777}))
end = ssl.create_default_context().wrap_socket(plain, server_hostname="${host}") if ${tls ? 'True' : 'False'} else plain
try:
    while True:
        end.sendall(b"GET /hello HTTP/1.1\\r\\nHost: ${host}\\r\\n\\r\\n" if ${tls ? 'True' : 'False'} else b"hello\\n")
        if not end.recv(4096): break
        print("said")
        time.sleep(0.1)
except OSError as error:
    print(error)
print("over")
'`;

async function logOf(id: string): Promise<string> {
  return (await world().exec(id, 'cat /tmp/log')).stdout;
}

for (const [what, host, tls] of [
  ['a tunnel of another protocol', 'www.allowed.test', false],
  ['a tunnel of TLS', 'www.allowed.test', true],
  ['a connection that is read', 'secret.allowed.test', true],
] as const) {
  test(`${what} ends when the policy no longer allows it, and only then`, { skip: needsRoot }, async () => {
    const id = `live-${host.split('.')[0]}-${String(tls)}`;
    await world().create(id, { allow_net: ['*.allowed.test'] });
    await world().start(id, `${talk(host, tls)} > /tmp/log 2>&1`);
    await waitFor('the connection to be used', async () => (await logOf(id)).includes('said'));
    await world().daemon.call('PUT', `/v1/sandboxes/${id}/policy`, {
      allow: ['*.allowed.test', 'other.test'],
    });
    const before = (await logOf(id)).length;
    await waitFor('it to go on', async () => (await logOf(id)).length > before);
    await world().daemon.call('PUT', `/v1/sandboxes/${id}/policy`, { allow: ['other.allowed.test'] });
    await waitFor('it to end', async () => (await logOf(id)).includes('over'));
    const mark = await world().mark();
    const { exit_code: code } = await world().exec(
      id,
      `curl -sS --max-time 5 http://${host}/hello | grep -q ${canary}`,
    );
    assert.notEqual(code, 0);
    assert.deepEqual(await world().since(mark), []);
  });
}

test('a connection that is read ends when the address it reads from is denied', {
  skip: needsRoot,
}, async () => {
  const id = 'live-read-address';
  await world().create(id, { allow_net: ['*.allowed.test'] });
  await world().start(id, `${talk('secret.allowed.test', true)} > /tmp/log 2>&1`);
  await waitFor('the connection to be used', async () => (await logOf(id)).includes('said'));
  await world().daemon.call('PUT', `/v1/sandboxes/${id}/policy`, {
    allow: ['*.allowed.test'],
    deny: [places.front],
  });
  await waitFor('it to end', async () => (await logOf(id)).includes('over'));
});

/** Many, one after the other, so that some are open for less time than a greeting is waited for; then what became of each. */
const silent = `python3 -u -c '
import socket, time
address = socket.getaddrinfo("www.allowed.test", 7777)[0][4]
ends = []
for number in range(40):
    try: ends.append(socket.create_connection(address))
    except OSError: pass
    if number == 10: print("open")
    time.sleep(0.05)
hanging = False
for end in ends:
    end.settimeout(10)
    try: end.recv(1)
    except TimeoutError: hanging = True
    except OSError: pass
    if hanging: break
print("hanging" if hanging else "all over")
'`;

test('a connection on which nobody has spoken ends when the policy no longer allows it', {
  skip: needsRoot,
}, async () => {
  const id = 'live-silent';
  await world().create(id, { allow_net: ['*.allowed.test'] });
  await world().start(id, `${silent} > /tmp/log 2>&1`);
  await waitFor('connections', async () => (await logOf(id)).includes('open'));
  await world().daemon.call('PUT', `/v1/sandboxes/${id}/policy`, { allow: ['other.allowed.test'] });
  await waitFor('their ends', async () => /over|hanging/.test(await logOf(id)), 30_000);
  assert.match(await logOf(id), /all over/);
});

test('a policy wider than the ceiling reaches what the ceiling allows and no more', {
  skip: needsRoot,
}, async () => {
  await world().create('escape', { policy: { allow: ['*', '0.0.0.0/0', '::/0'] } });
  const reach = async (url: string): Promise<boolean> =>
    (await world().exec('escape', `curl -gksS --max-time 5 '${url}'`)).stdout.includes(canary);
  for (const policy of [
    undefined,
    { allow: ['*'] },
    { allow: ['*', 'evil.test', '5.6.6.6', '10.0.0.0/8'] },
  ]) {
    if (policy !== undefined) await world().daemon.call('PUT', '/v1/sandboxes/escape/policy', policy);
    assert.equal(await reach('https://www.allowed.test/x'), true);
    for (const url of [
      'http://evil.test/x',
      'http://5.6.6.6/x',
      'http://denied.allowed.test/x',
      'http://169.254.169.254/x',
      'http://10.1.2.3:7777/x',
    ]) {
      assert.equal(await reach(url), false, url);
    }
  }
  // What both name is reached, also where it is private.
  assert.equal(await reach('http://10.1.2.3/x'), true);
});

/** Asks for one name after the other below this one, as fast as it can or may, and waits for no answer. */
const queryFlood = (zone: string, pauseS = 0): string => `python3 -c '
import os, socket, time
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
zone = b"".join(bytes([len(word)]) + word.encode() for word in "${zone}".split("."))
while True:
    label = os.urandom(8).hex().encode()
    head = label[:2] + bytes([1, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    end.sendto(head + bytes([16]) + label + zone + bytes([0, 0, 1, 0, 1]), ("198.18.0.1", 53))
    time.sleep(${pauseS})
'`;

const floods: Readonly<Record<string, string>> = {
  'names that are refused': queryFlood('evil.test'),
  'names that are allowed': queryFlood('allowed.test'),
  connections: `python3 -c '
import socket
while True:
    held = []
    for _ in range(400):
        try: held.append(socket.create_connection(("www.allowed.test", 7777), 5))
        except OSError: pass
    for one in held: one.close()
'`,
  'connections that are refused': `python3 -c '
import socket
while True:
    try:
        with socket.create_connection(("www.evil.test", 80), 5) as end: end.sendall(b"GET / HTTP/1.1\\r\\nHost: www.evil.test\\r\\n\\r\\n")
    except OSError: pass
'`,
  'bytes through a tunnel':
    'while :; do curl -sS -o /dev/null "https://www.allowed.test/download?bytes=2000000000"; done',
  'bytes that are read':
    'while :; do curl -sS -o /dev/null "https://secret.allowed.test/download?bytes=2000000000"; done',
};

for (const [what, script] of Object.entries(floods)) {
  test(`a neighbour is served when a sandbox floods with ${what}`, { skip: needsRoot }, async () => {
    const id = `flood-${what.replaceAll(' ', '-')}`;
    await world().create(id, { allow_net: ['*.allowed.test'], cpu: 1 });
    const job = await world().start(id, script);
    for (let round = 0; round < 10; round++) {
      assert.equal((await world().output('quiet', 'echo here')).trim(), 'here');
      const answer = await world().output('quiet', `curl -sS --fail http://quiet${round}.allowed.test/hello`);
      assert.ok(answer.includes(canary), answer);
    }
    assert.equal((await world().daemon.call('GET', job)).status, 'running');
    await world().daemon.call('DELETE', `/cgi-bin/api/sandboxes/${id}`);
    // What was flooded is still the same process.
    const log = await readFile(join(world().daemon.dataDir, 'log/egress.log'), 'utf8');
    assert.equal(log.match(/egress\.ready/g)?.length, 1, log);
  });
}

async function queries(): Promise<number> {
  const { text } = await world().daemon.request('GET', '/metrics');
  return Number(/dns_total\{kind="queries"\} (\d+)/.exec(text)?.[1] ?? 0);
}

test('a name is found while more sandboxes than one ask for names that nobody answers', {
  skip: needsRoot,
}, async () => {
  // So many that each holding all it can would leave nothing.
  const loud = Array.from({ length: 9 }, (_, at) => `silent-${at}`);
  for (const id of loud) await world().create(id, { allow_net: ['*.allowed.test'] });
  for (const id of loud) await world().start(id, queryFlood('silent.allowed.test', 0.01));
  const before = await queries();
  await waitFor('all of them to have asked', async () => (await queries()) - before > 3_000);
  for (let round = 0; round < 10; round++) {
    await world().output('quiet', `getent ahostsv4 found${round}.allowed.test`);
  }
  for (const id of loud) await world().daemon.call('DELETE', `/cgi-bin/api/sandboxes/${id}`);
});
