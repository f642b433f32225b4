/** The client against a PID 1 that root in the sandbox has replaced: every breach is `guest_failed`, nothing hangs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { encodeData, encodeFields } from '@squash/contract/guest/codec';
import type { FieldName } from '@squash/contract/guest/frames';
import fc from 'fast-check';
import { GuestClient } from './client.ts';
import type { GuestExec } from './guest.ts';
import { specOf } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

type Script = (socket: Socket) => void;

/** A server that plays PID 1 as the script says, one script per connection. */
class HostileGuest implements AsyncDisposable {
  readonly client: GuestClient;
  #script: Script = (socket) => socket.destroy();
  readonly #directory: string;
  readonly #server = createServer({ allowHalfOpen: true });
  readonly #sockets = new Set<Socket>();
  readonly #dialled: Socket[] = [];

  private constructor(directory: string) {
    this.#directory = directory;
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => socket.destroy()).on('close', () => this.#sockets.delete(socket));
      socket.once('data', () => this.#script(socket));
    });
    this.client = new GuestClient({
      connect: async () => {
        const socket = createConnection({ path: join(directory, 's'), allowHalfOpen: true });
        await once(socket, 'connect');
        this.#dialled.push(socket);
        return socket;
      },
      answerDeadlineMs: 200,
      workDeadlineMs: 300,
    });
  }

  static async start(): Promise<HostileGuest> {
    const directory = await mkdtemp(join(tmpdir(), 'squash-hostile-'));
    const guest = new HostileGuest(directory);
    guest.#server.listen(join(directory, 's'));
    await once(guest.#server, 'listening');
    return guest;
  }

  /** Connections that the client has not ended. */
  get open(): number {
    return this.#dialled.filter((socket) => !socket.destroyed).length;
  }

  plays(script: Script | Uint8Array[]): GuestClient {
    this.#script = typeof script === 'function' ? script : (socket) => socket.write(Buffer.concat(script));
    return this.client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await this.#server[Symbol.asyncDispose]();
    await rm(this.#directory, { recursive: true });
  }
}

type Values = readonly (readonly [FieldName, number | string | Uint8Array])[];

const spec = specOf(['true'], { stdin: 'pipe' });
const startedFields: Values = [
  ['execId', spec.execId],
  ['pid', 7],
  ['stdoutOffset', 0],
  ['stderrOffset', 0],
  ['offset', 0],
  ['length', 0],
];
const started = encodeFields('started', startedFields);
const exitFields: Values = [
  ['exitCode', 0],
  ['timedOut', 0],
  ['userUs', 1],
  ['systemUs', 1],
  ['rssMaxKib', 1],
  ['stdoutOffset', 0],
  ['stderrOffset', 0],
];
const exit = encodeFields('exit', exitFields);

/** The same fields with one changed, one left out, or one more. */
const changed = (fields: Values, name: FieldName, value: number | string): Values =>
  fields.map(([key, old]) => [key, key === name ? value : old] as const);
const without = (fields: Values, name: FieldName): Values => fields.filter(([key]) => key !== name);

const isBreach = (error: unknown): boolean => error instanceof AppError && error.code === 'guest_failed';

async function readAll(exec: GuestExec): Promise<number> {
  let events = 0;
  for await (const _event of exec.events()) events += 1;
  exec.close();
  return events;
}

async function* pieces(count: number): AsyncGenerator<Uint8Array, void, void> {
  for (let sent = 0; sent < count; sent += 1) yield new Uint8Array(65_536);
}

test('a well-behaved script is accepted, so that the refusals below mean something', async () => {
  await using guest = await HostileGuest.start();
  const exec = await guest.plays([started, exit]).exec(spec);
  assert.equal(await readAll(exec), 1);
});

test('exec refuses every wrong answer to the request', async () => {
  await using guest = await HostileGuest.start();
  const answers: Record<string, Uint8Array> = {
    'another exec id': encodeFields('started', changed(startedFields, 'execId', 'other')),
    'pid 0': encodeFields('started', changed(startedFields, 'pid', 0)),
    'a pid above what the kernel gives': encodeFields('started', changed(startedFields, 'pid', 4_194_305)),
    'output that began elsewhere': encodeFields('started', changed(startedFields, 'stdoutOffset', 1)),
    'more stdin kept than received': encodeFields('started', changed(startedFields, 'length', 1)),
    'no pid': encodeFields('started', without(startedFields, 'pid')),
    'two pids': encodeFields('started', [...startedFields, ['pid', 7]]),
    'a field too many': encodeFields('started', [...startedFields, ['port', 7]]),
    'output before the start': encodeData('stdout', Buffer.from('x')),
    'an exit before the start': exit,
    'a request': encodeFields('exec', []),
    'an error without fields': encodeFields('error', []),
    'an errno that is none': encodeFields('error', [
      ['errorCode', 'exec_failed'],
      ['errno', 5000],
      ['message', 'x'],
    ]),
    'an endless message': encodeFields('error', [
      ['errorCode', 'exec_failed'],
      ['errno', 2],
      ['message', 'x'.repeat(600)],
    ]),
    'a code that is not ours': encodeFields('error', [
      ['errorCode', 'internal'],
      ['errno', 2],
      ['message', 'x'],
    ]),
    'no frame': Buffer.from('HTTP/1.1 200 OK\r\n\r\n'),
    'a frame of 4 GiB': Buffer.from('ffffffff81000000', 'hex'),
  };
  for (const [name, answer] of Object.entries(answers)) {
    await assert.rejects(guest.plays([answer]).exec(spec), isBreach, name);
  }
});

test('a running command refuses every frame and total that can not be', async () => {
  await using guest = await HostileGuest.start();
  const byte = encodeData('stdout', Buffer.from('x'));
  const scripts: Record<string, Uint8Array[]> = {
    'two starts': [started, started],
    'an empty output frame': [started, encodeData('stderr', new Uint8Array(0))],
    'more than a window': [started, encodeData('stdout', Buffer.alloc(65_536)), byte],
    'more than a window of stderr': [
      started,
      encodeData('stderr', Buffer.alloc(65_536)),
      encodeData('stderr', Buffer.alloc(1)),
    ],
    'a total above what was sent': [started, encodeFields('exit', changed(exitFields, 'stdoutOffset', 1))],
    'a total below what was sent': [started, byte, exit],
    'an exit code of 256': [started, encodeFields('exit', changed(exitFields, 'exitCode', 256))],
    'signal 0': [started, encodeFields('exit', [...without(exitFields, 'exitCode'), ['exitSignal', 0]])],
    'signal 65': [started, encodeFields('exit', [...without(exitFields, 'exitCode'), ['exitSignal', 65]])],
    'neither code nor signal': [started, encodeFields('exit', without(exitFields, 'exitCode'))],
    'code and signal': [started, encodeFields('exit', [...exitFields, ['exitSignal', 9]])],
    'no total': [started, encodeFields('exit', without(exitFields, 'stderrOffset'))],
    'acknowledged stdin that was not sent': [started, encodeFields('ack', [['offset', 1]])],
    'an acknowledgment of nothing': [started, encodeFields('ack', [['offset', 0]])],
    'an error behind the start': [
      started,
      encodeFields('error', [
        ['errorCode', 'limit'],
        ['errno', 0],
        ['message', 'x'],
      ]),
    ],
    'file data': [started, encodeData('data', Buffer.from('x'))],
    'stdin in the wrong direction': [started, encodeData('stdin', Buffer.from('x'))],
    'a frame that is none': [started, Buffer.from('0000000000000000', 'hex')],
  };
  for (const [name, script] of Object.entries(scripts)) {
    const run = async (): Promise<void> => {
      await readAll(await guest.plays(script).exec(spec));
    };
    await assert.rejects(run, isBreach, name);
  }
});

test('a connection that ends without an exit is a failure for reader and writer', async () => {
  await using guest = await HostileGuest.start();
  const exec = await guest.plays((socket) => socket.end(started)).exec(spec);
  const writing = exec.writeStdin(Buffer.alloc(1_000_000));
  await assert.rejects(readAll(exec), isBreach);
  await assert.rejects(writing, isBreach);
});

test('what follows the exit is not read', async () => {
  await using guest = await HostileGuest.start();
  const flood: Script = (socket) => {
    socket.write(Buffer.concat([started, exit]));
    const more = (): void => {
      while (socket.writable && socket.write(encodeData('stdout', Buffer.alloc(65_536)))) continue;
    };
    socket.on('drain', more);
    more();
  };
  const exec = await guest.plays(flood).exec(spec);
  for await (const event of exec.events()) assert.equal(event.type, 'exit');
  exec.release();
});

test('a guest that does not answer is given up', async () => {
  await using guest = await HostileGuest.start();
  guest.plays(() => undefined);
  await assert.rejects(guest.client.exec(spec), /did not answer within 200 ms/);
  await assert.rejects(guest.client.info(), /did not answer/);
  await assert.rejects(guest.client.files.stat('/'), /did not answer/);
  await assert.rejects(guest.client.dial(80), /did not answer/);
  await assert.rejects(guest.client.files.read('/x').next(), /did not answer/);
  await assert.rejects(guest.client.files.makeDirectory('/x'), /did not answer within 200 ms/);
  await assert.rejects(guest.client.files.move('/x', '/y'), /did not answer within 200 ms/);
  await assert.rejects(guest.client.files.remove('/x'), /did not answer within 200 ms/);
  await assert.rejects(guest.client.files.remove('/x', { recursive: true }), /did not answer within 300 ms/);
  await assert.rejects(guest.client.files.write('/x', pieces(1)), /did not answer within 300 ms/);
  // It reads nothing either: its socket is full long before the last piece.
  guest.plays((socket) => socket.pause());
  await assert.rejects(guest.client.files.write('/x', pieces(1_000)), /did not answer within 300 ms/);
  const aborted = AbortSignal.abort(new Error('enough'));
  await assert.rejects(guest.client.exec(spec, aborted), /enough/);
  const later = new AbortController();
  const pending = guest.client.info(later.signal);
  later.abort(new Error('enough'));
  await assert.rejects(pending, /enough/);
});

test('a list of endless commands is a breach', async () => {
  await using guest = await HostileGuest.start();
  const entry = encodeFields('entry', [
    ['execId', 'x'],
    ['pid', 1],
    ['running', 0],
  ]);
  await assert.rejects(guest.plays(Array.from({ length: 1025 }, () => entry)).list(), isBreach);
  const odd = encodeFields('entry', [
    ['execId', 'x'],
    ['pid', 1],
    ['running', 2],
  ]);
  await assert.rejects(guest.plays([odd]).list(), isBreach);
});

test('file answers are checked', async () => {
  await using guest = await HostileGuest.start();
  const statFields: Values = [
    ['fileType', 1],
    ['size', 1],
    ['mode', 0o644],
    ['uid', 0],
    ['gid', 0],
    ['mtimeMs', 0],
  ];
  const entry = (fields: Values): Uint8Array => encodeFields('entry', fields);
  assert.equal((await guest.plays([entry(statFields)]).files.stat('/')).size, 1);
  for (const fields of [
    changed(statFields, 'fileType', 0),
    changed(statFields, 'mode', 0o10000),
    changed(statFields, 'uid', 2 ** 32),
    without(statFields, 'size'),
    [...statFields, ['path', 'x'] as const],
  ]) {
    await assert.rejects(guest.plays([entry(fields)]).files.stat('/'), isBreach);
  }
  for (const name of ['', '.', '..', 'a/b', '/', 'a\0', 'x'.repeat(256)]) {
    const listing = guest.plays([entry([['path', name], ...statFields])]).files.list('/');
    await assert.rejects(listing.next(), isBreach, JSON.stringify(name));
  }
  const named = entry([['path', 'a'], ...statFields]);
  const flooded = guest.plays([named, named, named]).files.list('/', { entriesMax: 2 });
  for (const _ of [1, 2]) assert.equal((await flooded.next()).done, false);
  await assert.rejects(flooded.next(), isBreach);
  const deep = entry([['path', 'a/b/c'], ...statFields]);
  await assert.rejects(guest.plays([deep]).files.list('/', { depth: 2 }).next(), isBreach);
  const found: Values = [
    ['path', 'a'],
    ['line', 1],
    ['column', 1],
    ['offset', 0],
    ['text', 'x'],
  ];
  const search = (...frames: Uint8Array[]) =>
    guest.plays(frames).files.search('/', { text: 'x', matchesMax: 1 });
  assert.equal((await search(entry(found)).next()).done, false);
  for (const fields of [
    changed(found, 'path', '../a'),
    changed(found, 'line', 0),
    changed(found, 'text', 'x'.repeat(4_097)),
    without(found, 'column'),
  ]) {
    await assert.rejects(search(entry(fields)).next(), isBreach);
  }
  const many = search(entry(found), entry(found));
  await many.next();
  await assert.rejects(many.next(), isBreach);
  const forEver = Array.from({ length: 86_401 }, () => encodeFields('progress', []));
  await assert.rejects(
    guest.plays([Buffer.concat(forEver)]).files.remove('/x', { recursive: true }),
    isBreach,
  );
  const range = { offset: 0, length: 4 };
  await assert.rejects(
    guest
      .plays([encodeData('data', Buffer.alloc(5))])
      .files.read('/', range)
      .next(),
    isBreach,
  );
  await assert.rejects(
    guest
      .plays([encodeData('data', Buffer.alloc(0))])
      .files.read('/')
      .next(),
    isBreach,
  );
  await assert.rejects(
    guest
      .plays([encodeData('stdout', Buffer.alloc(1))])
      .files.read('/')
      .next(),
    isBreach,
  );
  await assert.rejects(guest.plays([encodeFields('ok', [['pid', 1]])]).files.remove('/x'), isBreach);
  const ok = encodeFields('ok', []);
  for (const [change, path] of [
    ['created', '/abs'],
    ['created', '../up'],
    ['created', 'a//b'],
    ['grown', 'a'],
    ['created', 'a/.'],
  ] as const) {
    const watch = await guest
      .plays([
        ok,
        encodeFields('event', [
          ['change', change],
          ['path', path],
        ]),
      ])
      .files.watch('/');
    await assert.rejects(watch.next(), isBreach, `${change} ${path}`);
  }
});

test('a file that floods is held back while its reader pauses', async () => {
  await using guest = await HostileGuest.start();
  let sent = 0;
  const flood: Script = (socket) => {
    const more = (): void => {
      for (let room = true; room && socket.writable; sent += 65_536)
        room = socket.write(encodeData('data', Buffer.alloc(65_536)));
    };
    socket.on('drain', more);
    more();
  };
  const reading = guest.plays(flood).files.read('/endless');
  await reading.next();
  let last = -1;
  for (let unchanged = 0; unchanged < 20; unchanged = last === sent ? unchanged + 1 : 0) {
    last = sent;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(sent < 5_000_000, `${sent} bytes were taken`);
  await reading.return(undefined);
});

test('any frames in any order end in events, an exit or guest_failed', async () => {
  await using guest = await HostileGuest.start();
  const field: fc.Arbitrary<readonly [FieldName, number | string]> = fc.oneof(
    fc.tuple(
      fc.constantFrom<FieldName>('pid', 'offset', 'stdoutOffset', 'exitCode', 'errno', 'length'),
      fc.nat(70_000),
    ),
    fc.tuple(fc.constantFrom<FieldName>('execId', 'errorCode', 'message'), fc.string({ maxLength: 20 })),
  );
  const anyFrame = fc.oneof(
    fc.constantFrom(started, exit),
    fc
      .tuple(fc.constantFrom('stdout', 'stderr', 'data', 'stdin'), fc.uint8Array({ maxLength: 300 }))
      .map(([type, data]) => encodeData(type as 'stdout', data)),
    fc
      .tuple(
        fc.constantFrom('started', 'exit', 'ack', 'error', 'ok', 'end', 'event'),
        fc.array(field, { maxLength: 6 }),
      )
      .map(([type, fields]) => encodeFields(type as 'ok', fields)),
    fc.uint8Array({ maxLength: 20 }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(anyFrame, { maxLength: 6 }), async (frames) => {
      guest.plays((socket) => socket.end(Buffer.concat([started, ...frames])));
      try {
        await readAll(await guest.client.exec(spec));
      } catch (error) {
        assert.ok(isBreach(error), String(error));
      }
    }),
    { numRuns: 300 },
  );
});

/** One connection's part: the command, then what follows its release, then what follows the next request there. */
const keeping =
  (behindRelease: readonly Uint8Array[], next: (socket: Socket) => void): Script =>
  (socket) => {
    socket.write(Buffer.concat([started, exit]));
    socket.once('data', () => {
      socket.write(Buffer.concat(behindRelease));
      socket.once('data', () => next(socket));
    });
  };

async function runAndRelease(client: GuestClient): Promise<void> {
  const exec = await client.exec(spec);
  for await (const _event of exec.events());
  exec.release();
  // Whatever is said to the release has come.
  await new Promise((resolve) => setTimeout(resolve, 50));
}

for (const [what, script] of [
  ['says nothing to a release', keeping([new Uint8Array(0)], (socket) => socket.destroy())],
  ['says another thing', keeping([started], (socket) => socket.destroy())],
  ['says more than `ok`', keeping([encodeFields('ok', []), exit], (socket) => socket.destroy())],
  ['ends it with the next request', keeping([encodeFields('ok', [])], (socket) => socket.destroy())],
] as const) {
  test(`a guest that ${what} has its commands started all the same`, async () => {
    await using guest = await HostileGuest.start();
    const client = guest.plays(script);
    for (let run = 0; run < 4; run += 1) await runAndRelease(client);
  });
}

test('a guest that ends every connection has a command asked of it twice, and no more', async () => {
  await using guest = await HostileGuest.start();
  const client = guest.plays(keeping([encodeFields('ok', [])], (socket) => socket.destroy()));
  await runAndRelease(client);
  let asked = 0;
  guest.plays((socket) => {
    asked += 1;
    socket.destroy();
  });
  await assert.rejects(client.exec(spec), isBreach);
  assert.equal(asked, 1);
});

test('a guest that reads nothing, and says that it did and that its command ended, keeps no connection', async () => {
  await using guest = await HostileGuest.start();
  const client = guest.plays((socket) => {
    socket.pause();
    const frames = [started, ...[1, 2, 3].map((n) => encodeFields('ack', [['offset', n * 65_536]])), exit];
    for (const [at, frame] of frames.entries()) setTimeout(() => socket.write(frame), 50 * at);
  });
  const execs = await Promise.all(Array.from({ length: 8 }, async () => await client.exec(spec)));
  const writes = execs.map((exec) => exec.writeStdin(Buffer.alloc(16 * 65_536)));
  for (const exec of execs) {
    for await (const _event of exec.events());
    exec.release();
  }
  await waitFor('the connections end', () => guest.open === 0, 5_000);
  await Promise.all(writes);
});
