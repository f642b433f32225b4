/**
 * What a microVM has written where it does not run: only a guest's kernel reads its disk. Snapshots and forks of one that is stopped, and
 * ephemeral mode, in which a removal stops it first: what is to be saved is read by a guest that nobody has had.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { TestBucket } from '../support/bucket.ts';
import { cliCommand, cliEnvironment } from '../support/cli.ts';
import { isSingleId } from '../support/data-session.ts';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { type ProcessEntry, processesOf, signalAll } from '../support/leaks.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

let bucket: TestBucket;
before(async () => {
  bucket = await TestBucket.start();
});
after(async () => await bucket[Symbol.asyncDispose]());

const api = '/cgi-bin/api/sandboxes';

async function machine(env: Readonly<Record<string, string>> = {}): Promise<TestDaemon> {
  const modules = { ...(await debianModules()), '900-vmm': await vmModule() };
  return await TestDaemon.start({ modules, env });
}

async function ephemeral(interval: string): Promise<TestDaemon> {
  return await machine({
    ...bucket.environment,
    SQUASH_EPHEMERAL: '1',
    SQUASH_EPHEMERAL_INTERVAL: interval,
  });
}

async function send(
  daemon: TestDaemon,
  [method, path]: readonly [string, string],
  body?: unknown,
): Promise<Answer> {
  const answer = await daemon.request(method, path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

async function output(daemon: TestDaemon, id: string, cmd: string): Promise<string> {
  const { json } = await send(daemon, ['POST', `${api}/${id}/exec`], { cmd });
  assert.equal(json.exit_code, 0, json.stderr);
  return json.stdout.trim();
}

const create = async (daemon: TestDaemon, more: object = {}): Promise<Answer> =>
  await send(daemon, ['POST', api], { id: 'dev', layers: '000-base-debian', memory_mb: 128, ...more });
async function makeVm(daemon: TestDaemon): Promise<string> {
  const from = { layers: ['000-base-debian'] };
  return (await send(daemon, ['POST', '/v1/sandboxes'], { from, backend: 'vm', memory_mb: 128 })).json.id;
}
const isMonitor = ({ command }: ProcessEntry): boolean => command.includes('qemu');
const monitors = (daemon: TestDaemon): readonly ProcessEntry[] =>
  processesOf(daemon.dataDir).filter(isMonitor);
const saves = async (): Promise<string> => (await bucket.keys('sandboxes/dev/snapshots/')).join();

/** In a mount namespace that has nothing on /etc/hosts it can be removed; a start mounts on it. */
const hostsAway = `unshare -Urm sh -ec '${[
  'mount -t tmpfs t /mnt; cd /mnt; mkdir usr old dev; touch dev/null; ln -s usr/bin usr/lib usr/lib64 .; mount --bind /usr usr',
  `cd /etc; pivot_root /mnt /mnt/old; perl -e "syscall(${process.arch === 'arm64' ? 39 : 166}, my \\$old = qq(/old), 2)"`,
  'rm hosts; mkdir hosts; echo kept >hosts/file',
].join('; ')}'`;

