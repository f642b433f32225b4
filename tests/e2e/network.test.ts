/**
 * The network of real sandboxes under a real daemon: what the policy says is what a program gets, over changes of the
 * policy and deaths of the daemon and of the egress process. Servers are on loopback, named in a hosts file of the test.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { squash } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const nameScript = `ip() { nslookup "$1" 198.18.0.1 2>/dev/null | awk '/^Name/ { found = 1 } found && /^Address/ { print $2; exit }'; }`;

describe('a sandbox’s network', () => {
  let daemon: TestDaemon;
  let server: Server;
  let port: number;
  let directory: string;
  const hits: string[] = [];

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'squash-hosts-'));
    // The daemon has an id of its own.
    await chmod(directory, 0o755);
    const hosts = join(directory, 'hosts');
    await writeFile(hosts, '127.0.0.1 good.example other.example\n10.1.2.3 private.example\n');
    // A protocol of its own: what is readable goes another way.
    server = createServer((socket) => {
      socket.setEncoding('utf8').on('error', () => undefined);
      socket.once('data', (word: string) => {
        hits.push(word.trim());
        socket.end('hello from outside\n');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
    daemon = await TestDaemon.start({
      env: {
        SQUASH_EGRESS_HOSTS: hosts,
        SQUASH_EGRESS_RESOLVERS: '127.0.0.1:9',
        SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.0/8',
      },
    });
    await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'box', allow_net: ['Good.Example'] });
  });

  after(async () => {
    await daemon[Symbol.asyncDispose]();
    server.close();
    await rm(directory, { recursive: true });
  });

  const sh = async (cmd: string, id = 'box'): Promise<string> =>
    (
      await daemon.call('POST', `/cgi-bin/api/sandboxes/${id}/exec`, {
        cmd: `${nameScript}\n${cmd}`,
        timeout: 20,
      })
    ).stdout;
  const get = (host: string, id = 'box'): Promise<string> =>
    sh(`echo "word to ${host}" | nc -w 5 "$(ip ${host})" ${port} 2>&1`, id);
  const decisions = async (query = '', id = 'box') =>
    (await daemon.call('GET', `/v1/sandboxes/${id}/egress?limit=1000${query}`)).decisions as {
      id: number;
      kind: string;
      host: string | null;
      verdict: string;
      rule: string;
    }[];
  const isReached = async (host: string, id = 'box'): Promise<boolean> =>
    (await get(host, id)).includes('hello from outside');
  const egressPid = (): number | undefined =>
    processesOf(daemon.dataDir).find((entry) => entry.command.includes('egress/src/main.ts'))?.pid;

  it('reaches what allow_net names and nothing else, and says why', async () => {
    assert.match(await get('good.example'), /hello from outside/);
    assert.doesNotMatch(await get('other.example'), /hello/);
    assert.doesNotMatch(
      await sh(`nc -w 5 127.0.0.1 ${port} </dev/null 2>&1; nc -w 5 8.8.8.8 80 </dev/null 2>&1`),
      /hello/,
    );
    // A connection is recorded when it ends, so a refusal may stand there before what was let through.
    const seen = await waitFor('the decisions to be recorded', async () => {
      const rows = await decisions('&kind=connection');
      return ['good.example', 'other.example'].every((host) => rows.some((row) => row.host === host))
        ? rows
        : undefined;
    });
    assert.equal(seen.find((row) => row.host === 'good.example')?.rule, 'allow[0] good.example');
    assert.equal(seen.find((row) => row.host === 'other.example')?.verdict, 'denied');
    assert.ok(
      hits.every((hit) => hit === 'word to good.example'),
      hits.join(),
    );
  });

  it('reaches a service of the host by its word, the daemon by none', async () => {
    const words = [`host.squash.internal:${port}`, `host.squash.internal:${daemon.port}`];
    await daemon.call('POST', '/cgi-bin/api/sandboxes', {
      id: 'serving',
      allow_net: ['other.example', ...words],
    });
    assert.match(await get('host.squash.internal', 'serving'), /hello from outside/);
    const ask = (host: string): Promise<string> =>
      sh(
        `printf 'GET /cgi-bin/health HTTP/1.0\\r\\n\\r\\n' | nc -w 5 "$(ip ${host})" ${daemon.port} 2>&1`,
        'serving',
      );
    for (const host of ['host.squash.internal', 'other.example']) {
      assert.match(await ask(host), /403 [^]*daemon_address/, host);
    }
    hits.length = 0;
  });

  it('shows the policy in its canonical form, in info and in /v1', async () => {
    const info = await daemon.call('GET', '/cgi-bin/api/sandboxes/box');
    assert.deepEqual(info.allow_net, ['good.example']);
    assert.deepEqual(
      info.warnings.filter(({ code }: { code: string }) => code === 'network'),
      [],
    );
    const shown = await daemon.call('GET', '/v1/sandboxes/box/policy');
    assert.deepEqual(shown, {
      policy: { allow: ['good.example'], deny: [], dns: 'refuse' },
      ceiling: null,
      secrets: 'all',
      own_secrets: [],
      own_secret_hosts: {},
      upstream: null,
      in_force: true,
      pending: null,
    });
  });

  it('shows its own secrets to a command that came before it was ready', async () => {
    const path = '/cgi-bin/api/sandboxes/early';
    const own = { TOKEN: { value: 'real-value-0123', allowed_hosts: ['good.example'] } };
    const made = daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'early', own_secrets: own });
    const early = async () => {
      for (;;) {
        const said = await daemon.request('POST', `${path}/exec`, { cmd: 'echo "<$TOKEN>"' });
        if (said.status !== 404) return said.json.stdout as string;
      }
    };
    const [said] = await Promise.all([Promise.all([early(), early(), early()]), made]);
    for (const each of said) assert.match(each, /^<squash-.+>\n$/);
    await daemon.call('DELETE', path);
  });

  it('refuses a policy that is malformed, names the entry, and changes nothing', async () => {
    const bad = await daemon.request('POST', '/cgi-bin/api/sandboxes', {
      id: 'bad',
      allow_net: ['a.example', '127.1'],
    });
    assert.equal(bad.status, 400);
    assert.match(bad.json.error, /allow_net\[1\] "127\.1"/);
    assert.equal((await daemon.request('GET', '/cgi-bin/api/sandboxes/bad')).status, 404);
    const both = { id: 'bad', allow_net: [], policy: {} };
    assert.match((await daemon.request('POST', '/cgi-bin/api/sandboxes', both)).json.error, /one of them/);
    const set = await daemon.request('PUT', '/v1/sandboxes/box/policy', { allow: ['none', 'a.example'] });
    assert.equal(set.status, 400);
    assert.match(set.json.detail, /stands alone/);
    assert.equal((await daemon.call('GET', '/v1/sandboxes/box/policy')).policy.allow[0], 'good.example');
  });

  it('follows a change of its policy while it runs', async () => {
    await daemon.call('PUT', '/v1/sandboxes/box/policy', { allow: ['other.example'] });
    assert.equal(await isReached('other.example'), true);
    assert.equal(await isReached('good.example'), false);
    assert.deepEqual((await daemon.call('GET', '/cgi-bin/api/sandboxes/box')).allow_net, ['other.example']);
    await daemon.call('PUT', '/v1/sandboxes/box/policy', { allow: ['*'], deny: ['other.example'] });
    assert.equal(await isReached('good.example'), true);
    assert.equal(await isReached('other.example'), false);
    await daemon.call('PUT', '/v1/sandboxes/box/policy', { allow: ['good.example'] });
  });

  it('ends connections that a change no longer allows, and only those', async () => {
    const held = createServer(
      (socket) =>
        void socket
          .on('error', () => undefined)
          .resume()
          .write('open\n'),
    );
    held.listen(0, '127.0.0.1');
    await once(held, 'listening');
    const heldPort = (held.address() as AddressInfo).port;
    await daemon.call('PUT', '/v1/sandboxes/box/policy', { allow: ['good.example', 'other.example'] });
    const job = (host: string) =>
      daemon.call('POST', '/cgi-bin/api/sandboxes/box/exec-bg', {
        cmd: `${nameScript}\nsleep 60 | nc "$(ip ${host})" ${heldPort}; echo over`,
      });
    const ending = await job('other.example');
    const staying = await job('good.example');
    const statusOf = async (id: number): Promise<string> =>
      (await daemon.call('GET', `/cgi-bin/api/sandboxes/box/jobs/${id}`)).status;
    const openIs = (wanted: number): Promise<boolean> =>
      new Promise((resolve) => held.getConnections((_error, count) => resolve(count === wanted)));
    await waitFor('both to be open', () => openIs(2));
    await daemon.call('PUT', '/v1/sandboxes/box/policy', { allow: ['good.example'] });
    await waitFor('one to be ended', () => openIs(1));
    assert.equal(await statusOf(staying.job_id), 'running');
    for (const each of [ending, staying])
      await daemon.call('DELETE', `/cgi-bin/api/sandboxes/box/jobs/${each.job_id}`);
    held.close();
  });

  it('explains itself and learns', async () => {
    const test = await daemon.call('POST', '/v1/sandboxes/box/policy/test', {
      to: `http://other.example:${port}/`,
    });
    assert.deepEqual([test.allowed, test.steps[0].rule], [false, 'not_allowed']);
    const ask = (host: string) =>
      daemon.call('POST', '/v1/sandboxes/box/policy/test', { to: `${host}:80`, policy: { allow: [host] } });
    assert.deepEqual((await ask('good.example')).steps.at(-1), {
      step: 'address',
      allowed: true,
      rule: 'SQUASH_EGRESS_ALLOW_CIDRS',
      address: '127.0.0.1',
    });
    const led = await ask('private.example');
    assert.deepEqual(
      [led.allowed, led.not_resolved, led.steps.at(-1).rule],
      [false, null, 'private_address'],
    );
    assert.match(
      led.steps.at(-1).remedy,
      /has to name 10\.1\.2\.3, or a range around it inside 10\.0\.0\.0\/8/,
    );
    assert.match((await ask('nowhere.invalid')).not_resolved, /no address \(ENOTFOUND\)/);
    const learnt = await daemon.call('GET', '/v1/sandboxes/box/policy/learn');
    assert.ok(learnt.policy.allow.includes(`good.example:${port}`), JSON.stringify(learnt));
    assert.ok(learnt.policy.allow.includes(`other.example:${port}`));
    const presets = await daemon.call('GET', '/v1/policy/presets');
    assert.ok(presets.some((preset: { name: string }) => preset.name === 'debian'));
  });

  it('keeps its rules over snapshot, restore and activate, and none of the trust layer is in a snapshot', async () => {
    await sh('echo kept > /root/file');
    await daemon.call('POST', '/cgi-bin/api/sandboxes/box/snapshot', { label: 'one' });
    const image = join(daemon.dataDir, 'sandboxes/box/snapshots/one.squashfs');
    const { stdout: files } = await promisify(execFile)('unsquashfs', ['-l', image]);
    assert.match(files, /root\/file/);
    assert.doesNotMatch(files, /ca-certificates|cacerts/);
    await daemon.call('POST', '/cgi-bin/api/sandboxes/box/restore', { label: 'one' });
    assert.match(
      await sh('cat /root/file; tail -n 1 /usr/local/share/ca-certificates/squash.crt'),
      /kept\n-----END CERTIFICATE-----/,
    );
    assert.equal(await isReached('good.example'), true);
    assert.equal(await isReached('other.example'), false);
  });

  it('gives commands placeholders and the authority, and never a value', async () => {
    const value = 'sk-real-value-0123456789';
    const made = await daemon.call('PUT', '/v1/secrets/API_KEY', {
      value,
      allowed_hosts: ['API.good.example:443'],
    });
    assert.deepEqual(made.allowed_hosts, ['api.good.example:443']);
    assert.equal(await sh('echo $API_KEY'), `${made.placeholder}\n`);
    assert.match(
      await sh('echo $SSL_CERT_FILE; ls -l $SSL_CERT_FILE $NODE_EXTRA_CA_CERTS'),
      /^\/etc\/ssl\/certs\/ca-certificates\.crt\n-rw-r--r--/,
    );
    const everything = [await daemon.request('GET', '/v1/secrets'), await daemon.request('GET', '/v1/info')];
    assert.ok(everything.every(({ text }) => !text.includes(value)));
    assert.ok(!(await sh('env; cat /proc/1/environ')).includes(value));
    const path = join(daemon.dataDir, 'secrets.json');
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.equal(JSON.parse(await readFile(path, 'utf8')).secrets.API_KEY.value, value);
    await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'poor', secrets: [] });
    assert.equal(await sh('echo "[$API_KEY]"', 'poor'), '[]\n');
    await daemon.call('DELETE', '/cgi-bin/api/sandboxes/poor');
    await daemon.call('DELETE', '/v1/secrets/API_KEY');
    assert.equal(await sh('echo "[$API_KEY]"'), '[]\n');
    assert.equal((await daemon.request('DELETE', '/v1/secrets/API_KEY')).status, 404);
    assert.ok(!daemon.output.includes(value));
  });

  it('streams decisions, and resumes behind the one it is told', async () => {
    const last = (await decisions()).at(-1)?.id ?? 0;
    await isReached('other.example');
    const stop = new AbortController();
    const url = `${daemon.url}/v1/sandboxes/box/egress?follow=true&verdict=denied`;
    const response = await fetch(url, { headers: { 'last-event-id': `${last}` }, signal: stop.signal });
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    let text = '';
    for await (const piece of response.body ?? []) {
      text += Buffer.from(piece).toString('utf8');
      if (text.includes('\n\n')) break;
    }
    stop.abort();
    assert.match(text, /^id: \d+\nevent: decision\ndata: \{/);
    assert.ok(Number(/id: (\d+)/.exec(text)?.[1]) > last);
  });

  it('goes on without a daemon, and the next one adopts the same process', async () => {
    const pid = egressPid();
    assert.ok(pid !== undefined);
    const job = await daemon.call('POST', '/cgi-bin/api/sandboxes/box/exec-bg', {
      cmd: `${nameScript}\nsleep 3; echo orphan | nc -w 5 "$(ip good.example)" ${port}`,
    });
    await daemon.kill();
    await waitFor('the sandbox to reach the server without a daemon', () => hits.includes('orphan'));
    await daemon.start();
    await waitFor(
      'the job to be over',
      async () =>
        (await daemon.call('GET', `/cgi-bin/api/sandboxes/box/jobs/${job.job_id}`)).status === 'done',
    );
    await waitFor(
      'the rules to be in force',
      async () => (await daemon.call('GET', '/v1/sandboxes/box/policy')).in_force,
    );
    assert.equal(egressPid(), pid);
    assert.equal(await isReached('good.example'), true);
    assert.equal(await isReached('other.example'), false);
  });

  it('is closed while the egress process is dead, and has its policy when it is back', async () => {
    const pid = egressPid();
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGKILL');
    await waitFor('another process', () => {
      const now = egressPid();
      return now !== undefined && now !== pid;
    });
    await waitFor(
      'the rules to be in force',
      async () => (await daemon.call('GET', '/v1/sandboxes/box/policy')).in_force,
    );
    await waitFor('the network to be back', () => isReached('good.example'));
    assert.equal(await isReached('other.example'), false);
  });

  it('is held for a sandbox that is made while the egress process starts', async () => {
    const pid = egressPid();
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGKILL');
    const starting = await waitFor('another process', () => {
      const now = egressPid();
      return now === pid ? undefined : now;
    });
    process.kill(starting, 'SIGSTOP');
    let answers: Promise<string>[];
    try {
      await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'early', allow_net: ['good.example'] });
      assert.doesNotMatch(daemon.output, /egress\.late/, 'nobody waited for it');
      const asked = sh('echo asks', 'early');
      answers = [get('good.example', 'early'), get('other.example', 'early')];
      assert.equal(await asked, 'asks\n');
    } finally {
      process.kill(starting, 'SIGCONT');
    }
    const [good = '', other = ''] = await Promise.all(answers);
    assert.match(good, /hello from outside/);
    assert.doesNotMatch(other, /hello/);
    await daemon.call('DELETE', '/cgi-bin/api/sandboxes/early');
  });

  it('is said to be stopped while the egress process stands still, and has the policy set meanwhile when it goes on', async () => {
    const pid = egressPid();
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGSTOP');
    try {
      await waitFor('it to be said', async () => {
        const { problems = [] } = await daemon.call('GET', '/cgi-bin/health');
        return problems.some(({ code }: { readonly code: string }) => code === 'egress_unavailable');
      });
      // It is ended when it has said nothing for too long.
      const [metrics, doctor] = await Promise.all([
        daemon.request('GET', '/metrics'),
        squash(daemon, ['doctor']),
      ]);
      assert.match(metrics.text, /^squash_problem\{code="egress_unavailable"\} 1$/m);
      assert.equal(doctor.code, 1);
      assert.match(doctor.stdout.toString(), /^egress_unavailable: /m);
      const set = await squash(daemon, ['policy', 'set', 'box', 'other.example']);
      assert.equal(set.code, 1);
      assert.match(set.stderr, /does not hold yet/);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await waitFor(
      'the rules to be in force',
      async () => (await daemon.call('GET', '/v1/sandboxes/box/policy')).in_force,
    );
    assert.equal((await daemon.call('GET', '/cgi-bin/health')).problems, undefined);
    assert.equal(await isReached('other.example'), true);
    assert.equal(await isReached('good.example'), false);
  });

  it('refuses private addresses behind an allowed name', async () => {
    await daemon.call('PUT', '/v1/sandboxes/box/policy', { allow: ['private.example'] });
    await sh(`nc -w 5 "$(ip private.example)" ${port} </dev/null`);
    await waitFor('the refusal to be recorded', async () =>
      (await decisions('&host=private.example')).some((row) => row.rule === 'private_address'),
    );
  });
});

describe('a daemon with a ceiling', () => {
  it('lets no sandbox exceed it, and refuses to start where it can not be read', async () => {
    await using daemon = await TestDaemon.start();
    await daemon.stop();
    const path = join(daemon.dataDir, 'egress-ceiling.json');
    const { uid, gid } = await stat(join(daemon.dataDir, 'squash.db'));
    const write = async (text: string): Promise<void> => {
      await writeFile(path, text, { mode: 0o600 });
      await chown(path, uid, gid);
    };
    await write('{"allow":["b c"]}');
    await daemon.launch();
    await daemon.ended();
    assert.match(daemon.output, /egress-ceiling\.json.*allow\[0\]/);
    await write('{"allow":["*.example", "preset:corp"]}');
    const presets = join(daemon.dataDir, 'egress-presets.json');
    await writeFile(presets, '[{"name":"npm","hosts":["npm.corp.test:443"]}]');
    await chown(presets, uid, gid);
    await daemon.launch();
    await daemon.ended();
    assert.match(daemon.output, /egress-presets\.json.*npm.*is there already/);
    await writeFile(presets, '[{"name":"corp","hosts":["npm.corp.test:443"]}]');
    await daemon.start();
    await daemon.call('POST', '/cgi-bin/api/sandboxes', {
      id: 'box',
      allow_net: ['elsewhere.test', 'a.example', 'preset:corp'],
    });
    const ask = async (to: string) => {
      const { steps } = await daemon.call('POST', '/v1/sandboxes/box/policy/test', { to });
      return steps.at(-1);
    };
    assert.deepEqual(await ask('elsewhere.test:443'), {
      step: 'name',
      allowed: false,
      rule: 'ceiling not_allowed',
    });
    assert.equal((await ask('a.example:443')).allowed, true);
    const { steps } = await daemon.call('POST', '/v1/sandboxes/box/policy/test', { to: 'npm.corp.test:443' });
    assert.equal(steps[1].rule, 'allow[2] preset:corp npm.corp.test:443');
    const shown: { name: string }[] = await daemon.call('GET', '/v1/policy/presets');
    assert.equal(shown.at(-1)?.name, 'corp');
    const completed = await squash(daemon, ['__complete', '--', 'policy', 'allow', 'box', 'preset:co']);
    assert.match(completed.stdout.toString(), /^preset:corp\b/m);
  });
});
