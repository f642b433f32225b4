/**
 * What package managers fetch from the little Internet: a git repository (through git's own HTTP program), an index for
 * pip with one wheel, and an archive for apt with one package. Made by the real tools when the world begins.
 */
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join, normalize } from 'node:path';
import { promisify } from 'node:util';
import type { Answering, Asked } from './web.ts';

const run = promisify(execFile);
const gitBackend = '/usr/lib/git-core/git-http-backend';

export async function makeFiles(root: string): Promise<void> {
  await Promise.all([makeRepository(root), makeWheel(root), makeArchive(root)]);
}

async function makeRepository(root: string): Promise<void> {
  const work = join(root, 'work');
  const bare = join(root, 'git/project.git');
  await mkdir(work, { recursive: true });
  await writeFile(join(work, 'README'), 'hello from the repository\n');
  const identity = ['-c', 'user.name=squash', '-c', 'user.email=squash@localhost'];
  await run('git', ['init', '--quiet', '--initial-branch=main', work]);
  await run('git', ['-C', work, 'add', 'README']);
  await run('git', [...identity, '-C', work, 'commit', '--quiet', '-m', 'first']);
  await run('git', ['clone', '--quiet', '--bare', work, bare]);
  await run('git', ['-C', bare, 'config', 'http.receivepack', 'true']);
}

const wheelScript = `
import sys, zipfile
path = sys.argv[1]
info = 'greeting-1.0.dist-info/'
with zipfile.ZipFile(path, 'w') as wheel:
    wheel.writestr('greeting.py', 'text = "hello from the wheel"\\n')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', 'greeting.py,,\\n' + info + 'METADATA,,\\n' + info + 'WHEEL,,\\n' + info + 'RECORD,,\\n')
`;

async function makeWheel(root: string): Promise<void> {
  const folder = join(root, 'simple/greeting');
  const name = 'greeting-1.0-py3-none-any.whl';
  await mkdir(folder, { recursive: true });
  await run('python3', ['-c', wheelScript, join(folder, name)]);
  await writeFile(join(folder, 'index.html'), `<!DOCTYPE html><a href="${name}">${name}</a>`);
}

async function makeArchive(root: string): Promise<void> {
  const tree = join(root, 'deb/tree');
  await mkdir(join(tree, 'DEBIAN'), { recursive: true });
  await mkdir(join(tree, 'opt'), { recursive: true });
  await mkdir(join(root, 'apt'), { recursive: true });
  const control = [
    'Package: greeting',
    'Version: 1.0',
    'Architecture: all',
    'Maintainer: nobody <nobody@localhost>',
    'Description: hello from the package',
    '',
  ].join('\n');
  await writeFile(join(tree, 'DEBIAN/control'), control);
  await writeFile(join(tree, 'opt/greeting'), 'hello from the package\n');
  const file = join(root, 'apt/greeting.deb');
  await run('dpkg-deb', ['--root-owner-group', '-Zxz', '--build', tree, file]);
  const bytes = await readFile(file);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const packages = `${control}Filename: ./greeting.deb\nSize: ${bytes.length}\nSHA256: ${sha256}\n`;
  await writeFile(join(root, 'apt/Packages'), packages);
}

export interface FileRequest {
  readonly asked: Asked;
  readonly answer: Answering;
  readonly url: URL;
  readonly body: Buffer;
}

/** True where the request was for one of the files. */
export async function serveFiles(root: string, request: FileRequest): Promise<boolean> {
  const { url } = request;
  if (url.pathname.startsWith('/git/')) {
    await serveGit(root, request);
    return true;
  }
  if (!/^\/(simple|apt)\//.test(url.pathname)) return false;
  const path = join(root, normalize(url.pathname), url.pathname.endsWith('/') ? 'index.html' : '');
  const answer = request.answer as ServerResponse;
  try {
    if (!(await stat(path)).isFile()) throw new Error('no file');
    answer.setHeader('content-type', path.endsWith('.html') ? 'text/html' : 'application/octet-stream');
    answer.end(await readFile(path));
  } catch {
    // apt asks for a dozen files that an archive need not have.
    answer.writeHead(404).end();
  }
  return true;
}

/** The Common Gateway Interface, as far as git needs it. */
async function serveGit(root: string, { asked, answer, url, body }: FileRequest): Promise<void> {
  const host = asked.headers[':authority'] ?? asked.headers.host ?? '';
  if (String(host).startsWith('git.') && asked.headers.authorization === undefined) {
    // git says who it is only when it is asked.
    const refusing = answer as ServerResponse;
    refusing.writeHead(401, { 'www-authenticate': 'Basic realm="git"' });
    refusing.end();
    return;
  }
  const child = spawn(gitBackend, [], {
    env: {
      GIT_PROJECT_ROOT: join(root, 'git'),
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname.slice('/git'.length),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: asked.method ?? 'GET',
      CONTENT_TYPE: asked.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: String(asked.headers['content-encoding'] ?? ''),
      HTTP_GIT_PROTOCOL: String(asked.headers['git-protocol'] ?? ''),
      REMOTE_USER: 'squash',
      REMOTE_ADDR: '127.0.0.1',
      PATH: '/usr/bin:/bin',
      // The repository is the test's, whoever runs the server.
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(body);
  const parts: Buffer[] = [];
  for await (const part of child.stdout as AsyncIterable<Buffer>) parts.push(part);
  const all = Buffer.concat(parts);
  const end = all.indexOf('\r\n\r\n');
  const response = answer as ServerResponse;
  for (const line of all.toString('latin1', 0, end).split('\r\n')) {
    const [name = '', value = ''] = line.split(/: (.*)/s);
    if (name === 'Status') response.statusCode = Number.parseInt(value, 10);
    else response.setHeader(name, value);
  }
  response.end(all.subarray(end + 4));
}
