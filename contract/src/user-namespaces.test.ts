/** Each thing that keeps a user from user namespaces is told with what mends it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appArmorProfile, namespaceProblem } from './user-namespaces.ts';

const launcher = '/srv/squash [1]/native/build/x86_64/squash-launch';
const most = '/proc/sys/user/max_user_namespaces';
const clone = '/proc/sys/kernel/unprivileged_userns_clone';
const appArmor = '/proc/sys/kernel/apparmor_restrict_unprivileged_userns';

for (const [settings, found, command] of [
  [{}, /no user namespaces/, /CONFIG_USER_NS/],
  [
    { [most]: '0', [clone]: '0' },
    /^user\.max_user_namespaces is 0$/,
    /user\.max_user_namespaces = 10000' \| sudo tee/,
  ],
  [
    { [most]: '9', [clone]: '0' },
    /^kernel\.unprivileged_userns_clone is 0$/,
    /unprivileged_userns_clone = 1'/,
  ],
  [
    { [most]: '9', [appArmor]: '1' },
    /AppArmor has no profile/,
    /sudo tee \/etc\/apparmor\.d\/squash <<'END'\nabi/,
  ],
  [{ [most]: '9', [clone]: '1', [appArmor]: '0' }, /container/, /--security-opt/],
] as const) {
  test(`what mends ${JSON.stringify(settings)} is told`, () => {
    const texts: Readonly<Record<string, string>> = settings;
    const problem = namespaceProblem({ read: (path) => texts[path], launcher, said: '' });
    assert.match(problem.found, found);
    assert.match(problem.remedy[0] ?? '', command);
  });
}

test('AppArmor is told of where the launcher blames it, whatever the setting', () => {
  const problem = namespaceProblem({
    read: (path) => (path === most ? '9' : undefined),
    launcher,
    said: 'AppArmor\'s profile "x" lets this program make a user namespace and do nothing in it',
  });
  assert.match(problem.found, /^AppArmor has no profile/);
  assert.equal(problem.remedy[1], 'sudo apparmor_parser -r /etc/apparmor.d/squash');
});

test('AppArmor’s profile names the launcher where it lies, with no letter of the path as a pattern', () => {
  assert.match(
    appArmorProfile(launcher),
    /^profile squash "\/srv\/squash \\\[1\\\]\/native\/build\/x86_64\/squash-launch" flags=\(unconfined\) \{\n {2}userns,$/m,
  );
});
