/** Which proxies are told of. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '@squash/base/secret';
import { besideDaemon } from './beside-daemon.ts';

const listen = { host: '127.0.0.1', port: 8_080 };

test('a proxy on loopback that looks names up is told of, where the daemon asks for no token over TCP', () => {
  const upstreams = {
    web: 'http://127.0.0.1:3128',
    word: 'http://localhost:3128',
    six: 'socks5h://a:b-pass-word@[::1]:1080',
    judged: 'socks5://127.0.0.1:1080',
    far: 'http://proxy.corp.example:3128',
  };
  const [problem, ...more] = besideDaemon(upstreams, { listen, authToken: undefined });
  assert.deepEqual(more, []);
  assert.match(problem?.message ?? '', /\("web", "word", "six"\)/);
  assert.doesNotMatch(problem?.message ?? '', /pass-word/);
  assert.deepEqual(besideDaemon({ far: upstreams.far }, { listen, authToken: undefined }), []);
  assert.deepEqual(besideDaemon(upstreams, { listen, authToken: new Secret('token') }), []);
  const noTcp = { ...listen, port: undefined };
  assert.deepEqual(besideDaemon(upstreams, { listen: noTcp, authToken: undefined }), []);
});
