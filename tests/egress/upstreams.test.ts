/**
 * Sandboxes whose way out is a proxy: an HTTP proxy, a SOCKS5 proxy that looks names up, one that gets addresses. Whatever a
 * program speaks goes through it and through nothing else, what the policy refuses does not come that far, and nobody
 * inside learns its password.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { EgressDecision } from '@squash/contract/egress-protocol';
import { waitFor } from '../support/wait.ts';
import { login, Proxies, proxyPorts } from './proxies.ts';
import { canary } from './world/events.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot } from './world/world.ts';

const by = `${login.name}:${login.password}@127.0.0.1`;
const upstreams = {
  corp: `http://${by}:${proxyPorts.http}`,
  far: `socks5h://${by}:${proxyPorts.socks}`,
  near: `socks5://${by}:${proxyPorts.socks}`,
  wrong: `http://${login.name}:another@127.0.0.1:${proxyPorts.http}`,
  bare: `http://127.0.0.1:${proxyPorts.http}`,
  stranger: `socks5h://127.0.0.1:${proxyPorts.socks}`,
  nobody: `http://${by}:${proxyPorts.nobody}`,
};
const working = ['corp', 'far', 'near'] as const;
const value = 'sk-value-behind-a-proxy';
let proxies: Proxies | undefined;
const world = useWorld(
  {
    upstreams,
    secrets: {
      KEY: { placeholder: 'sk-placeholder-0123', value, allowed_hosts: ['secret.allowed.test'] },
    },
  },
  async (to) => {
    proxies = await Proxies.start(to);
    for (const upstream of Object.keys(upstreams)) {
      await to.create(upstream, { upstream, allow_net: ['*.allowed.test'] });
    }
    for (const upstream of working) await to.create(`${upstream}-open`, { upstream, secrets: [] });
    await to.create('direct', { allow_net: ['*.allowed.test'] });
  },
);
after(async () => await proxies?.[Symbol.asyncDispose]());

/** What the proxies said during it. */
async function logged(work: () => Promise<void>): Promise<string> {
  const mark = proxies?.mark() ?? 0;
  await work();
  return proxies?.since(mark) ?? '';
}

const curl = 'curl -sS --max-time 20';
/** A shell command for each kind of connection, what it prints, and its port. */
const kinds = [
  ['TLS that nobody reads', `${curl} https://www.allowed.test/hello`, canary, 443],
  ['TLS that is read', `${curl} -H "X-Key: $KEY" https://secret.allowed.test/hello`, canary, 443],
  ['plain HTTP', `${curl} http://www.allowed.test/hello`, canary, 80],
  ['bytes without lines', 'python3 /opt/tools/attack.py tcp www.allowed.test 7777 12345', '12345', 7777],
  ['a server that speaks first', 'python3 /opt/tools/attack.py tcp www.allowed.test 22 ""', 'SSH', 22],
] as const;

for (const upstream of working) {
  for (const [what, command, printed, port] of kinds) {
    for (const box of [upstream, `${upstream}-open`]) {
      test(`${what} goes through the proxy "${upstream}" from the sandbox "${box}"`, {
        skip: needsRoot,
      }, async () => {
        const log = await logged(async () => {
          const { stdout, stderr } = await world().exec(box, command, 25);
          assert.ok(stdout.includes(printed), stdout + stderr);
        });
        const place = upstream === 'near' ? '5\\.1\\.0\\.1' : '[a-z]+\\.allowed\\.test';
        assert.match(log, new RegExp(`${place}:${port}`));
      });
    }
  }

  test(`a secret arrives and comes back as its placeholder through the proxy "${upstream}"`, {
    skip: needsRoot,
  }, async () => {
    const mark = await world().mark();
    const call = `${curl} -H "Authorization: Bearer $KEY" https://secret.allowed.test/reflect`;
    assert.match(await world().output(upstream, call), /sk-placeholder-0123/);
    const [request] = await world().requestsSince(mark);
    assert.equal(request?.headers['authorization'], `Bearer ${value}`);
  });
}

test('what the policy or the guard refuses does not reach a proxy', { skip: needsRoot }, async () => {
  const log = await logged(async () => {
    for (const upstream of working) {
      for (const url of ['http://evil.test/leak', 'https://evil.test/leak']) {
        assert.match(await world().output(upstream, `${curl} -k ${url}`), /not_allowed/);
      }
      const addresses = ['10.1.2.3', '169.254.169.254', '127.8.8.8', '[::ffff:10.1.2.3]', '5.3.3.3'];
      // The old spellings of addresses are names to a proxy that reads them as `inet_aton` does.
      const names = ['2130706433', '0x7f000001', '127.1', 'localhost.', 'x.localhost'];
      for (const host of [...addresses, ...names]) {
        const { stdout } = await world().exec(`${upstream}-open`, `${curl} http://${host}/leak`);
        assert.ok(!stdout.includes(canary), stdout);
      }
    }
  });
  assert.equal(log, '');
});

test('a sandbox without a proxy goes out directly', { skip: needsRoot }, async () => {
  const log = await logged(async () => {
    assert.match(
      await world().output('direct', `${curl} https://www.allowed.test/hello`),
      new RegExp(canary),
    );
  });
  assert.equal(log, '');
});

