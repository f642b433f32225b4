/** The judge over rules for the host's paths: a row for each reason, and what holds for all rules. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostPaths } from '@squash/contract/host-root';
import { pathLevels } from '@squash/contract/path-levels';
import type { PathFacts } from '@squash/policy/paths/compile';
import { isOpened, isWithin, lineage, resolveLevel } from '@squash/policy/paths/levels';
import fc from 'fast-check';
import { judgeHostPaths } from './host-paths.ts';

const links: Readonly<Record<string, string>> = {
  '/bin': 'usr/bin',
  '/home/u/.config': 'dotfiles/config',
  '/home/u/loop': 'loop',
  '/home/u/.ssh': '/srv/keys',
};
const facts: PathFacts = {
  stat: (path) => ({ type: path in links ? 'link' : 'directory', identity: '1:1' }),
  links: (path) => links[path] ?? '',
};
const around = {
  own: ['/home/u/.local/state/squash/box', '/var/lib/own', '/srv/Kept'],
  home: '/home/u',
  isRoot: false,
};
const user = { name: 'u', home: '/home/u', shell: '/bin/sh' };

const rows: readonly (readonly [HostPaths, string])[] = [
  [{ '/usr': 'ro', '/bin': 'ro', '/home/u/repo': 'cow', '/etc': 'ro', '/srv/data': 'rw' }, 'allow'],
  [{ '/': 'ro' }, 'whole_root'],
  [{ '/': 'hidden' }, 'allow'],
  [{ '/proc/1': 'ro' }, 'system_path'],
  [{ '/run': 'ro' }, 'system_path'],
  [{ '/etc': 'rw' }, 'system_path'],
  [{ '/etc/shadow': 'ro' }, 'always_closed'],
  [{ '/etc/shadow': 'hidden' }, 'allow'],
  [{ '/root/x': 'ro' }, 'always_closed'],
  [{ '/home/u/.SSH/id': 'ro' }, 'always_closed'],
  [{ '/srv/Kept/run': 'ro' }, 'always_closed'],
  [{ '/srv/keys/id': 'ro' }, 'always_closed'],
  [{ '/home/u/.netrc': 'mask' }, 'allow'],
  [{ '/home/u/dotfiles/config/gcloud': 'ro' }, 'always_closed'],
  [{ '/home/u/dotfiles': 'ro' }, 'allow'],
  [{ '/home/u/.local/share/squash/squash.db': 'ro' }, 'always_closed'],
  [{ '/var/lib/own/run': 'ro' }, 'always_closed'],
  [{ '/srv/docker.sock': 'rw' }, 'container_socket'],
  [{ '/home/other/x': 'ro' }, 'other_home'],
  [{ '/home': 'ro' }, 'allow'],
  [{ '/bin/sh': 'hidden' }, 'link_in_path'],
  [{ '/home/u/loop/x': 'ro' }, 'link_in_path'],
];

for (const [paths, says] of rows) {
  test(`the judge says ${says} to ${JSON.stringify(paths)}`, () => {
    const verdict = judgeHostPaths({ paths, user }, around, facts);
    assert.equal(verdict.verdict === 'allow' ? 'allow' : verdict.reason, says);
  });
}

for (const [path, says] of [
  ['/run/postgresql/.s.PGSQL.5432', 'allow'],
  ['/home/u/repo/x.sock', 'allow'],
  ['/home/u/missing.sock', 'allow'],
  ['/home/u/repo', 'no_socket'],
  ['/dev/log', 'system_path'],
  ['/run/docker.sock', 'container_socket'],
  ['/srv/renamed.sock', 'container_socket'],
  ['/srv/Kept/api.sock', 'always_closed'],
  ['/srv/DOCKER.sock', 'container_socket'],
  ['/run/user/1000/podman/podman.sock', 'container_socket'],
  ['/run/user/1000/bus', 'container_socket'],
  ['/run/user/1000/systemd/private', 'container_socket'],
  ['/home/u/.gnupg/S.gpg-agent.ssh', 'always_closed'],
  ['/var/lib/own/run/api.sock', 'always_closed'],
  ['/home/other/x.sock', 'other_home'],
] as const) {
  test(`the judge says ${says} to the socket ${path}`, () => {
    const directories = new Set(lineage(path).slice(0, -1));
    const nodes: PathFacts = {
      links: () => '',
      stat: (at) => {
        if (at === '/home/u/missing.sock') return undefined;
        const identity = at === '/srv/renamed.sock' || at === '/run/docker.sock' ? '1:7' : at;
        return { type: directories.has(at) || at === '/home/u/repo' ? 'directory' : 'socket', identity };
      },
    };
    const verdict = judgeHostPaths({ paths: {}, sockets: [path], user }, around, nodes);
    assert.equal(verdict.verdict === 'allow' ? 'allow' : verdict.reason, says);
  });
}

test('root’s own home is open to root', () => {
  const root = { ...user, home: '/root' };
  const asked = { paths: { '/root/repo': 'cow' }, user: root } as const;
  assert.equal(judgeHostPaths(asked, { own: [], home: '/root', isRoot: true }, facts).verdict, 'allow');
});

const closed = [
  '/etc/shadow',
  '/root',
  '/srv/keys',
  '/home/u/.aws',
  '/home/u/dotfiles/config/gcloud',
  '/home/u/.local/state/squash/box',
  '/home/other',
];
const path = fc.oneof(
  fc.constantFrom(...closed, '/etc', '/home', '/home/u', '/home/u/dotfiles', '/srv', '/home/u/.local'),
  fc
    .array(fc.constantFrom('home', 'u', 'etc', 'srv', 'keys', '.aws', 'other', 'x'), {
      minLength: 1,
      maxLength: 4,
    })
    .map((parts) => `/${parts.join('/')}`),
);

test('whatever the rules are, what is always closed is closed in what the judge allows', () => {
  fc.assert(
    fc.property(fc.dictionary(path, fc.constantFrom(...pathLevels)), (paths) => {
      const verdict = judgeHostPaths({ paths, user }, around, facts);
      if (verdict.verdict === 'refuse') return;
      for (const each of closed) {
        assert.ok(!isOpened(resolveLevel(verdict.rules, each)), each);
        const below = Object.entries(verdict.rules).filter(([named]) => isWithin(named, each));
        assert.ok(
          below.every(([, level]) => !isOpened(level)),
          each,
        );
      }
      // Nothing is opened that the rules did not open.
      for (const each of Object.keys(verdict.rules))
        if (isOpened(resolveLevel(verdict.rules, each)))
          assert.equal(resolveLevel(verdict.rules, each), resolveLevel(paths, each), each);
    }),
    { numRuns: 2_000 },
  );
});