describe('a microVM that does not run', () => {
  test('a snapshot and a fork of one that is stopped have what it had written, and it stays stopped', async () => {
    // A tar of its holes would be more than four times of that.
    await using daemon = await machine({ SQUASH_UPPER_LIMIT_MB: '256' });
    const id = await makeVm(daemon);
    const pieces = `perl -e 'open F, ">/pieces"; for (0..4199) { seek F, $_ * 8192, 0; print F "piece $_" }'`;
    const holes = 'truncate -s 4G /holes; echo end | dd of=/holes bs=1 seek=3G conv=notrunc';
    await output(
      daemon,
      id,
      `echo written >/written; chown 7:7 /written; rm /etc/hostname; ${pieces}; ${holes}`,
    );
    const sum = await output(daemon, id, 'sha256sum </pieces');
    await send(daemon, ['POST', `/v1/sandboxes/${id}/pause`], { keep: 'files' });
    assert.deepEqual(monitors(daemon), []);
    // A daemon that dies while it is read leaves neither a guest nor half a snapshot.
    const lost = daemon.request('POST', `${api}/${id}/snapshot`, { label: 'lost' }).catch(() => undefined);
    await waitFor('a guest to read it', () => monitors(daemon).length > 0);
    await daemon.kill();
    await lost;
    await daemon.start();
    assert.deepEqual(monitors(daemon), []);
    await send(daemon, ['POST', `${api}/${id}/snapshot`], { label: 'stopped' });
    const { json: taken } = await send(daemon, ['GET', `/v1/sandboxes/${id}/snapshots`]);
    assert.deepEqual(
      taken.items.map(({ label }: { readonly label: string }) => label),
      ['stopped'],
    );
    const wrong = ['other/diff?against=current', 'stopped/diff?against=current&cursor=AA'];
    const began = performance.now();
    for (const each of wrong) {
      const refused = await daemon.request('GET', `/v1/sandboxes/${id}/snapshots/${each}`);
      assert.ok(refused.status === 404 || refused.status === 400, refused.text);
    }
    // Refused before a guest is started.
    assert.ok(performance.now() - began < 3000);
    const path = `/v1/sandboxes/${id}/snapshots/stopped/diff?against=current`;
    assert.deepEqual((await send(daemon, ['GET', path])).json.items, []);
    const { json: fork } = await send(daemon, ['POST', '/v1/sandboxes'], {
      from: { sandbox: id },
      backend: 'chroot',
    });
    const { json: seen } = await send(daemon, ['GET', `/v1/sandboxes/${id}`]);
    assert.equal(seen.state, 'stopped');
    assert.deepEqual(monitors(daemon), []);
    const look = 'stat -c %u /written; cat /written; test ! -e /etc/hostname';
    assert.equal(await output(daemon, fork.id, look), `${(await isSingleId(daemon)) ? 0 : 7}\nwritten`);
    assert.equal(
      await output(daemon, fork.id, 'stat -c %s /holes; dd if=/holes bs=1 skip=3G count=3'),
      `${4 * 2 ** 30}\nend`,
    );
    // More of them than are told as such.
    assert.equal(await output(daemon, fork.id, 'sha256sum </pieces'), sum);
    // It goes on as it was, and with what was saved of it as well. What could not be unpacked again is not saved.
    const size = { rows: 10, columns: 80, env: cliEnvironment(daemon) };
    await using terminal = new Terminal([...cliCommand, 'resume', id], size);
    await terminal.see(new RegExp(`\r\u001b\\[Kresuming ${id}  \\d+ s`));
    assert.equal((await terminal.end()).status, 0, terminal.screen);
    assert.equal(
      await output(daemon, id, 'echo later >/written; truncate -s 65G /long; cat /written'),
      'later',
    );
    const long = await daemon.request('POST', `${api}/${id}/snapshot`, { label: 'long' });
    assert.equal(long.status, 507, long.text);
    assert.match(long.text, /longer than 68719476736 bytes together, holes included/);
    await send(daemon, ['POST', `${api}/${id}/restore`], { label: 'stopped' });
    assert.equal(await output(daemon, id, look), '7\nwritten');
  });

  test('one that has other things where a start mounts starts, and is read also where its disk is full', async () => {
    await using daemon = await machine({ SQUASH_UPPER_LIMIT_MB: '64' });
    const id = await makeVm(daemon);
    const rest = async (): Promise<void> =>
      void (await send(daemon, ['POST', `/v1/sandboxes/${id}/pause`], { keep: 'files' }));
    assert.equal(await output(daemon, id, `${hostsAway}; stat -c %F /etc/hosts`), 'directory');
    await rest();
    await send(daemon, ['POST', `/v1/sandboxes/${id}/resume`]);
    assert.equal(await output(daemon, id, 'grep -c localhost /etc/hosts; cat /etc/hosts.*/file'), '2\nkept');
    const fill =
      'for bytes in 64k 1k; do dd if=/dev/zero of=/fill$bytes bs=$bytes 2>/dev/null; done; echo filled';
    assert.equal(await output(daemon, id, `${hostsAway}; ${fill}`), 'filled');
    await rest();
    await send(daemon, ['POST', `${api}/${id}/snapshot`], { label: 'full' });
    // A daemon that ends does not wait for a guest that is started to be read, and says nothing.
    const gone = new AbortController();
    const left = fetch(`${daemon.url}${api}/${id}/snapshot`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"label":"left"}',
      signal: gone.signal,
    });
    await waitFor('its guest to be started', () => monitors(daemon).length > 0);
    signalAll(daemon.dataDir, 'SIGSTOP', isMonitor);
    gone.abort();
    await assert.rejects(left);
    const began = performance.now();
    await daemon.stop();
    assert.ok(performance.now() - began < 60_000);
    assert.deepEqual(monitors(daemon), []);
    await daemon.start();
    const { items } = (await send(daemon, ['GET', `/v1/sandboxes/${id}/snapshots`])).json;
    assert.deepEqual(
      items.map(({ label }: { label: string }) => label),
      ['full'],
    );
  });

  test('in ephemeral mode it is back on another machine, saved at its removal and before', async () => {
    {
      await using one = await ephemeral('1');
      await create(one, { backend: 'vm' });
      await output(one, 'dev', 'echo one >/life');
      await waitFor('it is saved', async () => (await saves()) !== '', 60_000);
      assert.equal(await output(one, 'dev', 'cat /life'), 'one');
      bucket.fault = () => 'refuse';
      const refused = await one.request('DELETE', `${api}/dev`);
      assert.equal(refused.status, 503, refused.text);
      assert.match(refused.text, /Cannot remove sandbox .*can't be saved: .*the bucket/);
      assert.equal(monitors(one).length, 1);
      bucket.fault = ({ method }) => (method === 'PUT' ? 'refuse' : 'none');
      assert.equal((await one.request('DELETE', `${api}/dev`)).status, 503);
      bucket.fault = () => 'none';
      assert.equal(await output(one, 'dev', 'cat /life; echo two >/life'), 'one');
      await send(one, ['DELETE', `${api}/dev`]);
      assert.deepEqual(readdirSync(join(one.dataDir, 'sandboxes')), []);
    }
    await using next = await ephemeral('1');
    // Nobody says again what it was.
    await create(next);
    assert.equal(monitors(next).length, 1);
    assert.equal(await output(next, 'dev', 'cat /life; echo three >/life; sync'), 'two');
    const last = await savesEnd();
    // One that never answers again is removed all the same, and what its disk has is saved.
    signalAll(next.dataDir, 'SIGSTOP', isMonitor);
    await send(next, ['DELETE', `${api}/dev`]);
    assert.notEqual(await saves(), last);
    assert.deepEqual(readdirSync(join(next.dataDir, 'sandboxes')), []);
  });
});

/** Though a guest's kernel is never idle: what it holds back it has written out within half a minute, and then nothing changes any more. */
async function savesEnd(): Promise<string> {
  let keys = '';
  let sinceMs = 0;
  const look = async (): Promise<boolean> => {
    const now = await saves();
    if (now !== keys) sinceMs = performance.now();
    keys = now;
    return performance.now() - sinceMs > 5_000;
  };
  await waitFor('saves to end', look, 90_000);
  return keys;
}
