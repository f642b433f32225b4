/**
 * A package from Debian's real archive, in a sandbox that may reach Debian's archive and nothing else, over the machine's
 * ordinary network: what `apt-get` needs is in the preset, and no more than that is needed.
 */
import assert from 'node:assert/strict';
import { lookup } from 'node:dns/promises';
import { test } from 'node:test';
import type { ExecRecord } from '@squash/contract/exec';
import { debianModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';

const archive = 'deb.debian.org';

test('apt-get installs a package when the policy is the Debian preset', async () => {
  // Where the archive is a mirror of the operator's own network, he says so; so does this test for the machine it is on.
  const addresses = await lookup(archive, { all: true });
  const ranges = addresses.map(({ address, family }) => `${address}/${family === 6 ? 128 : 32}`);
  await using daemon = await TestDaemon.start({
    modules: await debianModules(),
    env: { SQUASH_EGRESS_ALLOW_CIDRS: ranges.join(',') },
  });
  const path = '/cgi-bin/api/sandboxes';
  await daemon.call('POST', path, { id: 'box', layers: '000-base-debian', allow_net: ['preset:debian'] });
  const sh = async (cmd: string): Promise<ExecRecord> =>
    (await daemon.call('POST', `${path}/box/exec`, { cmd, timeout: 240 })) as ExecRecord;
  const updated = await sh('apt-get -q update');
  assert.equal(updated.exit_code, 0, updated.stdout + updated.stderr);
  assert.doesNotMatch(updated.stdout + updated.stderr, /^(Err|W):/m);
  const installed = await sh('apt-get -q -y install --no-install-recommends hello && hello');
  assert.equal(installed.exit_code, 0, installed.stdout + installed.stderr);
  assert.match(installed.stdout, /Hello, world!/);
  const elsewhere = await sh('curl -sS --max-time 10 https://registry.npmjs.org/');
  assert.match(elsewhere.stdout, /not_allowed/);
  const { decisions } = (await daemon.call('GET', '/v1/sandboxes/box/egress?kind=dns&limit=1000')) as {
    readonly decisions: readonly { readonly host: string; readonly verdict: string }[];
  };
  const allowed = new Set(decisions.filter(({ verdict }) => verdict === 'allowed').map(({ host }) => host));
  assert.ok(allowed.has(archive), JSON.stringify(decisions));
});
