/** `/v1/sandboxes/{id}/files`: what clients do with a sandbox's files, and what they and a sandbox can do wrong. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import type { FileInfo, FilePage } from '@squash/contract/file';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

let daemon: TestDaemon;
let box: string;
before(async () => {
  daemon = await TestDaemon.start();
  box = (await daemon.call('POST', '/v1/sandboxes', {})).id;
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
});

type Query = Readonly<Record<string, string>>;

function addressOf(query: Query, more = ''): string {
  return `${daemon.url}/v1/sandboxes/${box}/files${more}?${new URLSearchParams(query).toString()}`;
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests say what they expect of it
async function body(response: Response): Promise<any> {
  return await response.json();
}

/** @param query what the address says besides; header fields have capitals */
async function put(path: string, content: string | Buffer, query: Query = {}) {
  const isHeader = ([name]: [string, string]): boolean => /^[A-Z]/.test(name);
  const headers = Object.fromEntries(Object.entries(query).filter(isHeader));
  const rest = Object.fromEntries(Object.entries(query).filter((each) => !isHeader(each)));
  const response = await fetch(addressOf({ path, ...rest }), { method: 'PUT', body: content, headers });
  return { status: response.status, json: await body(response), etag: response.headers.get('etag') ?? '' };
}

async function get(path: string, headers: Query = {}, method = 'GET') {
  const response = await fetch(addressOf({ path }), { method, headers });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

async function ask(more: string, query: Query) {
  return await daemon.request('GET', addressOf(query, more).slice(daemon.url.length));
}

async function post(more: string, body: unknown) {
  return await daemon.request('POST', `/v1/sandboxes/${box}/files${more}`, body);
}

async function sh(cmd: string): Promise<string> {
  const {
    exit_code: code,
    stdout,
    stderr,
  } = await daemon.call('POST', `/cgi-bin/api/sandboxes/${box}/exec`, { cmd });
  assert.equal(code, 0, `${cmd}: ${String(stderr)}`);
  return stdout;
}

async function pages(more: string, query: Query): Promise<FileInfo[]> {
  const items: FileInfo[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const answer = await ask(more, { ...query, ...(cursor === '' ? {} : { cursor }) });
    assert.equal(answer.status, 200, answer.text);
    const found = answer.json as FilePage;
    items.push(...found.items);
    cursor = found.next;
  }
  return items;
}

describe('one file', () => {
  it('is written whole and read whole, in ranges, and only where it changed', async () => {
    const written = await put('/root/a/b/file', '0123456789', { parents: 'true', mode: '640' });
    assert.equal(written.status, 200);
    const { type, size, mode, etag } = written.json as FileInfo;
    assert.deepEqual({ type, size, mode }, { type: 'file', size: 10, mode: '0640' });
    assert.equal(etag, written.etag);
    const whole = await get('/root/a/b/file');
    assert.deepEqual([whole.status, whole.text, whole.headers.get('etag')], [200, '0123456789', etag]);
    assert.equal(whole.headers.get('content-length'), '10');
    for (const [range, content, text] of [
      ['bytes=2-4', 'bytes 2-4/10', '234'],
      ['bytes=7-', 'bytes 7-9/10', '789'],
      ['bytes=-3', 'bytes 7-9/10', '789'],
      ['bytes=-99', 'bytes 0-9/10', '0123456789'],
      ['bytes=9-99', 'bytes 9-9/10', '9'],
    ] as const) {
      const part = await get('/root/a/b/file', { range });
      assert.deepEqual(
        [part.status, part.headers.get('content-range'), part.text],
        [206, content, text],
        range,
      );
    }
    const behind = await get('/root/a/b/file', { range: 'bytes=10-' });
    assert.deepEqual([behind.status, behind.headers.get('content-range')], [416, 'bytes */10']);
    for (const range of ['bytes=4-2', 'bytes=0-1,3-4', 'lines=1-2', 'bytes=-']) {
      assert.equal((await get('/root/a/b/file', { range })).status, 200, range);
    }
    assert.equal((await get('/root/a/b/file', { range: 'bytes=0-1', 'if-range': written.etag })).status, 206);
    assert.equal((await get('/root/a/b/file', { range: 'bytes=0-1', 'if-range': '"old"' })).status, 200);
    assert.equal((await get('/root/a/b/file', { 'if-none-match': `"x", ${written.etag}` })).status, 304);
    const head = await get('/root/a/b/file', {}, 'HEAD');
    assert.deepEqual(
      [head.status, head.headers.get('content-length'), head.headers.get('etag')],
      [200, '10', etag],
    );
  });

  it('is new, or in a known state, where the request says so', async () => {
    const first = await put('/root/once', 'first', { 'If-None-Match': '*' });
    assert.equal(first.status, 200);
    const again = await put('/root/once', 'again', { 'If-None-Match': '*' });
    assert.deepEqual([again.status, again.json.code], [412, 'precondition_failed']);
    assert.equal((await put('/root/once', 'second', { 'If-Match': first.etag })).status, 200);
    assert.equal(
      (await put('/root/once', 'third', { 'If-Match': first.etag })).json.code,
      'precondition_failed',
    );
    assert.equal((await put('/root/once', 'x', { 'If-Match': '*' })).json.code, 'invalid_request');
    assert.equal(
      (await put('/root/once', 'x', { 'Content-Range': 'bytes 0-0/7' })).json.code,
      'invalid_request',
    );
    assert.equal((await put('/root/once', 'x', { 'Content-Encoding': 'gzip' })).status, 415);
    assert.equal((await put('/root/once', '+', { append: 'true' })).status, 200);
    assert.equal((await get('/root/once')).text, 'second+');
  });

  it('of /proc is read although it says it is empty', async () => {
    assert.match((await get('/proc/self/status')).text, /^Name:\t/);
    assert.equal((await put('/root/empty', '')).status, 200);
    assert.equal((await get('/root/empty')).text, '');
  });

  it('that can not be had is refused with a code for each reason', async () => {
    await sh(
      'mkdir -p /root/refusals/full; mkfifo /root/refusals/fifo; ln -s loop /root/refusals/loop; : > /root/refusals/full/x',
    );
    for (const [path, code] of [
      ['/root/nothing', 'file_not_found'],
      ['/root/once/below', 'not_a_directory'],
      ['/root', 'is_a_directory'],
      ['/root/refusals/fifo', 'not_a_file'],
      ['/dev/zero', 'not_a_file'],
      ['/root/refusals/loop', 'path_invalid'],
      ['relative', 'invalid_request'],
    ] as const) {
      assert.equal(JSON.parse((await get(path)).text).code, code, path);
    }
    assert.equal((await ask('', {})).json.code, 'invalid_request');
    assert.equal(
      (await ask('/stat', { path: '/etc', path_base64: 'L2V0Yw==' })).json.code,
      'invalid_request',
    );
    assert.equal((await ask('/stat', { path_base64: 'ZXRj' })).json.code, 'invalid_request');
    assert.equal((await put('/root/refusals', 'x')).json.code, 'is_a_directory');
    assert.equal((await put('/root/missing/file', 'x')).json.code, 'file_not_found');
    const remove = (query: Query) => daemon.request('DELETE', addressOf(query).slice(daemon.url.length));
    assert.equal((await remove({ path: '/root/refusals' })).json.code, 'directory_not_empty');
    assert.equal((await remove({ path: '/root/refusals', recursive: 'true' })).status, 204);
    assert.equal((await ask('/list', { path: '/root', unknown: '1' })).json.code, 'invalid_request');
  });

  it('is another user’s to read and write only as its mode says', async (t) => {
    await put('/root/secret', 'x', { mode: '600' });
    await sh('chmod 755 /root; mkdir -p /root/shared && chmod 777 /root/shared');
    const answer = await ask('', { path: '/root/secret', as: '12345' });
    if (answer.status === 200 || answer.json?.code === 'file_failed') {
      t.skip('single-id mode: there is no other user to be without subordinate ids');
      return;
    }
    assert.deepEqual([answer.status, answer.json.code], [403, 'permission_denied']);
    const mine = await put('/root/shared/mine', 'x', { as: '12345:23456' });
    assert.deepEqual([mine.json.uid, mine.json.gid], [12_345, 23_456]);
    assert.equal((await put('/root/shared/given', 'x', { uid: '7' })).json.uid, 7);
  });
});

/** Sends a part of what it announces, and goes away. */
async function breakOff(address: string, bytes: number): Promise<void> {
  const sent = request(address, { method: 'PUT', headers: { 'content-length': bytes * 2 } });
  sent.on('error', () => undefined);
  sent.write(Buffer.alloc(bytes));
  await once(sent, 'socket');
  await waitFor(
    'half of it is sent',
    () => sent.socket?.bytesWritten !== undefined && sent.socket.bytesWritten >= bytes,
  );
  sent.destroy();
}

describe('uploads', () => {
  it('that end early leave the old file, and nothing beside it', async () => {
    await put('/root/upload/file', 'old', { parents: 'true' });
    await breakOff(addressOf({ path: '/root/upload/file' }), 1_000_000);
    await breakOff(addressOf({ path: '/root/upload/new' }), 1_000_000);
    await waitFor('only the file is there', async () => (await sh('ls -A /root/upload')) === 'file\n');
    assert.equal((await get('/root/upload/file')).text, 'old');
  });

  it('of 300 MB go up and down in bounded memory, the same bytes', async () => {
    const piece = randomBytes(1_000_000);
    async function* pieces(): AsyncGenerator<Uint8Array> {
      for (let sent = 0; sent < 300; sent += 1) yield piece;
    }
    await sh('cat /proc/self/status >/dev/null');
    const before = memoryOf();
    let peak = before;
    const watching = setInterval(() => {
      peak = Math.max(peak, memoryOf());
    }, 20);
    try {
      // oxlint-disable-next-line typescript/consistent-type-assertions
      const options = { method: 'PUT', body: pieces(), duplex: 'half' } as unknown as RequestInit;
      const response = await fetch(addressOf({ path: '/root/large' }), options);
      assert.equal(((await response.json()) as FileInfo).size, 300_000_000);
      const read = await fetch(addressOf({ path: '/root/large' }));
      let bytes = 0;
      for await (const chunk of read.body ?? []) {
        const at = bytes % piece.length;
        const same = Buffer.from(chunk).subarray(0, piece.length - at);
        assert.ok(same.equals(piece.subarray(at, at + same.length)), `at ${bytes}`);
        bytes += chunk.length;
      }
      assert.equal(bytes, 300_000_000);
    } finally {
      clearInterval(watching);
    }
    assert.ok(peak - before < 150_000_000, `the daemon grew by ${peak - before} bytes`);
    await sh('rm /root/large');
  });

  it('and downloads of slow clients hold up neither others nor commands', async () => {
    await sh('truncate -s 100M /root/sparse');
    const stalled: IncomingMessage[] = [];
    for (let i = 0; i < 32; i += 1) {
      const sent = request(addressOf({ path: '/root/sparse' }), { agent: false });
      sent.end();
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      stalled.push(response);
    }
    assert.equal((await ask('', { path: '/root/sparse' })).json.code, 'stream_limit');
    assert.equal((await ask('/stat', { path: '/root/sparse' })).status, 200);
    assert.equal(await sh('echo x'), 'x\n');
    for (const response of stalled) response.destroy();
    await waitFor(
      'there is room again',
      async () => (await get('/root/sparse', { range: 'bytes=0-9' })).status === 206,
    );
  });
});

function memoryOf(): number {
  const status = execFileSync('grep', ['VmRSS', `/proc/${daemon.pid}/status`]).toString();
  return Number(/(\d+) kB/.exec(status)?.[1]) * 1024;
}

describe('trees', () => {
  it('are listed in pages, with names of any bytes, and found by patterns', async () => {
    await sh(`mkdir -p /root/tree/sub; cd /root/tree; for i in $(seq 1 250); do : > f$i; done
      printf x > "$(printf 'bad\\377name')"; printf x > "$(printf 'esc\\033[31m\\nline')"; : > sub/deep.ts; ln -s /etc sub/link`);
    const all = await pages('/list', { path: '/root/tree', depth: '5', limit: '100' });
    assert.equal(all.length, 255);
    const odd = all.find(({ path_base64: bytes }) => bytes !== undefined);
    assert.equal(Buffer.from(odd?.path_base64 ?? '', 'base64').toString('latin1'), 'bad\xffname');
    assert.ok(all.some(({ path }) => path === 'esc\u001b[31m\nline'));
    assert.equal(all.find(({ path }) => path === 'sub/link')?.target, '/etc');
    const path = Buffer.concat([Buffer.from('/root/tree/'), Buffer.from('bad\xffname', 'latin1')]).toString(
      'base64',
    );
    assert.equal((await ask('', { path_base64: path })).text, 'x');
    const moved = await post('/move', { from: { base64: path }, to: '/root/tree/good' });
    assert.equal(moved.json.path, '/root/tree/good', moved.text);
    const found = await pages('/glob', { path: '/root/tree', pattern: '**/{f1[0-9],*.ts}', limit: '3' });
    assert.deepEqual(
      found.map((each) => each.path),
      [...Array.from({ length: 10 }, (_, i) => `f1${i}`), 'sub/deep.ts'],
    );
    const refused = await ask('/glob', { path: '/root/tree', pattern: '[a' });
    assert.match(refused.text, /the pattern is not valid.*"invalid_request"/);
  });

  it('are searched, changed, copied, moved and linked', async () => {
    await put('/root/work/src/a.ts', 'one\nconst needle = 1;\n', { parents: 'true' });
    await put('/root/work/b.md', 'needle');
    const search = await ask('/search', {
      path: '/root/work',
      text: 'NEEDLE',
      ignore_case: 'true',
      pattern: '**/*.ts',
    });
    const match = { path: 'src/a.ts', line: 2, column: 7, text: 'const needle = 1;', text_offset: 0 };
    assert.deepEqual(search.json, { items: [match], truncated: false });
    assert.equal(
      (await ask('/search', { path: '/root/work', text: '(', regex: 'true' })).json.code,
      'invalid_request',
    );
    assert.equal((await ask('/search', { path: '/root/work', text: 'n', limit: '1' })).json.truncated, true);
    assert.equal((await post('/copy', { from: '/root/work', to: '/root/copy' })).json.code, 'is_a_directory');
    assert.equal(
      (await post('/copy', { from: '/root/work', to: '/root/copy', recursive: true })).status,
      200,
    );
    assert.equal(
      (await post('/copy', { from: '/root/work', to: '/root/copy', recursive: true })).json.code,
      'file_exists',
    );
    assert.equal(await sh('diff -r /root/work /root/copy && echo same'), 'same\n');
    assert.equal((await post('/link', { path: '/root/soft', target: 'work/b.md' })).json.target, 'work/b.md');
    assert.equal(
      (await post('/link', { path: '/root/hard', target: '/root/work/b.md', hard: true })).status,
      200,
    );
    assert.equal(await sh('cat /root/soft /root/hard'), 'needleneedle');
    const keep = { from: '/root/hard', to: '/root/soft', overwrite: false };
    assert.equal((await post('/move', keep)).json.code, 'file_exists');
    const change = addressOf({ path: '/root/copy' }).slice(daemon.url.length);
    const changed = await daemon.request('PATCH', change, { mode: '640', recursive: true });
    assert.equal(changed.json.mode, '0750', changed.text);
    const made = { path: '/root/new/one', parents: true, mode: '0700' };
    assert.equal((await post('/directory', made)).json.mode, '0700');
    assert.equal((await post('/directory', { path: '/root/new/one' })).json.code, 'file_exists');
  });

  it('of a layer are moved, although the kernel does not', async () => {
    const before = await sh('cd /usr && find . | sort | head -50');
    const { status, text } = await post('/move', { from: '/usr', to: '/root/usr' });
    assert.equal(status, 200, text);
    const stat = await ask('/stat', { path: '/usr' });
    assert.equal(stat.json.code, 'file_not_found');
    const back = await post('/move', { from: '/root/usr', to: '/usr' });
    assert.equal(back.status, 200, back.text);
    assert.equal(await sh('cd /usr && find . | sort | head -50'), before);
  });
});

describe('archives', () => {
  const unpack = async (tar: Buffer, query: Query) => {
    const response = await fetch(addressOf(query, '/archive'), { method: 'PUT', body: tar });
    return { status: response.status, json: await body(response) };
  };
  const packed = async (path: string) => {
    const response = await fetch(addressOf({ path }, '/archive'));
    return { status: response.status, tar: Buffer.from(await response.arrayBuffer()) };
  };

  it('go down and up again, and break off where they can not be whole', async () => {
    await sh('mkdir -p /root/packed/d; echo x > /root/packed/d/file; ln -s d/file /root/packed/link');
    const { status, tar } = await packed('/root/packed');
    assert.equal(status, 200);
    assert.deepEqual(execFileSync('tar', ['-t'], { input: tar }).toString().split('\n'), [
      'd',
      'd/file',
      'link',
      '',
    ]);
    const up = await unpack(tar, { path: '/root/unpacked', parents: 'true' });
    assert.deepEqual(up, { status: 200, json: { entries: 3, bytes: 2 } });
    assert.equal(await sh('diff -r /root/packed /root/unpacked && echo same'), 'same\n');
    assert.equal(
      (await unpack(tar.subarray(0, 700), { path: '/root/unpacked' })).json.code,
      'archive_invalid',
    );
    assert.equal(
      (await unpack(tar, { path: '/root/unpacked', entries_max: '2' })).json.code,
      'archive_invalid',
    );
    assert.equal((await packed('/root/nothing')).status, 404);
  });

  it('land nothing outside of the directory, through no link', async () => {
    const script = `
import io, sys, tarfile
out = io.BytesIO(); tar = tarfile.open(fileobj=out, mode="w")
def add(name, type=tarfile.REGTYPE, target="", data=b""):
    info = tarfile.TarInfo(name); info.type = type; info.linkname = target; info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
for step in sys.argv[1:]:
    name, _, target = step.partition("->")
    if target: add(name, tarfile.SYMTYPE, target)
    else: add(name, data=b"escaped")
tar.close(); sys.stdout.buffer.write(out.getvalue())
`;
    await sh('mkdir -p /root/outside /root/inside');
    for (const steps of [
      ['../outside/new'],
      ['/root/outside/new'],
      ['link->../outside', 'link/new'],
      ['link->/root/outside', 'link/new'],
      ['a->.', 'b->a/..', 'b/outside/new'],
      ['link->/proc/1/root', 'link/root/outside/new'],
    ]) {
      const tar = execFileSync('python3', ['-c', script, ...steps]);
      const { status, json } = await unpack(tar, { path: '/root/inside' });
      assert.deepEqual([status, json.code], [422, 'archive_invalid'], steps.join(' '));
      await sh('rm -rf /root/inside && mkdir /root/inside');
    }
    assert.equal(await sh('ls -A /root/outside'), '');
  });
});

interface Following {
  readonly next: (name: string) => Promise<string>;
  /** Of either name; undefined: of the other. */
  readonly nextOr: (name: string, other: string) => Promise<string | undefined>;
  readonly close: () => void;
}

/** Over the Unix socket, as a client beside the daemon. */
async function follow(query: Query): Promise<Following> {
  const path = addressOf(query, '/watch').slice(daemon.url.length);
  const sent = request({ path, socketPath: join(daemon.dataDir, 'run/api.sock'), agent: false });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  assert.equal(response.statusCode, 200, response.statusCode === 200 ? '' : await readText(response));
  const chunks = response.iterator({ destroyOnReturn: false });
  let text = '';
  /** The data of the next event of this name; others are passed over. */
  const next = async (name: string): Promise<string> => (await nextOr(name, name)) ?? '';
  const nextOr = async (name: string, other: string): Promise<string | undefined> => {
    for (;;) {
      const [, event, data = '', rest = ''] = /^event: (\w+)\ndata: (.*)\n\n([^]*)$/m.exec(text) ?? [];
      if (event !== undefined) text = rest;
      if (event === name) return data;
      if (event === other) return undefined;
      if (event !== undefined) continue;
      const chunk = await chunks.next();
      assert.ok(chunk.done !== true, `the stream ended before "${name}"`);
      text += String(chunk.value);
    }
  };
  await next('watching');
  return { next, nextOr, close: () => response.destroy() };
}

describe('watches', () => {
  it('tell what changes below, and end with what is watched', async () => {
    await sh('mkdir -p /root/watched/sub');
    const watch = await follow({ path: '/root/watched', recursive: 'true' });
    await put('/root/watched/sub/file', 'x');
    for (let path = ''; path !== 'sub/file'; ) path = JSON.parse(await watch.next('change')).path;
    await sh('rm -r /root/watched');
    await watch.next('end');
    watch.close();
    assert.equal((await ask('/watch', { path: '/root/watched' })).json.code, 'file_not_found');
  });

  it('may be a thousand in one sandbox, beside everything else', async () => {
    await sh('mkdir -p /root/many; cd /root/many; for i in $(seq 0 99); do mkdir d$i; done');
    const watches: Following[] = [];
    for (let at = 0; at < 1_000; at += 50) {
      const some = Array.from({ length: 50 }, (_, i) =>
        follow({ path: `/root/many/d${(at + i) % 100}`, recursive: 'true' }),
      );
      watches.push(...(await Promise.all(some)));
    }
    const heard = Promise.all(watches.map((watch) => watch.next('change')));
    await sh('for i in $(seq 0 99); do : > /root/many/d$i/file; done');
    for (const data of await heard) assert.equal(JSON.parse(data).path, 'file');
    assert.equal((await get('/root/many/d0/file')).status, 200);
    for (const watch of watches) watch.close();
    await waitFor(
      'nothing watches',
      async () => !(await sh('ls -l /proc/*/fd 2>/dev/null || :')).includes('inotify'),
    );
  });

  it('that nobody reads lose changes, say so, and hold up nobody', async () => {
    await sh('mkdir -p /root/busy');
    const unread = await follow({ path: '/root/busy' });
    const read = await follow({ path: '/root/busy' });
    for (let round = 0; round < 60; round += 1) {
      const name = `${'x'.repeat(200)}${round}`;
      const heard = (async () => {
        for (let path = ''; path !== `${name}-99`; ) {
          const data = await read.nextOr('change', 'overflow');
          // Who is slow for a moment may lose some as well, the last one among them.
          if (data === undefined) return;
          path = JSON.parse(data).path;
        }
      })();
      await sh(`cd /root/busy; for i in $(seq 0 99); do : > ${name}-$i; done`);
      await heard;
    }
    await unread.next('overflow');
    await put('/root/busy/last', '');
    for (let path = ''; path !== 'last'; ) path = JSON.parse(await unread.next('change')).path;
    unread.close();
    read.close();
  });
});
