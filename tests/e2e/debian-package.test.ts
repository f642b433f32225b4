/**
 * Installing a package inside a sandbox on the real Debian base: maintainer scripts, a user of its own, changed
 * owners, file capabilities. What needs ids that the host does not give is skipped there, and says so.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { ExecRecord } from '@squash/contract/exec';
import { repository } from '../support/base-layer.ts';
import { TestDaemon } from '../support/daemon.ts';

const module = '000-base-debian';

/** The base layer that quickstart uses; from its cache where one is built already. */
async function debianBase(): Promise<string> {
  const builder = join(repository, 'images/main.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [builder, 'build', 'debian'], {
    maxBuffer: 16 * 1024 * 1024,
  });
  const answers = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { readonly type: string; readonly path?: string });
  const path = answers.find(({ type }) => type === 'layer')?.path;
  assert.ok(path !== undefined, stdout);
  return path;
}

const control = `Package: keeper
Version: 1.0
Architecture: all
Maintainer: nobody <nobody@localhost>
Description: a package with a user of its own
`;
const postinst = `#!/bin/sh
set -e
useradd --system --no-create-home --shell /usr/sbin/nologin keeper
install -d -o keeper -g keeper -m 0750 /var/lib/keeper
echo kept > /var/lib/keeper/state
chown keeper:keeper /var/lib/keeper/state /opt/keeper/tool
chmod 4755 /opt/keeper/tool
`;
const build = `set -e
mkdir -p /tmp/keeper/DEBIAN /tmp/keeper/opt/keeper
cat > /tmp/keeper/DEBIAN/control <<'END'
${control}END
cat > /tmp/keeper/DEBIAN/postinst <<'END'
${postinst}END
chmod 755 /tmp/keeper/DEBIAN/postinst
echo '#!/bin/sh' > /tmp/keeper/opt/keeper/tool
dpkg-deb --root-owner-group --build /tmp/keeper /tmp/keeper.deb
`;
const owners = "stat -c '%U:%G %a %n' /var/lib/keeper /var/lib/keeper/state /opt/keeper/tool";
const owned = `keeper:keeper 750 /var/lib/keeper
keeper:keeper 644 /var/lib/keeper/state
keeper:keeper 4755 /opt/keeper/tool
`;

test('a local package with a user of its own installs, survives a snapshot, and goes again', async (t) => {
  await using daemon = await TestDaemon.start({ modules: { [module]: await debianBase() } });
  const path = '/cgi-bin/api/sandboxes';
  await daemon.call('POST', path, { id: 'box', layers: module });
  const run = (cmd: string): Promise<ExecRecord> =>
    daemon.call('POST', `${path}/box/exec`, { cmd }) as Promise<ExecRecord>;
  if ((await run("awk '{ print $3 }' /proc/self/uid_map")).stdout.trim() === '1') {
    t.skip('single-id mode: a package can not change owners without subordinate ids');
    return;
  }
  const built = await run(build);
  assert.equal(built.exit_code, 0, built.stderr);
  const installed = await run('dpkg --install /tmp/keeper.deb');
  assert.equal(installed.exit_code, 0, installed.stderr);
  assert.equal((await run(owners)).stdout, owned);
  await daemon.call('POST', `${path}/box/snapshot`, { label: 'installed' });
  const removed = await run('dpkg --purge keeper && rm -rf /var/lib/keeper && ! test -e /opt/keeper/tool');
  assert.equal(removed.exit_code, 0, removed.stderr);
  await daemon.call('POST', `${path}/box/restore`, { label: 'installed' });
  assert.equal((await run(owners)).stdout, owned);
  assert.match((await run('dpkg --status keeper')).stdout, /^Status: install ok installed$/m);
});
