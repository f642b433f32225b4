/** The SSH gateway: public keys that log in over the network, judged by the daemon, by way of a process that has nothing of its own. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { operations } from '@squash/contract/operations/table';
import type { DaemonInfo } from '@squash/contract/daemon';
import type { SshKey, SshKeyList } from '@squash/contract/ssh-keys';
import { sshLimits } from '@squash/contract/ssh-limits';
import { endOf, squash, squashOk } from '../support/cli.ts';
import { processes, processesOf } from '../support/leaks.ts';
import { SshScene } from '../support/ssh-scene.ts';
import { waitFor } from '../support/wait.ts';

let scene: SshScene;
let gateway: NonNullable<DaemonInfo['ssh']>;

before(async () => {
  scene = await SshScene.start([], { env: { SQUASH_SSH_PORT: '0' } });
  for (const [id, owner] of [
    ['dev', 'team'],
    ['box', 'other'],
  ] as const)
    await scene.daemon.call('POST', '/cgi-bin/api/sandboxes', { id, owner });
  const { ssh } = (await scene.daemon.call('GET', '/v1/info')) as DaemonInfo;
  assert.ok(ssh !== null);
  gateway = ssh;
  for (const kind of ['ed25519', 'ecdsa', 'rsa', 'wrong', 'late']) {
    const type = ['ecdsa', 'rsa'].includes(kind) ? kind : 'ed25519';
    execFileSync('ssh-keygen', ['-q', '-t', type, '-N', '', '-C', `key ${kind}`, '-f', scene.path(kind)]);
  }
  for (const kind of ['ed25519', 'ecdsa', 'rsa'])
    await squashOk(scene.daemon, ['ssh-key', 'add', scene.path(`${kind}.pub`), '--owner', 'team']);
});
after(() => scene[Symbol.asyncDispose]());

/** Options of a client that knows the gateway by its fingerprint, with one key. */
function options(key: string): readonly string[] {
  return [
    '-F',
    'none',
    '-p',
    `${gateway.port}`,
    '-i',
    scene.path(key),
    '-oIdentitiesOnly=yes',
    '-oBatchMode=yes',
    '-oStrictHostKeyChecking=accept-new',
    `-oUserKnownHostsFile=${scene.path('known')}`,
  ];
}

/** @param login key and user, as `KEY:USER` */
async function ssh(login: string, command: string, input?: Uint8Array) {
  const [key = '', user = ''] = login.split(':');
  const child = scene.spawn('/usr/bin/ssh', [...options(key), `${user}@${gateway.host}`, command]);
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(input);
  return await endOf(child);
}

const gateways = () =>
  processes().filter(
    ({ command, parent }) => command.includes('ssh/src/gateway/main.ts') && parent === scene.daemon.pid,
  );

