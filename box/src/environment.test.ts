/** Which variables go in by themselves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { passedVariables } from './environment.ts';

test('variables of the list go in, others and those that look like secrets do not', () => {
  const env = {
    PATH: '/usr/bin::.:bin:/opt/bin',
    LANG: 'C.UTF-8',
    LC_TIME: 'de_DE.UTF-8',
    TERM: 'xterm',
    EDITOR: 'https://me:word@example.com/',
    PAGER: 'ghp_0123456789abcdef',
    HOME: '/home/me',
    SSH_AUTH_SOCK: '/run/agent',
    AWS_SECRET_ACCESS_KEY: 'x',
    NODE_OPTIONS: '--require /home/me/x.js',
    LD_PRELOAD: '/home/me/x.so',
    LC_ALL: undefined,
  };
  assert.deepEqual(passedVariables(env), {
    PATH: '/usr/bin:/opt/bin',
    LANG: 'C.UTF-8',
    LC_TIME: 'de_DE.UTF-8',
    TERM: 'xterm',
  });
});
