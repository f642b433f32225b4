/** What a command sees as its environment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { execStartSchema } from '@squash/contract/exec';
import { sandboxIdSchema } from '@squash/contract/ids';
import { baseEnvironment, commandLine, hostnameOf, streamEnvironment } from './environment.ts';

const id = sandboxIdSchema.parse('my_box');

test('the environment is built from nothing', () => {
  assert.deepEqual(Object.keys(baseEnvironment({ id, network: {}, image: null, own: {} })).sort(), [
    'HOME',
    'HOSTNAME',
    'LANG',
    'PATH',
  ]);
  assert.equal(hostnameOf(id), 'my-box');
});

test('a stream client adds its own variables, a terminal its TERM', () => {
  const start = execStartSchema.parse({
    type: 'start',
    argv: ['sh'],
    env: { PATH: '/x', A: 'b' },
    user: 1000,
    tty: { rows: 1, columns: 1 },
  });
  const environment = streamEnvironment(start, {
    id,
    network: { SSL_CERT_FILE: '/bundle', PATH: '/secret' },
    image: null,
    own: { HOME: '/srv', LANG: 'C' },
  });
  assert.equal(environment['SSL_CERT_FILE'], '/bundle');
  assert.deepEqual([environment['PATH'], environment['A'], environment['HOME']], ['/x', 'b', '/srv']);
  assert.equal(environment['TERM'], 'xterm-256color');
});

test('an image’s variables give way to what the network adds, and take the place of the usual ones', () => {
  const image = {
    name: 'docker.io/library/tools:1',
    id: 'sha256:0',
    env: { PATH: '/opt/bin', API_KEY: '', OWN: 'image' },
    user: '',
    uid: 0,
    gid: 0,
    home: '/root',
    workdir: '/',
    entrypoint: [],
    cmd: [],
    labels: {},
  };
  const network = { API_KEY: 'placeholder', PATH: '/secret' };
  const environment = baseEnvironment({ id, network, image, own: { OWN: 'sandbox' } });
  assert.deepEqual(
    ['API_KEY', 'PATH', 'OWN'].map((name) => environment[name]),
    ['placeholder', '/opt/bin', 'sandbox'],
  );
});

test('an argument vector is logged as a shell would read it, and cut', () => {
  assert.equal(commandLine(['echo', 'a b', "it's", '']), `echo 'a b' 'it'\\''s' ''`);
  assert.equal(commandLine(['x'.repeat(100_000), 'y']).length, 65_536);
});
