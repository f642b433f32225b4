/** A sandbox whose PID 1 is squash-vmm, with a stand-in for the VMM and its vsock back end: how it is started, streams, its console, its end. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import { encodeFields, type FieldFrameName, type Frame } from '@squash/contract/guest/codec';
import { frameHeaderBytes, frameTypes } from '@squash/contract/guest/frames';
import { SocketDirectory } from '@squash/base/socket-directory';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher, type Place, startOf } from '../../../tests/support/launcher.ts';
import { processesOf } from '../../../tests/support/leaks.ts';
import { programLayer } from '../../../tests/support/program-layer.ts';
import { waitFor } from '../../../tests/support/wait.ts';
import { GuestClient } from '../guest/client.ts';
import { FrameConnection } from '../guest/frame-connection.ts';
import { refuse } from '../guest/guest-error.ts';
import type { FieldValue, LaunchStart } from './launch-fields.ts';

const paths = [
  ['socket', '/run/v.sock'],
  ['control', '/run/c.sock'],
] as const satisfies readonly FieldValue[];
const command = (...lines: readonly string[]): FieldValue => ['command', lines.join('\n')];
const backEnd = command('stay /run/c.sock', '/back-end', '/run/v.sock', '/run/c.sock');

/** What a driver says to squash-vmm. */
class Vmm implements AsyncDisposable {
  readonly #place: Place;
  readonly #sockets: SocketDirectory;
  readonly start: LaunchStart;

  private constructor(place: Place, start: LaunchStart) {
    this.#place = place;
    this.#sockets = new SocketDirectory(place.runDir);
    this.start = start;
  }

  static async launch(place: Place, name: string, changes: Partial<LaunchStart>): Promise<Vmm> {
    const start = startOf(place, name, { vmm: true, ...changes });
    await place.client.createUpper(start.upper);
    await place.client.start(start);
    return new Vmm(place, start);
  }

  async connect(): Promise<Duplex> {
    return this.#sockets.connect(`g/${this.start.instance}.sock`);
  }

  async ask(type: FieldFrameName, fields: readonly FieldValue[] = []): Promise<FrameConnection> {
    const connection = new FrameConnection(await this.connect());
    connection.stopBehindNextFrame();
    await connection.send(encodeFields(type, fields));
    const frame = await connection.next(40_000);
    if (frame.type !== 'ok') throw refuse(frame, type);
    return connection;
  }

  async begin(...commands: readonly FieldValue[]): Promise<void> {
    (await this.ask('vmmStart', [...paths, ...commands])).close();
  }

  async stream(
    type: 'vmmGuest' | 'vmmControl' | 'vmmDevice' | 'vmmMemory' | 'vmmConsole',
    fields?: readonly FieldValue[],
  ): Promise<Text> {
    return new Text((await this.ask(type, fields)).detach());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#place.client.stop(this.start.name);
    await this.#place.client.removeTree(`sandboxes/${this.start.name}`);
    this.#sockets[Symbol.dispose]();
  }
}

/** A raw stream, read as text. */
class Text {
  readonly stream: Duplex;
  readonly ended: Promise<unknown>;
  text = '';

  constructor(stream: Duplex) {
    this.stream = stream;
    stream.on('error', () => undefined); // It ends all the same.
    this.ended = once(stream, 'close');
    stream.on('end', () => stream.destroy());
    stream.setEncoding('latin1').on('data', (text: string) => {
      this.text += text;
    });
    stream.resume();
  }

  async until(wanted: string | RegExp): Promise<string> {
    const has = (): boolean =>
      typeof wanted === 'string' ? this.text.includes(wanted) : wanted.test(this.text);
    await waitFor(`${String(wanted)} in ${JSON.stringify(this.text.slice(-200))}`, has, 10_000);
    return this.text;
  }

  async say(line: string): Promise<void> {
    const before = this.text.length;
    this.stream.write(`${line}\n`);
    await waitFor(`an answer to ${line}`, () => this.text.slice(before).includes('done\n'), 10_000);
  }
}

