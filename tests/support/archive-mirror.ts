/**
 * A small mirror on loopback, for presets: it serves real archives in the layouts and forms that their upstreams have, and
 * misbehaves where a test asks it to.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';

/** What goes wrong with a file, each time but for the last of `times`. */
export interface Fault {
  readonly kind: 'cut' | 'busy' | 'hang';
  times: number;
}

export class ArchiveMirror implements AsyncDisposable {
  readonly files = new Map<string, Buffer>();
  readonly faults = new Map<string, Fault>();
  /** `GET path` of each request, with its range. */
  readonly asked: string[] = [];
  readonly #server = createServer((request, response) => this.#serve(request, response));

  static async start(): Promise<ArchiveMirror> {
    const mirror = new ArchiveMirror();
    await new Promise<void>((resolve) => mirror.#server.listen(0, '127.0.0.1', resolve));
    return mirror;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** With the sum in a file of its own, as most upstreams have it. */
  put(path: string, data: Buffer): string {
    this.files.set(path, data);
    return sha256(data);
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const path = (request.url ?? '').slice(1);
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1];
    this.asked.push(range === undefined ? path : `${path} from ${range}`);
    const data = this.files.get(path);
    const fault = this.faults.get(path);
    if (data === undefined) {
      response.writeHead(404).end();
      return;
    }
    const isAtFault = fault !== undefined && fault.times > 0;
    if (isAtFault) fault.times -= 1;
    if (isAtFault && fault.kind === 'busy') {
      response.writeHead(503).end();
      return;
    }
    const start = Number(range ?? 0);
    const rest = data.subarray(start);
    const headers = { 'content-length': rest.length, etag: `"${sha256(data)}"` };
    if (range === undefined) response.writeHead(200, headers);
    else
      response.writeHead(206, {
        ...headers,
        'content-range': `bytes ${start}-${data.length - 1}/${data.length}`,
      });
    if (!isAtFault) response.end(rest);
    else if (fault.kind === 'hang') response.write(rest.subarray(0, 1_000));
    else
      response.write(rest.subarray(0, Math.ceil(rest.length / 3)), () => {
        response.socket?.end();
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

export function sha256(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}

export interface ArchiveEntry {
  readonly name: string;
  readonly type?: 'file' | 'dir' | 'link' | 'symlink' | 'char' | 'fifo';
  readonly data?: string | Buffer;
  readonly target?: string;
  readonly mode?: number;
  readonly uid?: number;
  readonly gid?: number;
}

/** Python's own tar module writes what GNU tar would refuse to. */
const writer = `
import base64, io, json, sys, tarfile
kinds = {'file': tarfile.REGTYPE, 'dir': tarfile.DIRTYPE, 'link': tarfile.LNKTYPE, 'symlink': tarfile.SYMTYPE, 'char': tarfile.CHRTYPE, 'fifo': tarfile.FIFOTYPE}
with tarfile.open(sys.argv[1], 'w', format=tarfile.PAX_FORMAT) as archive:
    for entry in json.load(sys.stdin):
        info = tarfile.TarInfo(entry['name'])
        info.type = kinds[entry['type']]
        info.mode, info.uid, info.gid, info.mtime = entry['mode'], entry['uid'], entry['gid'], 1700000000
        info.linkname = entry['target']
        data = base64.b64decode(entry['data'])
        info.size = len(data) if entry['type'] == 'file' else 0
        archive.addfile(info, io.BytesIO(data))
`;

export function tarOf(entries: readonly ArchiveEntry[]): Buffer {
  const directory = mkdtempSync(join(tmpdir(), 'squash-archive-'));
  try {
    const file = join(directory, 'plain.tar');
    const described = entries.map(({ name, type = 'file', data = '', target = '', ...owner }) => ({
      name,
      type,
      target,
      data: Buffer.from(data).toString('base64'),
      mode: owner.mode ?? 0o755,
      uid: owner.uid ?? 0,
      gid: owner.gid ?? 0,
    }));
    execFileSync('python3', ['-c', writer, file], { input: JSON.stringify(described) });
    return readFileSync(file);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

export function packed(form: 'gzip' | 'xz' | 'zstd', tar: Buffer): Buffer {
  if (form === 'gzip') return gzipSync(tar);
  if (form === 'zstd') return zstdCompressSync(tar);
  return execFileSync('xz', ['-c'], { input: tar, maxBuffer: 64 * 1_048_576 });
}
