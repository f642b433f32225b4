/**
 * Packages from the real archives of Debian, npm and PyPI with their own clients, each in a sandbox that may reach that
 * archive and nothing else, over the machine's ordinary network: what the client needs is in the preset, and no more than
 * that is needed.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { EgressDecisionInfo } from '@squash/contract/egress';
import type { ExecRecord } from '@squash/contract/exec';
import { archiveRanges, debian, npm } from '../support/archives.ts';
import { packModule } from '../support/base-layer.ts';
import { clientModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';

const pypi = ['pypi.org', 'files.pythonhosted.org'] as const;
/** The last that runs on Debian 12's Node; fetched as any package is. */
const npmVersion = '10.9.2';
const path = '/cgi-bin/api/sandboxes';
const layers = ['000-base-debian', '100-clients-test', '200-authorities'];

const ranges = await Promise.all([debian, npm, ...pypi].map(archiveRanges));
const noPypi = ranges.slice(2).includes('') && 'this machine has no address of pypi.org';
const stack = new AsyncDisposableStack();
let daemon: TestDaemon;

before(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'squash-presets-'));
  stack.defer(() => rm(directory, { recursive: true }));
  // A mirror's authority is one of those that the machine trusts.
  const authorities = join(directory, 'authorities.squashfs');
  const bundle = await readFile('/etc/ssl/certs/ca-certificates.crt');
  await packModule(authorities, { 'etc/ssl/certs/ca-certificates.crt': bundle });
  daemon = stack.use(
    await TestDaemon.start({
      modules: { ...(await clientModules()), '200-authorities': authorities },
      env: { SQUASH_EGRESS_ALLOW_CIDRS: ranges.filter((range) => range !== '').join(',') },
      files: {
        'secrets.json': JSON.stringify({
          secrets: {
            NPM_TOKEN: { placeholder: 'npm_placeholder', value: 'npm_real_value', allowed_hosts: [npm] },
          },
        }),
      },
    }),
  );
});

after(() => stack.disposeAsync());

async function create(id: string, preset: string, secrets: readonly string[] = []): Promise<void> {
  await daemon.call('POST', path, { id, layers, allow_net: [`preset:${preset}`], secrets });
}

async function exec(id: string, cmd: string): Promise<ExecRecord> {
  return (await daemon.call('POST', `${path}/${id}/exec`, { cmd, timeout: 240 })) as ExecRecord;
}

async function output(id: string, cmd: string): Promise<string> {
  const { exit_code: code, stdout, stderr } = await exec(id, cmd);
  assert.equal(code, 0, stdout + stderr);
  return stdout + stderr;
}

async function decisions(id: string, filter: string): Promise<readonly EgressDecisionInfo[]> {
  return (await daemon.call('GET', `/v1/sandboxes/${id}/egress?limit=1000&${filter}`)).decisions;
}

async function isOnlyWay(id: string, host: string, elsewhere: string): Promise<void> {
  const { stdout } = await exec(id, `curl -sS --max-time 10 https://${elsewhere}/`);
  assert.match(stdout, /not_allowed/);
  const allowed = (await decisions(id, 'kind=dns&verdict=allowed')).map((row) => row.host);
  assert.ok(allowed.includes(host), allowed.join());
  assert.ok(!allowed.includes(elsewhere), allowed.join());
}

test('apt-get installs a package when the policy is the Debian preset', async (t) => {
  await create('apt', 'debian');
  if ((await output('apt', "awk '{ print $3 }' /proc/self/uid_map")).trim() === '1') {
    t.skip('single-id mode: apt changes its user, which needs subordinate ids');
    return;
  }
  assert.doesNotMatch(await output('apt', 'apt-get -q update'), /^(Err|W):/m);
  const said = await output('apt', 'apt-get -q -y install --no-install-recommends hello && hello');
  assert.match(said, /Hello, world!/);
  await isOnlyWay('apt', debian, npm);
});

const getNpm = `curl -sS --fail https://${npm}/npm/-/npm-${npmVersion}.tgz | tar xz -C /opt`;
const install =
  'mkdir -p /root/project && cd /root/project && node /opt/package/bin/npm-cli.js install --no-audit --no-fund is-odd@3.0.1 && node -p "require(\'is-odd\')(7)"';

test('npm installs a package with what it depends on when the policy is the npm preset', async () => {
  await create('npm', 'npm');
  await output('npm', getNpm);
  assert.match(await output('npm', install), /added 2 packages[^]*true\n/);
  await isOnlyWay('npm', npm, debian);
  assert.deepEqual(await decisions('npm', 'kind=request&verdict=allowed'), []);
});

test('npm installs the same when the registry has a secret, and each of its requests is read', async () => {
  await create('npm-read', 'npm', ['NPM_TOKEN']);
  await output('npm-read', getNpm);
  assert.match(await output('npm-read', install), /added 2 packages[^]*true\n/);
  const requests = await decisions('npm-read', 'kind=request&verdict=allowed');
  const paths = requests.map((row) => row.path);
  for (const each of ['/is-odd', '/is-odd/-/is-odd-3.0.1.tgz', '/is-number']) {
    assert.ok(paths.includes(each), paths.join());
  }
});

test('pip installs a package when the policy is the PyPI preset', { skip: noPypi }, async () => {
  await create('pip', 'pypi');
  await output('pip', 'pip install --quiet --disable-pip-version-check six==1.16.0');
  assert.match(await output('pip', 'python3 -c "import six; print(six.__version__)"'), /^1\.16\.0/);
  await isOnlyWay('pip', pypi[0], npm);
});
