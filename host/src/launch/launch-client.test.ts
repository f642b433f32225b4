/** The launcher through its client: life of sandboxes, limits and trees, in each way that Squash can be started. */
import assert from 'node:assert/strict';
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { chown, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher, startOf } from '../../../tests/support/launcher.ts';
import { waitFor } from '../../../tests/support/wait.ts';

await insideLauncher(import.meta.filename, ['default', 'single', 'fuse', 'user', 'user-single'], (place) => {
  const { client, dataDir, runDir } = place;
  const isSingle = place.mode === 'single' || place.mode === 'user-single';
  const hasGroups = place.mode !== 'user' && place.mode !== 'user-single';

  test('sandbox runs a command as root of its own when it is started', async () => {
    await using box = await launchSandbox(place, 'life');
    const { output } = await box.sh(
      'id -u; hostname; cat /proc/self/uid_map /etc/hosts; ls -di /tmp; stat -c %a /tmp',
    );
    assert.match(output, /^0\nlife\n/);
    assert.match(output, isSingle ? / 0 +0 +1\n/ : / 0 +[1-9]\d* +65536\n/);
    assert.match(output, /localhost/);
    assert.match(output, /1777\n$/);
    assert.deepEqual(
      (await client.list()).map(({ name }) => name),
      ['life'],
    );
  });

  test('nothing of the host shows inside when a command looks for it', async () => {
    await using box = await launchSandbox(place, 'view');
    const { output } = await box.sh(
      'cat /proc/self/mountinfo; cat /proc/1/environ; ls -l /proc/1/fd; ls /sys 2>/dev/null; env',
    );
    assert.ok(!output.includes(dataDir), output);
    assert.ok(!output.includes('SQUASH_'), output);
    const status = (await box.sh('cat /proc/1/status')).output;
    assert.match(status, /NoNewPrivs:\s1/);
    assert.match(status, /Seccomp:\s2/);
    assert.match(status, /CapBnd:\s00000000800405fb/);
    const net = (await box.sh('cat /proc/net/dev; cat /proc/net/unix')).output;
    assert.match(net, /lo:/);
    assert.ok(!/eth|ens|docker/.test(net), net);
  });

  // A message has 64 descriptors, a page of mount options room for 500 layers.
  test('a sandbox of five hundred layers has the files of all of them', async () => {
    const root = isSingle ? 0 : 1;
    const deep = Array.from({ length: 499 }, (_, i) => `layers/deep-${i}`);
    for (const [i, layer] of deep.entries()) {
      await mkdir(join(dataDir, layer));
      await writeFile(join(dataDir, layer, `of-${i}`), '');
      for (const path of [layer, `${layer}/of-${i}`]) await chown(join(dataDir, path), root, root);
    }
    await using box = await launchSandbox(place, 'deep', { lowers: [...deep, place.lower] });
    const { output } = await box.sh('stat -c %u:%g / /of-* /bin/busybox | sort | uniq -c');
    assert.match(output, /^ *501 0:0\n$/);
  });

  test('stop leaves nothing and may be repeated when a sandbox runs', async () => {
    const box = await launchSandbox(place, 'gone');
    await box.sh('sleep 1000 & setsid sleep 1000 &');
    await client.stop(box.start.name);
    await client.stop(box.start.name);
    assert.deepEqual(await client.list(), []);
    assert.deepEqual(readdirSync(join(runDir, 'g')), ['new']);
    await client.removeTree('sandboxes/gone');
    assert.ok(!existsSync(join(dataDir, 'sandboxes/gone')));
  });

  test('a start whose client vanished is in the list when it has come up', async () => {
    const start = startOf(place, 'vanished');
    await client.createUpper(start.upper);
    const giveUp = new AbortController();
    const asked = client.start(start, giveUp.signal);
    setImmediate(() => setImmediate(() => giveUp.abort()));
    await asked.catch(() => undefined);
    const listed = await waitFor('the sandbox to be listed or never begun', async () => {
      const names = (await client.list()).map(({ name }) => String(name));
      return names.includes('vanished') ? names : undefined;
    }).catch(() => []);
    await client.stop(start.name);
    assert.ok(listed.length <= 1);
    await client.removeTree('sandboxes/vanished');
  });

  test('start is refused when the sandbox runs already or a layer is missing', async () => {
    await using box = await launchSandbox(place, 'twice');
    await assert.rejects(client.start(startOf(place, 'twice')), { code: 'sandbox_exists' });
    await assert.rejects(client.start(startOf(place, 'other', { lowers: ['layers/none'] })), {
      code: 'launch_failed',
    });
    await assert.rejects(client.start(startOf(place, 'other', { lowers: ['../x'] })), {
      code: 'invalid_request',
    });
    assert.equal((await box.sh('echo fine')).output, 'fine\n');
    assert.equal((await client.list()).length, 1);
  });

  const skip = place.mode === 'default' || place.mode === 'fuse' ? 'it has no ids of the host' : false;
  test('start of a box is refused when a device is another one than was judged', { skip }, async () => {
    const { dev, ino, rdev } = lstatSync('/dev/zero');
    const refusal = async (path: string, identity: string): Promise<string> => {
      const device = { kind: 'device', mode: 'ro', identity, source: path, target: path } as const;
      const start = startOf(place, 'device', {
        lowers: [],
        makesUpper: true,
        hostRoot: { uid: 1000, gid: 1000, places: [device] },
      });
      const failed = await client.start(start).then(
        () => 'it starts',
        (error: Error & { readonly code?: string }) => `${error.code} ${error.message}`,
      );
      await client.stop(start.name);
      await client.removeTree('sandboxes/device');
      return failed;
    };
    const number = `${dev}:${ino}:${rdev}`;
    assert.match(await refusal('/dev/zero', number), /^host_path_refused .*of its own there/);
    assert.match(await refusal('/dev/zero', `${number}1`), /^host_path_refused .*another device/);
    assert.match(await refusal('/dev/full', number), /^host_path_refused .*another device/);
    assert.match(await refusal('/dev/zero', `${dev}:${ino}`), /^host_path_refused .*another device/);
    assert.match(await refusal('/dev/shm', number), /^host_path_refused .*no character device/);
    assert.match(await refusal('/dev/stdin', number), /^host_path_refused .*can't open/);
    assert.match(await refusal('/etc/passwd', number), /^invalid_request/);
    assert.match(await refusal('/dev/../etc/passwd', number), /^invalid_request/);
  });

  test('files written stay when the sandbox is stopped and started on its upper', async () => {
    {
      const box = await launchSandbox(place, 'again');
      await box.sh('echo kept > /root/file; rm /etc/os-release; ln -s /nowhere /etc/hosts2; rm -rf /proc2');
      await client.stop(box.start.name);
    }
    await using box = await launchSandbox(place, 'again');
    assert.equal((await box.sh('cat /root/file; ls /etc/os-release')).output.split('\n')[0], 'kept');
    assert.notEqual((await box.sh('test -e /etc/os-release')).exitCode, 0);
  });

  test('mount points are made anew when the sandbox turned them into links', async () => {
    {
      const box = await launchSandbox(place, 'links');
      await box.sh('mv /etc /etc.old; ln -s /tmp /etc; rmdir /root; mkdir /tmp/x');
      await client.stop(box.start.name);
    }
    await using box = await launchSandbox(place, 'links');
    const { output } = await box.sh('stat -c %F /etc /proc /dev; cat /etc/hosts; ls /tmp');
    assert.match(output, /^directory\ndirectory\ndirectory\n/);
    assert.match(output, /localhost/);
    assert.ok(!output.includes('resolv.conf'), output);
    assert.ok(!existsSync('/tmp/hosts'));
  });

  test('events tell of the end when PID 1 dies', async () => {
    const ended: number[] = [];
    const begun = Promise.withResolvers<void>();
    await using _watch = client.watch({
      onEvent: (change, { instance }) => {
        if (change === 'ended') ended.push(instance);
      },
      onHelper: () => undefined,
      onGap: () => begun.resolve(),
    });
    await begun.promise;
    await using box = await launchSandbox(place, 'dies');
    // Written before the start is answered, and removed when all of the sandbox is gone.
    const record = readFileSync(join(runDir, `g/${box.start.instance}.pid`), 'utf8');
    process.kill(Number(record.split(' ')[0]), 'SIGKILL');
    await waitFor('the event', () => ended.includes(box.start.instance));
    assert.deepEqual(await client.list(), []);
  });

  test('all processes stand still when the sandbox is frozen and go on when it is thawed', async () => {
    await using box = await launchSandbox(place, 'still');
    await box.sh('mkfifo /go; (while :; do echo . >> /ticks; done) & ');
    const upper = join(dataDir, 'sandboxes/still/uppers/1/data/ticks');
    const size = (): number => readFileSync(upper).length;
    await waitFor('the ticks to begin', () => existsSync(upper) && size() > 10);
    await client.freeze(box.start.name);
    const frozen = size();
    for (let i = 0; i < 50; i += 1) await new Promise(setImmediate);
    assert.equal(size(), frozen);
    await client.thaw(box.start.name);
    await waitFor('the ticks to go on', () => size() > frozen);
  });

  test('shared memory and processes are limited when a command asks for more', async () => {
    await using box = await launchSandbox(place, 'limits');
    const shm = await box.sh('dd if=/dev/zero of=/dev/shm/x bs=64k count=100; stat -c %s /dev/shm/x');
    assert.match(shm.output, /No space left/);
    assert.match(shm.output, /\n1048576\n$/);
    assert.match((await box.sh('touch /dev/x')).output, /Read-only/);
    if (!hasGroups) return;
    const forks = await box.sh('i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); done; echo done');
    assert.match(forks.output, /can't fork|Resource temporarily unavailable/);
  });

  test('a busy command gets the processor time of its sandbox and no more', {
    skip: !hasGroups,
  }, async () => {
    await using box = await launchSandbox(place, 'busy', { cpuMilli: 100 });
    const beganMs = performance.now();
    // Until it has used 150 ms, however fast the processor is: a tenth of one makes a long wait of much work.
    const { output } = await box.sh(
      'used=0; while [ $used -lt 15 ]; do i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; read -r stat </proc/$$/stat; set -- ${stat##*)}; used=$((${12} + ${13})); done; echo "$stat"',
    );
    const wallMs = performance.now() - beganMs;
    const fields = output.slice(output.lastIndexOf(')') + 2).split(' ');
    const usedMs = 10 * (Number(fields[11]) + Number(fields[12]));
    assert.ok(usedMs > 100, `else the limit had nothing to do: ${usedMs} ms`);
    // Each period of 100 ms gives 10, of which the first is free; accounting is by ticks of 10 ms.
    assert.ok(usedMs <= 0.1 * wallMs * 1.2 + 50, `${usedMs} ms used in ${wallMs} ms`);
  });

  test('out-of-memory kills are counted when a command takes too much', { skip: !hasGroups }, async () => {
    await using box = await launchSandbox(place, 'memory', { memoryBytesMax: 2 ** 25 });
    await box.sh('x=x; while :; do x=$x$x; done');
    const stats = await client.stats(box.start.name);
    assert.ok(stats.oomKills > 0, JSON.stringify(stats));
    assert.ok(stats.memoryBytes <= 2 ** 25);
    assert.equal((await box.sh('echo alive')).output, 'alive\n');
  });

  test('commands are ended when they fill a directory upper past its limit', {
    timeout: 60_000,
  }, async () => {
    const events: string[] = [];
    await using _watch = client.watch({
      onEvent: (change) => events.push(change),
      onHelper: () => undefined,
      onGap: () => undefined,
    });
    await using box = await launchSandbox(place, 'full', {
      upper: { path: 'sandboxes/full/uppers/1', kind: 'directory', bytesMax: 2 ** 22, inodesMax: 500 },
    });
    const bytes = await box.sh('i=0; while :; do dd if=/dev/zero of=/f$i bs=64k count=16; i=$((i+1)); done');
    assert.equal(bytes.exitCode, undefined);
    await waitFor('the event', () => events.includes('upper_full'));
    // Until it is measured again with room, what begins is ended as well: on a busy machine that takes in the one who makes room.
    await waitFor('room', async () => (await box.sh('rm -f /f*; echo freed')).output === 'freed\n');
    const single = await box.sh('dd if=/dev/zero of=/one bs=64k count=200; stat -c %s /one');
    assert.match(single.output, /\n4194304\n$/);
    await box.sh('rm -f /one');
    const inodes = await box.sh('i=0; while :; do touch /e$i; i=$((i+1)); done');
    assert.equal(inodes.exitCode, undefined);
  });

  test('usage counts holes as nothing and a hard link once when an upper is measured', async () => {
    await using box = await launchSandbox(place, 'usage');
    await box.sh(
      'dd if=/dev/zero of=/a bs=64k count=16; ln /a /b; ln /a /c; dd if=/dev/null of=/hole bs=1 seek=9999999',
    );
    const usage = await client.upperUsage({ path: 'sandboxes/usage/uppers/1', kind: 'directory' });
    assert.ok(usage.bytes >= 2 ** 20 && usage.bytes < 2 ** 20 + 2 ** 18, JSON.stringify(usage));
  });

  test('trees of any depth go and links are not followed when they are removed', async () => {
    await using box = await launchSandbox(place, 'deep');
    await box.sh(
      'mkdir /x; cd /x; i=0; while [ $i -lt 700 ]; do mkdir d f; cd d; i=$((i+1)); done; touch end',
    );
    await box.sh('ln -s /etc /x/link; mkfifo /x/fifo; mkdir /x/"new\nline"; chmod 0 /x/d');
    const usage = await client.upperUsage({ path: 'sandboxes/deep/uppers/1', kind: 'directory' });
    assert.ok(usage.inodes > 1_400, JSON.stringify(usage));
    await client.removeTree('sandboxes/deep/uppers/1/data/x');
    assert.ok(!existsSync(join(dataDir, 'sandboxes/deep/uppers/1/data/x')));
    assert.deepEqual(readdirSync(join(dataDir, 'trash')), []);
    await client.removeTree('sandboxes/none/at/all');
    await mkdir(join(dataDir, 'outside'));
    await writeFile(join(dataDir, 'outside/file'), '');
    await symlink('outside', join(dataDir, 'link'));
    await assert.rejects(client.removeTree('link/file'));
    await client.removeTree('link');
    assert.ok(existsSync(join(dataDir, 'outside/file')));
  });
});
