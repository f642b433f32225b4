/**
 * Real clients inside a sandbox against real servers with real certificates. For each: what is allowed works, tunnelled
 * and read; what is refused does not, and says why; a secret arrives at its server and is nowhere inside.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { thisTurn } from '../support/turn.ts';
import { clients } from './clients.ts';
import { canary } from './world/events.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot } from './world/world.ts';

const value = 'sk-real-Zx81q+/4f~value';
const placeholder = 'sk-placeholder-5d0f7c2b9e';
const world = useWorld(
  {
    secrets: {
      API_KEY: { placeholder, value, allowed_hosts: ['secret.allowed.test', 'secret.allowed.test:80'] },
    },
  },
  (one) => one.create('box', { allow_net: ['*.allowed.test'] }),
);

/** The value came in exactly one request, in the header. */
async function arrivedOnce(mark: number): Promise<void> {
  const requests = await world().requestsSince(mark);
  const authorized = requests.map(({ headers }) => headers['authorization']);
  assert.ok(authorized.length >= 1, 'no request arrived');
  for (const said of authorized) assert.equal(said, `Bearer ${value}`);
}

/** The first time: Java compiles its client then. */
const firstS = 30;

for (const client of thisTurn(clients)) {
  test(`${client.name} reaches an allowed host through a tunnel`, { skip: needsRoot }, async () => {
    const mark = await world().mark();
    const output = await world().output('box', client.fetch('https://www.allowed.test/hello'), firstS);
    assert.match(output, new RegExp(`${canary} 5\\.1\\.0\\.1:443 www\\.allowed\\.test /hello`));
    const [request] = await world().requestsSince(mark);
    assert.equal(request?.serverName, 'www.allowed.test');
  });

  test(`${client.name} sends a secret that it never has over TLS`, { skip: needsRoot }, async () => {
    const mark = await world().mark();
    const url = 'https://secret.allowed.test/reflect';
    const output = await world().output('box', client.fetch(url, 'Bearer $API_KEY'));
    await arrivedOnce(mark);
    assert.ok(output.includes(placeholder), output);
    assert.ok(!output.includes(value), output);
  });

  test(`${client.name} sends a secret in clear text when its host has no TLS`, {
    skip: needsRoot,
  }, async () => {
    const mark = await world().mark();
    const url = 'http://secret.allowed.test/reflect?how=json';
    const output = await world().output('box', client.fetch(url, 'Bearer $API_KEY'));
    await arrivedOnce(mark);
    assert.ok(!output.includes(value), output);
  });

  test(`${client.name} is told why when a host is refused`, { skip: needsRoot }, async () => {
    const mark = await world().mark();
    for (const scheme of ['http', 'https']) {
      const {
        exit_code: code,
        stdout,
        stderr,
      } = await world().exec('box', client.fetch(`${scheme}://www.evil.test/hello`));
      assert.notEqual(code, 0);
      if (client.shows === 'body') assert.match(stdout, /not_allowed/, stdout + stderr);
      if (client.shows !== 'nothing') assert.match(stdout + stderr, /403/);
    }
    assert.deepEqual(await world().since(mark), []);
  });

  if (client.verifies) {
    test(`${client.name} does not get through when the server’s certificate is false`, {
      skip: needsRoot,
    }, async () => {
      const mark = await world().mark();
      const { exit_code: code, stdout } = await world().exec(
        'box',
        client.fetch('https://bad-cert.allowed.test/hello'),
      );
      assert.notEqual(code, 0);
      assert.ok(!stdout.includes(canary), stdout);
      assert.deepEqual(await world().requestsSince(mark), []);
    });
  }
}

test('an agent that writes its own key into a prompt is answered, and the key goes out as the placeholder', {
  skip: needsRoot,
}, async () => {
  for (const version of ['--http1.1', '--http2']) {
    const mark = await world().mark();
    const say = `-H 'content-type: application/json' -d "{\\"prompt\\":\\"$(env | grep ^API_KEY=)\\"}"`;
    const url = 'https://secret.allowed.test/hello';
    const said = await world().output(
      'box',
      `curl -sS --fail ${version} -H "Authorization: Bearer $API_KEY" ${say} ${url}`,
    );
    assert.ok(said.includes(canary), said);
    const [request] = await world().requestsSince(mark);
    assert.equal(request?.headers['authorization'], `Bearer ${value}`);
    assert.equal(request?.body, `{"prompt":"API_KEY=${placeholder}"}`);
  }
});

/** What holds a word inside: files, and processes' environments, words and memory. The halves are never put together. */
async function holders(word: string): Promise<string> {
  const script = `python3 /opt/tools/search.py '${word.slice(0, 8)}' '${word.slice(8)}'`;
  return (await world().output('box', script, 60)).trim();
}

test('the value of a secret is nowhere inside when every client has used it', {
  skip: needsRoot,
}, async () => {
  assert.match(await holders(placeholder), /environ/, 'the search would not find it');
  assert.equal(await holders(value), '');
});