await insideLauncher(import.meta.filename, ['default', 'single', 'fuse', 'user'], async (place) => {
  const lowers = [await programLayer(place, 'back-end'), place.lower];
  const launch = (name: string, changes: Partial<LaunchStart> = {}): Promise<Vmm> =>
    Vmm.launch(place, name, { lowers, ...changes });

  /** Takes the half minute that a guest has, beside the tests. */
  const silence = async (): Promise<void> => {
    await using vmm = await launch('silent');
    await vmm.begin(backEnd);
    const control = await vmm.stream('vmmControl');
    await control.say('ready');
    const givenUp = { code: 'guest_failed', message: /nobody in the guest takes the connection/ };
    await Promise.all([
      assert.rejects(vmm.stream('vmmGuest', [['port', 1028]]), givenUp),
      assert.rejects(vmm.stream('vmmGuest', [['port', 1027]]), givenUp),
    ]);
  };
  const silent = place.mode === 'default' ? silence() : undefined;
  silent?.catch(() => undefined); // The last test tells.

  test('commands run in order, streams reach guest and control socket, and the end of one ends the sandbox', async () => {
    const changes: string[] = [];
    await using _watch = place.client.watch({
      onEvent: (change, { name, vmm }) => void changes.push(`${name} ${change} ${vmm}`),
      onHelper: () => undefined,
      onGap: () => undefined,
    });
    await using vmm = await launch('whole');
    const isRunning = async (): Promise<boolean> =>
      (await place.client.list()).some(({ name, vmm: isVmm }) => name === 'whole' && isVmm);
    assert.ok(await isRunning());
    const console = await vmm.stream('vmmConsole');
    const early = vmm.stream('vmmGuest');
    await vmm.begin(
      command('once', '/bin/sh', '-c', 'sleep 0.2; echo first; echo $PATH >&2; echo made > /disk'),
      command('once', '/bin/sh', '-c', 'test -s /disk && echo second'),
      backEnd,
      command('stay', '/bin/sh', '-c', 'echo last; exec /bin/busybox sleep 1000'),
    );
    await console.until(/^first\n\/usr\/bin:\/usr\/sbin\nsecond\nback end listens\nlast\n$/);
    const control = await vmm.stream('vmmControl');
    await control.until('hello\n');
    await control.say('ready');
    const guest = await early;
    guest.stream.write('to the guest and back');
    await guest.until('to the guest and back');
    const second = await vmm.stream('vmmGuest', [['port', 1025]]);
    second.stream.write('after two refusals');
    await second.until('after two refusals');
    assert.equal((await vmm.stream('vmmGuest', [['port', 1026]])).text, '', 'what comes with OK is not lost');
    await control.say('say on the console');
    await console.until('on the console\n');
    const late = await vmm.stream('vmmConsole');
    await late.until(/^first\n[^]*on the console\n$/);
    await control.say('orphan');
    await console.until('orphan\n');
    control.stream.write('end 3\n');
    await waitFor('the sandbox to end', async () => !(await isRunning()), 10_000);
    await Promise.all([guest.ended, console.ended, control.ended]);
    await waitFor('word of it', () => changes.includes('whole ended true'), 10_000);
  });

  test('what was said before an end of either side arrives', async () => {
    await using vmm = await launch('ends');
    await vmm.begin(backEnd);
    const control = await vmm.stream('vmmControl');
    await control.say('ready');
    const early = await vmm.stream('vmmGuest', [['port', 1026]]);
    await early.until('early');
    const tail = await vmm.stream('vmmGuest', [['port', 1029]]);
    tail.stream.pause();
    const untaken = await vmm.stream('vmmGuest', [['port', 1029]]);
    await waitFor('its end', () => untaken.stream.destroyed, 10_000);
    assert.equal(untaken.text.length, 2 ** 20);
    tail.stream.resume();
    await tail.ended;
    assert.equal(tail.text.length, 2 ** 20);
    // Twice: what was there of the first is no hindrance.
    for (const kib of [3_000, 2_000]) {
      const memory = await vmm.stream('vmmMemory');
      await control.say(`memory ${kib}`);
      await memory.ended;
      assert.equal(memory.text.length, kib * 1024);
    }
    const many = await Promise.all(Array.from({ length: 50 }, async () => vmm.stream('vmmGuest')));
    const bytes = 'b'.repeat(300_000);
    for (const { stream } of many) stream.write(bytes);
    await waitFor('all to come back', () => many.every(({ text }) => text.length === bytes.length), 20_000);
    for (const { stream } of many) stream.destroy();
  });

  test('behind a stream that has ended another one waits for who comes next, as long as the guest does not end it', async () => {
    await using vmm = await launch('next');
    await vmm.begin(backEnd);
    const console = await vmm.stream('vmmConsole');
    const control = await vmm.stream('vmmControl');
    await control.say('ready');
    const asked = async (times: number): Promise<boolean> => {
      await control.say('asked');
      return (await console.until(/asked \d+ times\n$/)).endsWith(`asked ${times} times\n`);
    };
    const echoing = async (): Promise<Text> => {
      const text = await vmm.stream('vmmGuest');
      text.stream.write('and back');
      await text.until('and back');
      return text;
    };
    const first = await echoing();
    assert.ok(await asked(1), 'none waits where there was none before');
    first.stream.destroy();
    await waitFor('one that waits', () => asked(2), 10_000);
    const second = await echoing();
    assert.ok(await asked(2), 'it is the one that waited');
    second.stream.destroy();
    await waitFor('another one', () => asked(3), 10_000);
    await control.say('hang up');
    await echoing();
    assert.ok(await asked(4), 'one that was ended is nobody’s');
  });

  test('as long as its device comes or goes nobody is let through to the guest, who is asked anew then', async () => {
    await using vmm = await launch('device');
    await vmm.begin(backEnd);
    const control = await vmm.stream('vmmControl');
    await control.say('ready');
    control.stream.destroy();
    const silent = vmm.stream('vmmGuest', [['port', 1028]]).catch(() => undefined); // It is asked until the end.
    const before = await vmm.stream('vmmGuest');
    before.stream.write('said before');
    await before.until('said before');
    const device = await vmm.stream('vmmDevice');
    let isThrough = false;
    const held = vmm.stream('vmmGuest').finally(() => (isThrough = true));
    for (let turn = 0; turn < 20; turn++) await device.say('say still');
    assert.ok(!isThrough);
    device.stream.destroy();
    await waitFor('the end of a stream from before', () => before.stream.destroyed, 10_000);
    const guest = await held;
    guest.stream.write('let through');
    await guest.until('let through');
    const after = await vmm.stream('vmmControl');
    after.stream.write('end 0\n');
    await silent;
  });

  test('what lies behind so many bytes of a file is cut off, and a file that is not there is told', async () => {
    await using vmm = await launch('cuts');
    const console = await vmm.stream('vmmConsole');
    await vmm.begin(
      command('make /whole', '/bin/sh', '-c', 'printf "memory and state" > /whole.new'),
      command('behind /state', '/whole', '11'),
      command('once', '/bin/sh', '-c', 'cat /state; echo'),
      backEnd,
    );
    await console.until('state\n');
    await using none = await launch('cuts-none');
    await assert.rejects(none.begin(command('behind /state', '/none', '0'), backEnd), /none ended with 2/);
  });

  test('a failure of a command is told, and nobody waits for the guest any more', async () => {
    await using vmm = await launch('fails');
    const console = await vmm.stream('vmmConsole');
    const waiting = assert.rejects(vmm.stream('vmmGuest'), {
      code: 'guest_failed',
      message: /the VMM was not started/,
    });
    await assert.rejects(vmm.begin(command('once', '/bin/sh', '-c', 'echo why >&2; exit 4'), backEnd), {
      code: 'guest_failed',
      message: /sh ended with 4/,
    });
    await console.until('why\n');
    await waiting;
    await assert.rejects(vmm.begin(backEnd), /the VMM was started before/);
    await using missing = await launch('missing');
    await assert.rejects(
      missing.begin(command('stay', '/no/such', 'program')),
      /such can't be started: .*ENOENT/,
    );
    await using early = await launch('early');
    await assert.rejects(
      early.begin(command('stay', '/bin/false'), command('once', '/bin/sleep', '100')),
      /false ended with 1/,
    );
    await waitFor(
      'it to end',
      async () => !(await place.client.list()).some(({ name }) => name === 'early'),
      10_000,
    );
  });

  test('a reader of the console that takes nothing is cut off, and the guest goes on', async () => {
    await using vmm = await launch('console');
    await vmm.begin(backEnd);
    const control = await vmm.stream('vmmControl');
    const stalled = await vmm.ask('vmmConsole');
    const idle = stalled.detach();
    await control.say('flood 8000');
    await control.say('say the end');
    const after = await vmm.stream('vmmConsole');
    await after.until(/the end\n$/);
    assert.equal(after.text.length, 65_536, 'the last bytes are kept');
    const rest = new Text(idle);
    await rest.ended;
    assert.ok(rest.text.length < 8_000 * 1024 && !rest.text.includes('the end'));
  });

  test('squash-vmm and what it runs have no capability, and of its descriptors nothing but their own', async () => {
    await using vmm = await launch('rights');
    const console = await vmm.stream('vmmConsole');
    await vmm.begin(command('once', '/bin/sh', '-c', 'cat /proc/1/maps; true'), backEnd);
    const control = await vmm.stream('vmmControl');
    await control.say('rights');
    await control.say('say over');
    const told = await console.until('over\n');
    assert.match(told, /^cat: [^\n]*Permission denied\nback end listens\n/);
    for (const kind of ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb'])
      assert.match(told, new RegExp(`Cap${kind}:\t0{16}\n`));
    assert.match(told, /SigBlk:\t0{16}\n/);
    const descriptors = [...told.matchAll(/^fd (\d+) (\S+)$/gm)].map(([, fd, where]) => `${fd} ${where}`);
    const kinds = descriptors
      .filter((line) => !line.includes('/proc/'))
      .map((line) => line.replace(/\[\d+\]/, ''));
    assert.deepEqual(kinds.sort(), [
      '0 /dev/null',
      '1 pipe:',
      '2 pipe:',
      // Its two listeners, and this control connection.
      ...[3, 4, 5].map((fd) => `${fd} socket:`),
    ]);
  });

  test('what is no request is refused, and the next one is answered', async () => {
    await using vmm = await launch('garbage');
    const raw = async (bytes: Uint8Array): Promise<Frame> => {
      using connection = new FrameConnection(await vmm.connect());
      await connection.send(bytes);
      return await connection.next(10_000);
    };
    const header = (type: number, length: number): Uint8Array => {
      const bytes = new Uint8Array(frameHeaderBytes);
      new DataView(bytes.buffer).setUint32(0, length, true);
      bytes[4] = type;
      return bytes;
    };
    const refused: readonly Uint8Array[] = [
      new Uint8Array(64).fill(0xff),
      header(0, 0),
      header(frameTypes.vmmStart, 262_144),
      header(frameTypes.exec, 0),
      encodeFields('vmmConsole', [['port', 1]]),
      encodeFields('vmmControl', [['socket', '/a']]),
      // Nothing was started yet.
      encodeFields('vmmMemory', []),
      encodeFields('vmmGuest', [['port', 0]]),
      encodeFields('vmmGuest', [['port', 65_536]]),
      encodeFields('vmmGuest', [['path', '/']]),
      encodeFields('vmmStart', []),
      encodeFields('vmmStart', [...paths]),
      encodeFields('vmmStart', [...paths, ...paths, backEnd]),
      encodeFields('vmmStart', [...paths, command('stay')]),
      encodeFields('vmmStart', [...paths, command('never', '/bin/true')]),
      encodeFields('vmmStart', [...paths, command('stay run', '/bin/true')]),
      encodeFields('vmmStart', [...paths, command('once', '/bin/true\0')]),
      encodeFields('vmmStart', [...paths, command('once', ...Array.from({ length: 513 }, () => 'w'))]),
      encodeFields('vmmStart', [...paths, ...Array.from({ length: 17 }, () => backEnd)]),
      encodeFields('vmmStart', [['socket', `/${'s'.repeat(120)}`], ['control', '/c'], backEnd]),
    ];
    for (const [index, bytes] of refused.entries()) {
      const frame = await raw(bytes);
      assert.equal(frame.type, 'error', `request ${index}`);
      assert.match(
        refuse(frame, 'it').message,
        /^it: [a-zA-Z ,'-]+(: invalid argument \(EINVAL\))?\.$/,
        `request ${index}`,
      );
    }
    (await vmm.connect()).destroy();
    const info = await new GuestClient({ connect: async () => vmm.connect() }).info();
    assert.equal(info.protocol, 1);
    await vmm.begin(backEnd);
  });

  test('a file of the data directory is there for reading alone, and only for a VMM', async () => {
    const path = join(place.dataDir, 'modules/drive.img');
    writeFileSync(path, 'drive\n');
    chmodSync(path, 0o666);
    const mount = {
      mode: 'ro',
      kind: 'file',
      identity: '-',
      source: 'modules/drive.img',
      target: '/drives/l0',
    } as const;
    await using vmm = await launch('drives', {
      mounts: [mount, { ...mount, target: '/boot/deep/initrd' }],
    });
    const console = await vmm.stream('vmmConsole');
    const line =
      'cat /drives/l0 /boot/deep/initrd; echo x >> /drives/l0; rm -f /drives/l0; grep -c "ro,nosuid,nodev,noexec.* /modules/drive\\|drives/l0 ro,nosuid,nodev,noexec" /proc/self/mountinfo; echo over';
    await vmm.begin(command('once', '/bin/sh', '-c', line), backEnd);
    const told = await console.until('over\n');
    assert.match(told, /^drive\ndrive\n.*can't create \/drives\/l0: Read-only file system\n/);
    assert.match(told, /rm: can't remove '\/drives\/l0': [^]*\n1\nover\n/);
    const volume = { path: 'volumes/v', kind: 'directory', bytesMax: 2 ** 20, inodesMax: 64 };
    await place.client.createVolume(volume);
    const data = {
      mode: 'rw',
      kind: 'directory',
      identity: '-',
      source: volume.path,
      target: '/data',
    } as const;
    await place.client.attachMount(vmm.start.name, data);
    await place.client.detachMount(vmm.start.name, data);
    const refusals: readonly (readonly [Partial<LaunchStart>, string])[] = [
      [{ mounts: [{ ...mount, source: 'modules/missing' }] }, 'host_path_refused'],
      [{ mounts: [{ ...mount, source: 'modules' }] }, 'host_path_refused'],
      [{ mounts: [{ ...mount, source: '../../etc/passwd' }] }, 'invalid_request'],
      [{ mounts: [{ ...mount, mode: 'rw' }] }, 'invalid_request'],
      [{ mounts: [{ ...mount, kind: 'bind' }] }, 'invalid_request'],
      [{ mounts: [{ ...mount, target: '/bin/sh' }] }, 'mount_refused'],
      [{ mounts: [mount], vmm: false }, 'invalid_request'],
      [{ hostRoot: { uid: 0, gid: 0, places: [] }, lowers: [] }, 'invalid_request'],
    ];
    for (const [index, [changes, code]] of refusals.entries()) {
      await assert.rejects(launch(`refused${index}`, changes), { code }, `refusal ${index}`);
      await place.client.removeTree(`sandboxes/refused${index}`);
    }
    chmodSync(path, 0o600);
    await assert.rejects(launch('closed', { mounts: [mount] }), /can't be read by the sandbox: chmod o\+r/);
    await place.client.removeTree('sandboxes/closed');
  });

  const spareTest = async (): Promise<void> => {
    const spares = (): readonly number[] =>
      processesOf(place.dataDir)
        .filter(({ command: title }) => title.startsWith('squash-launch spare '))
        .map(({ pid }) => pid);
    await waitFor('spares', () => spares().length === 3, 20_000);
    const before = spares();
    await using vmm = await launch('spare');
    await vmm.begin(backEnd);
    await waitFor('spares', () => spares().length === 3, 20_000);
    const between = spares();
    assert.equal(before.filter((pid) => between.includes(pid)).length, 2, 'one was taken');
    await using box = await launchSandbox(place, 'beside');
    assert.equal((await box.sh('echo fine')).output, 'fine\n');
  };
  // Elsewhere no sandbox is begun before it is wanted.
  if (place.mode === 'default' || place.mode === 'single')
    test('a spare becomes squash-vmm as well as squash-init', spareTest);

  if (silent !== undefined)
    test('a guest that answers something else, or not at all, is given up', async () => silent);
});