test('a name that leads to a private address is refused where its addresses are looked up here', {
  skip: needsRoot,
}, async () => {
  const log = await logged(async () => {
    const answer = await world().output('near', `${curl} http://private10.allowed.test/leak`);
    assert.match(answer, /private_address/);
  });
  assert.equal(log, '');
});

test('a name that is not public is refused to a proxy that looks names up, and a policy test says so', {
  skip: needsRoot,
}, async () => {
  const path = '/v1/sandboxes/far-open/policy/test';
  const { json } = await world().daemon.request('POST', path, { to: 'nas.local:80' });
  const { allowed, steps } = json as {
    readonly allowed: boolean;
    readonly steps: readonly { readonly rule: string }[];
  };
  assert.deepEqual([allowed, steps.at(-1)?.rule], [false, 'private_name']);
  const log = await logged(async () => {
    const { stdout } = await world().exec(
      'far-open',
      `${curl} http://nas.local/leak; ${curl} http://router/leak`,
    );
    assert.ok(!stdout.includes(canary), stdout);
  });
  assert.equal(log, '');
});

test('no name is asked for where the proxy looks names up', { skip: needsRoot }, async () => {
  const mark = await world().mark();
  assert.match(await world().output('far', 'getent ahosts not-there.allowed.test'), /198\.1[89]\./);
  const asked = (await world().since(mark)).filter((event) => event.kind === 'query');
  assert.deepEqual(asked, []);
});

async function rulesOf(sandbox: string): Promise<readonly string[]> {
  const path = `/v1/sandboxes/${sandbox}/egress?kind=connection`;
  const requests = `/v1/sandboxes/${sandbox}/egress?kind=request`;
  const all = await Promise.all([path, requests].map((each) => world().daemon.call('GET', each)));
  return all
    .flatMap((each) => (each as { readonly decisions: readonly EgressDecision[] }).decisions)
    .map(({ rule }) => rule);
}

for (const [upstream, why] of [
  ['bare', '407'],
  ['wrong', '401'],
  ['stranger', 'socks_login'],
  ['nobody', 'ECONNREFUSED'],
] as const) {
  test(`a connection that the proxy "${upstream}" does not make is recorded with its name and ${why}`, {
    skip: needsRoot,
  }, async () => {
    const read = await world().output(upstream, `${curl} https://secret.allowed.test/hello`);
    assert.match(read, new RegExp(`via ${upstream}: ${why}`));
    const tunnelled = await world().exec(upstream, `${curl} https://www.allowed.test/hello`);
    assert.notEqual(tunnelled.exit_code, 0);
    await waitFor('both to be recorded', async () => {
      const rules = await rulesOf(upstream);
      return rules.filter((rule) => rule.endsWith(`(via ${upstream}: ${why})`)).length >= 2;
    });
  });
}

test('a server that refuses behind a proxy is recorded with what the proxy says', {
  skip: needsRoot,
}, async () => {
  for (const [upstream, why] of [
    ['corp', /via corp: 50\d/],
    ['far', /via far: socks_5/],
  ] as const) {
    const { exit_code: code } = await world().exec(
      upstream,
      'python3 /opt/tools/attack.py tcp www.allowed.test 4444 ""',
    );
    assert.notEqual(code, 124);
    await waitFor('it to be recorded', async () => (await rulesOf(upstream)).some((rule) => why.test(rule)));
  }
});

test('a proxy is named by the API and its URL by nothing', { skip: needsRoot }, async () => {
  const { daemon } = world();
  const shown = (await daemon.call('GET', '/v1/sandboxes/corp/policy')) as { readonly upstream: unknown };
  assert.equal(shown.upstream, 'corp');
  const { status, json } = await daemon.request('POST', '/cgi-bin/api/sandboxes', {
    id: 'x',
    upstream: 'other',
  });
  assert.equal(status, 400);
  const paths = [
    '/cgi-bin/api/sandboxes/corp',
    '/v1/sandboxes/corp/policy',
    '/v1/info',
    '/v1/sandboxes/wrong/egress',
  ];
  const answers = await Promise.all(paths.map((path) => daemon.request('GET', path)));
  const log = await readFile(join(daemon.dataDir, 'log/egress.log'), 'utf8');
  const inside = await world().output('corp', `env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'`);
  const all = [JSON.stringify([json, ...answers]), log, inside, daemon.output].join('\n');
  assert.ok(!all.includes(login.password));
});

test('a sandbox whose proxy is gone reaches nothing, a default one is everybody’s, and open connections end', {
  skip: needsRoot,
}, async () => {
  const { daemon } = world();
  await daemon.kill();
  const { corp: _, ...rest } = upstreams;
  const path = join(daemon.dataDir, 'egress-upstreams.json');
  await writeFile(path, JSON.stringify({ ...rest, default: upstreams.far }));
  await daemon.start();
  const log = await logged(async () => {
    await waitFor('the new rules', async () => {
      const { stdout } = await world().exec('corp', `${curl} http://www.allowed.test/hello`);
      return /no_policy/.test(stdout);
    });
    assert.match(
      await world().output('direct', `${curl} https://www.allowed.test/hello`),
      new RegExp(canary),
    );
  });
  assert.match(log, /www\.allowed\.test:443/);
  assert.doesNotMatch(log, /:80/);
});