describe('the SSH gateway', () => {
  it('lets each kind of key in, into its owner’s sandboxes, and shows who it is', async () => {
    for (const key of ['ed25519', 'ecdsa', 'rsa']) {
      const end = await ssh(`${key}:dev`, 'cat; echo $USER', Buffer.from('in '));
      assert.deepEqual([end.code, end.stdout.toString()], [0, 'in root\n'], end.stderr);
    }
    const bytes = randomBytes(3_000_000);
    assert.ok((await ssh('ed25519:dev', 'cat', bytes)).stdout.equals(bytes));
    const known = execFileSync('ssh-keygen', ['-l', '-f', scene.path('known')], { encoding: 'utf8' });
    assert.ok(known.includes(gateway.fingerprint), known);
    const shown = await squashOk(scene.daemon, ['ssh', '--fingerprint']);
    assert.equal(shown, `${gateway.fingerprint} ${gateway.host}:${gateway.port}`);
    const { items } = await scene.daemon.call('GET', '/v1/audit?operation=sandbox.exec_stream&limit=1');
    assert.deepEqual([items[0].caller.owner, items[0].peer.address], ['team', '127.0.0.1']);
  });

  it('logs a user of the sandbox in', async (t) => {
    const end = await ssh('ed25519:nobody+dev', 'id -u');
    if (end.code === 255 && process.getuid?.() !== 0) return t.skip('single-id mode: there is no other user');
    assert.equal(end.stdout.toString(), '65534\n');
  });

  it('refuses keys that are not registered, have expired or are removed, names of no form, and other owners’ sandboxes', async () => {
    const wrong = await ssh('wrong:dev', 'id');
    assert.match(wrong.stderr, /Permission denied \(publickey\)/);
    for (const user of ['no such+dev', 'x'.repeat(80), 'dev/..', '+dev'])
      assert.match((await ssh(`ed25519:${user}`, 'id')).stderr, /Permission denied/);
    const foreign = await ssh('ed25519:box', 'id');
    assert.match(foreign.stderr, /Cannot find sandbox "box"/);
    const soon = new Date(Date.now() + 1_500).toISOString();
    const words = ['ssh-key', 'add', scene.path('late.pub'), '--owner', 'team', '--expires', soon];
    const id = (await squashOk(scene.daemon, words)).trim();
    assert.equal((await ssh('late:dev', 'sleep 600')).code, 255);
    assert.match((await ssh('late:dev', 'id')).stderr, /denied/);
    await squashOk(scene.daemon, ['ssh-key', 'rm', id]);
    const again = (await squashOk(scene.daemon, words.slice(0, -2))).trim();
    const held = ssh('late:dev', 'sleep 600');
    await waitFor('it has logged in', async () => {
      const key = (await scene.daemon.call('GET', `/v1/ssh-keys/${again}`)) as SshKey;
      return key.last_used_at !== null;
    });
    await squashOk(scene.daemon, ['ssh-key', 'rm', again]);
    assert.equal((await held).code, 255);
  });

  it('is told by the daemon who somebody is, which takes no session twice and no signature of another key', async () => {
    const { body } = operations['ssh_key.create'].example;
    await scene.daemon.call('POST', '/v1/ssh-keys', body);
    const shown: { readonly signed: string; readonly signature: string } =
      operations['ssh.login'].example.body;
    const login = (change: Partial<typeof shown>) =>
      scene.daemon.request('POST', '/v1/ssh/login', { ...shown, ...change });
    const bytes = Buffer.from(shown.signed, 'base64');
    for (const at of [5, 42, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.equal((await login({ signed: changed.toString('base64') })).json.code, 'ssh_login_refused');
    }
    for (const length of [0, 3, 40, bytes.length - 1]) {
      const cut = bytes.subarray(0, length).toString('base64') || 'AA==';
      assert.equal((await login({ signed: cut })).json.code, 'ssh_login_refused');
    }
    assert.equal((await login({ signature: 'AAAA' })).json.code, 'ssh_login_refused');
    const { status, json } = await login({});
    assert.deepEqual([status, json.sandbox, json.user], [200, 'dev', null]);
    assert.equal((await login({})).json.code, 'ssh_login_refused');
    const self = await fetch(`${scene.daemon.url}/v1/keys/self`, {
      headers: { authorization: `Bearer ${json.token}` },
    });
    const { owner, scope } = (await self.json()) as { readonly owner: string; readonly scope: string };
    assert.deepEqual([owner, scope], ['team-a', 'exec']);
  });

  it('has an id that owns nothing, no capability, none of the daemon’s files and no way to the API but its own', async (t) => {
    const [own] = gateways();
    assert.ok(own !== undefined);
    const status = readFileSync(`/proc/${own.pid}/status`, 'utf8');
    assert.match(status, /^CapEff:\t0+$/m);
    assert.match(status, /^CapPrm:\t0+$/m);
    assert.match(status, /^Seccomp:\t2$/m);
    const uidOf = (pid: number) => /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    if (process.getuid?.() !== 0) return t.skip('needs root');
    assert.notEqual(uidOf(own.pid), uidOf(scene.daemon.pid ?? 0));
    const links = readdirSync(`/proc/${own.pid}/fd`).length;
    assert.ok(links > 4 && links < 60, `${links}`);
  });

  it('bounds strangers, and ends those who say nothing of SSH or too much', async () => {
    const socket = () => {
      const one = connect(gateway.port, gateway.host);
      one.on('error', () => undefined).resume();
      return one;
    };
    const all = Array.from({ length: sshLimits.strangersMax + 8 }, socket);
    await Promise.race(all.map((one) => once(one, 'close')));
    const closed = () => all.filter((one) => one.destroyed).length;
    await waitFor('those above the bound are refused', () => closed() >= 8);
    for (const one of all) one.write(randomBytes(100_000));
    await waitFor('noise ends the others', () => all.every((one) => one.destroyed));
    assert.equal((await ssh('ed25519:dev', 'echo still here')).stdout.toString(), 'still here\n');
  });

  it('is started again when it dies, at the same port, and ends with the daemon, whose next one takes no session again', async () => {
    const [before_] = gateways();
    assert.ok(before_ !== undefined);
    process.kill(before_.pid, 'SIGKILL');
    await waitFor('another one runs', () => gateways().some(({ pid }) => pid !== before_.pid));
    await waitFor('it answers', async () => (await ssh('ed25519:dev', 'true')).code === 0);
    await scene.daemon.kill();
    await waitFor(
      'it is gone',
      () =>
        processesOf(scene.daemon.dataDir).every(({ command }) => !/[ /]gateway/.test(command)) &&
        gateways().length === 0,
    );
    await scene.daemon.start();
    const { ssh: next } = (await scene.daemon.call('GET', '/v1/info')) as DaemonInfo;
    assert.equal(next?.fingerprint, gateway.fingerprint);
    const replay = () => scene.daemon.request('POST', '/v1/ssh/login', operations['ssh.login'].example.body);
    assert.match((await replay()).json.detail, /has logged in before/);
    const { items } = (await scene.daemon.call('GET', '/v1/ssh-keys?owner=team-a')) as SshKeyList;
    assert.equal(items.length, 1);
    await scene.daemon.call('DELETE', `/v1/ssh-keys/${items[0]?.id}`);
    await scene.daemon.call('POST', '/v1/ssh-keys', operations['ssh_key.create'].example.body);
    assert.match((await replay()).json.detail, /has logged in before/);
    const none = await squash(scene.daemon, ['ssh-key', 'add', scene.path('ed25519'), '--owner', 'team']);
    assert.match(none.stderr, /is a private key/);
  });
});
