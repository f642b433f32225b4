/** What boxes need of this machine, as `squash doctor` tells it and `squash box` refuses where it is not there. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { BoxNeed } from '@squash/box/needs';
import { cliCommand, cliEnvironment } from '../support/cli.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

/** A user namespace of the same user in which no other one is made, and none of whose rights are kept. */
const withoutNamespaces = [
  'unshare',
  '--user',
  '--map-current-user',
  '--keep-caps',
  '--',
  'sh',
  '-c',
  'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all -- "$@"',
  'sh',
];

describe('what boxes need', { skip }, () => {
  let directory: string;
  let work: string;

  before(() => {
    directory = mkdtempSync(join(tmpdir(), ownedPrefix('boxdoctor')));
    work = join(directory, 'work');
    mkdirSync(work);
  });
  after(() => removeAbandoned(directory));

  const squash = (words: readonly string[], around: readonly string[] = []) => {
    const [program = '', ...rest] = [...around, ...cliCommand, ...words];
    return spawnSync(program, rest, {
      cwd: work,
      env: {
        ...cliEnvironment(undefined),
        SQUASH_BOX_DATA: join(directory, 'box'),
        SQUASH_DATA: join(directory, 'none'),
        SQUASH_MEMORY_RESERVE_MB: '0',
      },
      encoding: 'utf8',
      timeout: 60_000,
    });
  };

  const needs = (around: readonly string[] = []): ReadonlyMap<string, BoxNeed> => {
    const { stdout, stderr } = squash(['doctor', '--json'], around);
    assert.notEqual(stdout, '', stderr);
    const { boxes }: { readonly boxes: readonly BoxNeed[] } = JSON.parse(stdout);
    return new Map(boxes.map((each) => [each.name, each]));
  };

  it('is told row by row, and is here', () => {
    const found = needs();
    assert.deepEqual([...found.keys()], ['kernel', 'user_namespaces', 'overlay', 'limits', 'seccomp']);
    for (const { name, state, remedy } of found.values()) {
      if (name !== 'limits') assert.equal(state, 'ok', name);
      assert.equal(state === 'ok', remedy.length === 0, name);
    }
    assert.match(squash(['doctor']).stdout, /^boxes \(squash box\): work$/m);
  });

  it('is told with the commands that mend it, by doctor and by the refusal of a box', () => {
    const found = needs(withoutNamespaces);
    const namespaces = found.get('user_namespaces');
    assert.equal(namespaces?.state, 'missing');
    assert.equal(namespaces.found, 'user.max_user_namespaces is 0');
    assert.equal(namespaces.remedy.length, 2);
    assert.deepEqual([found.get('kernel')?.state, found.get('overlay')?.state], ['ok', 'missing']);
    const told = squash(['doctor'], withoutNamespaces).stdout;
    const refused = squash(['box', 'run', '--repo', 'none', '--', 'true'], withoutNamespaces);
    assert.equal(refused.status, 125, refused.stderr);
    assert.match(told, /^boxes \(squash box\): do not start here$/m);
    for (const command of namespaces.remedy) {
      assert.ok(told.includes(command), told);
      assert.ok(refused.stderr.includes(command), refused.stderr);
    }
  });
});
