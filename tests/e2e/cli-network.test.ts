/** `squash policy`, `squash egress` and `squash secret` against a real daemon, their `--json` held to the contract. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  egressDecisionInfoSchema,
  policyLearnAnswerSchema,
  policyTestAnswerSchema,
  presetInfoSchema,
  sandboxPolicySchema,
} from '@squash/contract/egress';
import { secretInfoSchema, secretsFileSchema } from '@squash/contract/secrets';
import { endOf, squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

describe('squash', () => {
  let daemon: TestDaemon;
  let directory: string;
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'squash-cli-'));
    daemon = await TestDaemon.start();
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true });
  });

  const json = async (...words: string[]): Promise<unknown> =>
    JSON.parse(await squashOk(daemon, ['--json', ...words]));
  const file = (name: string, value: unknown): string => {
    const path = join(directory, name);
    writeFileSync(path, JSON.stringify(value));
    return path;
  };

  it('create takes destinations, a policy from a file, and secrets', async () => {
    await squashOk(daemon, [
      'create',
      'box',
      '--allow-net',
      'preset:pypi,API.example:443',
      '--allow-net',
      '*.b.example',
    ]);
    const shown = sandboxPolicySchema.parse(await json('policy', 'show', 'box'));
    assert.deepEqual(shown.policy.allow, ['preset:pypi', 'api.example:443', '*.b.example']);
    const path = file('policy.json', { allow: ['x.example'], deny: ['y.x.example'], dns: 'nxdomain' });
    await squashOk(daemon, ['create', 'filed', '--policy', path, '--secret', 'none']);
    assert.equal(
      await squashOk(daemon, ['policy', 'show', 'filed']),
      'allow[0] x.example\ndeny[0] y.x.example\ndns nxdomain\nsecrets: none',
    );
    await squashOk(daemon, ['rm', 'filed']);
    const refused = await squash(daemon, ['create', 'bad', '--allow-net', '0x7f.1']);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /allow_net\[0\] "0x7f\.1"/);
  });

  it('create and run take a policy file of boxes, and refuse by name what it opens of this machine', async () => {
    const said = `version = 1
extends = ["builtin:node"]
[fs]
"~/.ssh" = "hidden"
[net]
allow = ["api.example:443"]
deny = ["*.inner.example"]
[env]
set = { GIVEN = "by the file" }
[secrets.A_KEY]
from = "env:A_KEY"
hosts = ["api.example"]
[limits]
memory_mb = 256
processes = 40
`;
    const path = file('box.toml', '');
    writeFileSync(path, said);
    const env = { A_KEY: 'a-key-of-mine' };
    const words = ['create', '--policy', path, '--memory', '512', '--name', 'by-file'];
    const made = await squash(daemon, words, { env });
    assert.equal(made.code, 0, made.stderr);
    const { policy } = sandboxPolicySchema.parse(await json('policy', 'show', made.stdout.toString().trim()));
    assert.deepEqual(policy.allow, ['preset:npm', 'api.example:443']);
    assert.deepEqual(policy.deny, ['*.inner.example']);
    const script = 'i=0; while [ $i -lt 80 ]; do sleep 5 & i=$((i + 1)); done; echo all';
    const run = ['run', '--policy', path, '--env', 'MORE=x', '--'];
    const seen = await squash(daemon, [...run, 'sh', '-c', 'echo "$GIVEN $MORE ${#A_KEY} $A_KEY"'], { env });
    assert.match(seen.stdout.toString(), /^by the file x [1-9]\d* /, seen.stderr);
    assert.doesNotMatch(seen.stdout.toString(), /a-key-of-mine/);
    assert.equal((await squash(daemon, [...run, 'sh', '-c', script], { env })).stdout.toString(), '');
    writeFileSync(path, `${said}time_s = 5\n[ports]\nhost = [5432]\n[devices]\nallow = ["gpu"]\n`);
    const refused = await squash(daemon, words, { env });
    assert.equal(refused.code, 126);
    for (const name of ['limits.time_s', 'ports.host', 'devices.allow'])
      assert.match(refused.stderr, new RegExp(`box\\.toml:\\d+: ${name.replace('.', '\\.')}: `));
    for (const [root, name] of [
      ['{ layers = ["123-none"] }', '123-none'],
      ['{ image = "registry.invalid/none:1" }', 'registry.invalid'],
    ] as const) {
      writeFileSync(path, `version = 1\nroot = ${root}\n`);
      for (const command of [words, ['run', '--policy', path, '--', 'true']]) {
        const none = await squash(daemon, command, { env });
        assert.notEqual(none.code, 0);
        assert.ok(none.stderr.includes(name), none.stderr);
      }
    }
    writeFileSync(path, `version = 1\nroot = { layers = ["000-base-test"] }\n`);
    assert.equal(
      await squashOk(daemon, ['run', '--policy', path, '--', 'echo', 'of the layer']),
      'of the layer',
    );
    writeFileSync(path, 'version = 1\nroot = "host"\n');
    assert.match((await squash(daemon, words, { env })).stderr, /root: of a box: squash box run/);
    writeFileSync(path, 'version = 1\n[fs]\n"/srv" = "ro"\n');
    assert.match(
      (await squash(daemon, words, { env })).stderr,
      /Cannot attach "\/srv" of the host: .*\(not_allowed\)/,
    );
    assert.equal((await squash(daemon, [...words.slice(0, 3), 'an-id'], { env })).code, 2);
    assert.match(
      (await squash(daemon, ['mcp', '--policy', path])).stderr,
      /is for squash create, run and fork/,
    );
  });

  it('policy set takes words or a file, and nothing by accident', async () => {
    assert.match(
      await squashOk(daemon, ['policy', 'set', 'box', 'a.example', '--deny', 'b.a.example']),
      /^allow\[0\] a\.example\ndeny\[0\] b\.a\.example\n/,
    );
    const path = file('set.json', { allow: [{ to: 'api.example', methods: ['get'], paths: ['/v1'] }] });
    assert.match(
      await squashOk(daemon, ['policy', 'set', 'box', '--file', path]),
      /^allow\[0\] api\.example methods GET paths \/v1\n/,
    );
    assert.equal((await squash(daemon, ['policy', 'set', 'box'])).code, 2);
    assert.equal((await squash(daemon, ['policy', 'set', 'box', 'a', '--file', path])).code, 2);
    assert.equal((await squash(daemon, ['policy', 'set', 'nobody', 'a'])).code, 1);
  });

  it('policy test says which rule, and its exit code whether', async () => {
    await squashOk(daemon, ['policy', 'set', 'box', 'a.example:443']);
    assert.match(
      await squashOk(daemon, ['policy', 'test', 'box', 'https://a.example/']),
      /connection: +allowed +allow\[0\] a\.example:443/,
    );
    const refused = await squash(daemon, ['--json', 'policy', 'test', 'box', 'a.example:80']);
    assert.equal(refused.code, 1);
    assert.equal(
      policyTestAnswerSchema.parse(JSON.parse(refused.stdout.toString())).steps.at(-1)?.rule,
      'not_allowed',
    );
    const path = file('try.json', { allow: ['*'] });
    assert.equal((await squash(daemon, ['policy', 'test', 'box', 'a.example:80', '--policy', path])).code, 0);
  });

  it('policy allow and deny add and remove single entries', async () => {
    const rules = { to: ['api.example'], methods: ['GET'] };
    await squashOk(daemon, ['policy', 'set', 'box', '--file', file('entries.json', { allow: [rules] })]);
    const policy = async (...words: string[]): Promise<unknown> =>
      sandboxPolicySchema.parse(await json('policy', ...words)).policy;
    assert.deepEqual(await policy('allow', 'box', 'A.Example:443', 'preset:npm', 'a.example:443'), {
      allow: [rules, 'a.example:443', 'preset:npm'],
      deny: [],
      dns: 'refuse',
    });
    assert.match(await squashOk(daemon, ['policy', 'deny', 'box', 'b.example']), /deny\[0\] b\.example/);
    await squashOk(daemon, ['policy', 'deny', 'box', '--remove', 'B.example.']);
    await squashOk(daemon, ['policy', 'allow', 'box', '--remove', 'preset:npm']);
    const unknown = await squash(daemon, ['policy', 'allow', 'box', '--remove', 'api.example']);
    assert.deepEqual([unknown.code, /no entry "api\.example"/.test(unknown.stderr)], [1, true]);
    assert.equal((await squash(daemon, ['policy', 'allow', 'box', 'none'])).code, 2);
    for (const [word, hint] of [
      ['npm', /write "preset:npm"/],
      ['localhost:80', /host\.squash\.internal/],
    ] as const) {
      const refused = await squash(daemon, ['policy', 'allow', 'box', word]);
      assert.deepEqual([refused.code, hint.test(refused.stderr)], [1, true], refused.stderr);
    }
    assert.match(await squashOk(daemon, ['policy', 'ask', 'box', 'c.example']), /ask\[0\] c\.example/);
    await squashOk(daemon, ['policy', 'ask', 'box', '--remove', 'C.example']);
    const asked = await policy('set', 'box', 'none', '--ask', 'c.example');
    assert.deepEqual(asked, { allow: ['none'], deny: [], ask: ['c.example'], dns: 'refuse' });
    await squashOk(daemon, ['policy', 'set', 'box', '*']);
    const unheard = await squash(daemon, ['policy', 'allow', 'box', 'preset:nope']);
    assert.deepEqual([unheard.code, /stays allowed/.test(unheard.stderr)], [1, false], unheard.stderr);
    const wider = await squash(daemon, ['policy', 'allow', 'box', 'b.example']);
    assert.deepEqual([wider.code, /stays allowed/.test(wider.stderr)], [0, true], wider.stderr);
    await squashOk(daemon, ['policy', 'set', 'box', 'a.example']);
    const none = { allow: ['none'], deny: [], dns: 'refuse' };
    assert.deepEqual(await policy('allow', 'box', '--remove', 'a.example'), none);
    assert.deepEqual(await policy('allow', 'box', 'a.example'), { ...none, allow: ['a.example'] });
  });

  it('policy presets lists them, or one’s hosts', async () => {
    assert.ok(presetInfoSchema.array().parse(await json('policy', 'presets')).length >= 8);
    assert.equal(
      await squashOk(daemon, ['policy', 'presets', 'pypi']),
      'pypi.org:443\nfiles.pythonhosted.org:443',
    );
    assert.equal((await squash(daemon, ['policy', 'presets', 'nope'])).code, 1);
  });

  it('egress shows decisions and follows them, and policy learn proposes from them', async () => {
    await squash(daemon, ['exec', 'box', '--', 'nslookup', 'asked.example', '198.18.0.1']);
    await waitFor('the decision', async () =>
      /denied +asked\.example/.test(await squashOk(daemon, ['egress', 'box', '--denied'])),
    );
    const { decisions } = (await json('egress', 'box')) as { decisions: unknown };
    assert.ok(egressDecisionInfoSchema.array().parse(decisions).length > 0);
    const learnt = policyLearnAnswerSchema.parse(await json('policy', 'learn', 'box'));
    assert.ok(learnt.policy.allow.includes('asked.example'));
    const follower = startCli(daemon, ['egress', 'box', '--follow', '--kind', 'dns'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [first] = (await once(follower.stdout ?? follower, 'data')) as [Buffer];
    assert.match(first.toString('utf8'), /dns +denied +asked\.example +not_allowed/);
    follower.kill();
    await endOf(follower);
  });

  it('a secret’s value goes in by standard input and never comes out', async () => {
    const value = 'sk-ant-api03-real-0123456789';
    const words = ['secret', 'set', 'MY_KEY', '--host', 'api.example,*.b.example'];
    const placeholder = await squashOk(daemon, words, { input: `${value}\n` });
    assert.match(placeholder, /^sk-ant-api03-/);
    const [info] = secretInfoSchema.array().parse(await json('secret', 'ls'));
    assert.deepEqual([info?.name, info?.allowed_hosts], ['MY_KEY', ['api.example', '*.b.example']]);
    await squashOk(daemon, ['secret', 'set', 'MY_KEY', '--keep-value', '--surface', 'query,headers']);
    assert.match(
      await squashOk(daemon, ['secret', 'ls']),
      /MY_KEY +api\.example,\*\.b\.example +headers,query/,
    );
    assert.equal(await squashOk(daemon, ['exec', 'box', '--', 'sh', '-c', 'echo $MY_KEY']), placeholder);
    assert.equal((await squash(daemon, [...words, value])).code, 2);
    assert.equal((await squash(daemon, words, { input: '\n' })).code, 2);
    const completed = await squashOk(daemon, ['__complete', '--', 'secret', 'rm', '']);
    assert.match(completed, /^MY_KEY\t/);
    await squashOk(daemon, ['secret', 'rm', 'MY_KEY']);
    assert.deepEqual(await json('secret', 'ls'), []);
    assert.ok(!daemon.output.includes(value));
  });

  it('a login of Claude Code or Codex becomes a secret that is refreshed, and nothing of it is printed', async () => {
    const claims = Buffer.from(JSON.stringify({ exp: 1_900_000_000 })).toString('base64url');
    const jwt = `tokenhead.${claims}.tokenmark`;
    const logins = {
      claude: {
        claudeAiOauth: {
          accessToken: 'sk-ant-oat01-tokenmark',
          refreshToken: 'sk-ant-ort01-tokenmark',
          expiresAt: 1_900_000_000_000,
          scopes: ['user:inference'],
        },
      },
      codex: { tokens: { access_token: jwt, refresh_token: 'rt-tokenmark', id_token: 'x', account_id: 'y' } },
    };
    const said: string[] = [];
    for (const [program, login] of Object.entries(logins)) {
      const { code, stdout, stderr } = await squash(daemon, ['secret', 'import', program, '-'], {
        input: JSON.stringify(login),
      });
      assert.equal(code, 0, String(stderr));
      said.push(String(stdout), String(stderr));
    }
    const key = JSON.stringify({ OPENAI_API_KEY: 'sk-tokenmark-0123', tokens: null });
    await squashOk(daemon, ['secret', 'import', 'codex', '-', '--name', 'KEY_OF_CODEX'], { input: key });
    const listed = secretInfoSchema.array().parse(await json('secret', 'ls'));
    assert.deepEqual(
      listed.map(({ name, allowed_hosts: hosts, token_url: url }) => [name, hosts.join(), url]),
      [
        ['CLAUDE_CODE_OAUTH_TOKEN', 'api.anthropic.com', 'https://platform.claude.com/v1/oauth/token'],
        ['CODEX_ACCESS_TOKEN', 'chatgpt.com', 'https://auth.openai.com/oauth/token'],
        ['KEY_OF_CODEX', 'api.openai.com', undefined],
      ],
    );
    assert.match(said[0] ?? '', /^CLAUDE_CODE_OAUTH_TOKEN sk-ant-oat01-/);
    const { secrets } = secretsFileSchema.parse(
      JSON.parse(readFileSync(join(daemon.dataDir, 'secrets.json'), 'utf8')),
    );
    for (const name of ['CLAUDE_CODE_OAUTH_TOKEN', 'CODEX_ACCESS_TOKEN']) {
      assert.equal(Date.parse(secrets[name]?.oauth?.expires_at ?? ''), 1_900_000_000_000);
    }
    for (const input of ['{"tokenmark', '{"claudeAiOauth":{"accessToken":"tokenmark"}}']) {
      const refused = await squash(daemon, ['secret', 'import', 'claude', '-'], { input });
      assert.equal(refused.code, 2);
      said.push(String(refused.stderr));
    }
    assert.ok(![...said, daemon.output].join().includes('tokenmark'), said.join());
    await squashOk(daemon, ['secret', 'rm', ...listed.map(({ name }) => name)]);
  });
});
