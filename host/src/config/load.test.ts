/** The configuration's edge: precedence, defaults, refusals, and that no secret comes out of it. */
import assert from 'node:assert/strict';
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Setting, settings } from '@squash/contract/config';
import { AppError } from '@squash/contract/errors';
import { editDistance, meant, nearest } from '@squash/contract/nearest';
import fc from 'fast-check';
import { pinnedEnvironment } from './config.ts';
import { Secret } from '@squash/base/secret';
import { isLoopback, weakToken } from './listen.ts';
import { explainConfig, loadConfig, pinnedSettings } from './load.ts';
import { parseSetting } from './values.ts';

async function directory(dotEnv?: string): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), 'squash-config-'));
  if (dotEnv !== undefined) await writeFile(join(path, '.env'), dotEnv);
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

const data = { SQUASH_DATA: '/srv/squash' };

test('loadConfig() puts the environment over .env over the defaults, and empty means not set', async () => {
  await using cwd = await directory('SQUASH_PORT=9000\nSQUASH_MAX_SANDBOXES=7\nDATABASE_URL=other\n');
  const config = loadConfig({ ...data, SQUASH_PORT: '9001', SQUASH_LOG_LEVEL: '' }, cwd.path);
  assert.equal(config.listen.port, 9001);
  assert.equal(config.sandboxesMax, 7);
  assert.equal(config.log.level, 'info');
  assert.equal(loadConfig({ ...data, SQUASH_PORT: '' }, cwd.path).listen.port, 8080);
  const sources = Object.fromEntries(
    explainConfig({ ...data, SQUASH_PORT: '9001' }, cwd.path).map(({ name, source }) => [name, source]),
  );
  assert.equal(sources['SQUASH_PORT'], 'environment');
  assert.equal(sources['SQUASH_MAX_SANDBOXES'], '.env');
  assert.equal(sources['SQUASH_HOST'], 'default');
});

test('explainConfig() tells of a pinned setting where it was set', async () => {
  await using cwd = await directory('SQUASH_PORT=9000\nSQUASH_MAX_SANDBOXES=7\n');
  await using elsewhere = await directory('SQUASH_UPPER_LIMIT_MB=3\n');
  const outside = { SQUASH_MAX_SANDBOXES: '8' };
  const pinned = pinnedEnvironment(loadConfig(outside, cwd.path));
  const inside = { ...pinnedSettings(outside, cwd.path), ...pinned };
  const explained = explainConfig(inside, elsewhere.path).map(({ name, source, value }) => [
    name,
    `${value} ${source}`,
  ]);
  const found = Object.fromEntries(explained) as Record<string, string>;
  assert.equal(found['SQUASH_PORT'], '9000 .env');
  assert.equal(found['SQUASH_MAX_SANDBOXES'], '8 environment');
  assert.equal(found['SQUASH_UPPER_LIMIT_MB'], '512 default');
  assert.match(found['SQUASH_DATA'] ?? '', /^\/.* default$/);
  const lying = explainConfig({ ...inside, PINNED_SQUASH_SOURCES: 'SQUASH_PORT=lies' }, elsewhere.path);
  assert.equal(lying.find(({ name }) => name === 'SQUASH_PORT')?.source, 'environment');
});

test('loadConfig() has the documented defaults', async () => {
  await using cwd = await directory();
  const config = loadConfig({ ...data }, cwd.path);
  assert.deepEqual(config, {
    dataDir: '/srv/squash',
    runDir: '/srv/squash/run',
    backend: 'chroot',
    listen: { host: '127.0.0.1', port: 8080 },
    authToken: undefined,
    allowedHosts: [],
    isStrictContentType: false,
    previewDomain: undefined,
    previewTlsPort: undefined,
    ssh: undefined,
    registries: { authFile: undefined, insecure: [] },
    s3: undefined,
    sandboxesMax: 100,
    upperLimitBytes: 536_870_912,
    ceilings: { cpuMax: 1024, memoryMbMax: 4_194_304, lifetimeSMax: 0 },
    admission: {
      memoryReserveBytes: 268_435_456,
      memoryPercentMax: 0,
      cpuPercentMax: 0,
      diskPercentMax: 0,
    },
    requiresLimits: false,
    firecracker: undefined,
    vmAccelerator: 'auto',
    offersHostRoot: false,
    hostPorts: 'off',
    idleExitMs: 0,
    upper: 'auto',
    overlay: 'auto',
    ids: 'auto',
    ephemeralMs: undefined,
    hungMs: 60_000,
    interceptsTls: true,
    egressAllowRanges: [],
    egressResolvers: [],
    egressHostsFile: undefined,
    webhookRanges: [],
    log: { level: 'info', format: 'auto' },
  });
});

test('loadConfig() has Firecracker where a program is named, and where it is asked for without one', async () => {
  await using cwd = await directory();
  const of = (env: Record<string, string>) => {
    const { backend, firecracker } = loadConfig({ ...data, ...env }, cwd.path);
    return [backend, firecracker];
  };
  const SQUASH_FIRECRACKER = '/opt/firecracker';
  assert.deepEqual(of({}), ['chroot', undefined]);
  assert.deepEqual(of({ SQUASH_BACKEND: 'vm' }), ['vm', undefined]);
  assert.deepEqual(of({ SQUASH_FIRECRACKER }), ['chroot', { path: SQUASH_FIRECRACKER }]);
  assert.deepEqual(of({ SQUASH_BACKEND: 'firecracker', SQUASH_FIRECRACKER }), [
    'vm',
    { path: SQUASH_FIRECRACKER },
  ]);
  assert.deepEqual(of({ SQUASH_BACKEND: 'firecracker' }), ['vm', { path: undefined }]);
});

test('loadConfig() takes the values of the original’s table', async () => {
  await using cwd = await directory();
  const config = loadConfig(
    {
      SQUASH_BACKEND: 'chroot',
      SQUASH_DATA: 'state',
      SQUASH_PORT: '0',
      SQUASH_AUTH_TOKEN: 'abc',
      SQUASH_S3_BUCKET: '',
      SQUASH_S3_REGION: 'us-east-1',
      SQUASH_EPHEMERAL: '0',
      SQUASH_PROXY_HTTPS: '',
      SQUASH_UPPER_LIMIT_MB: '64',
      SQUASH_HOST: '0.0.0.0',
      SQUASH_ALLOWED_HOSTS: 'Squash.example, *.box.example',
      AWS_ACCESS_KEY_ID: 'set by something else',
    },
    cwd.path,
  );
  assert.equal(config.dataDir, join(cwd.path, 'state'));
  assert.equal(config.authToken?.reveal(), 'abc');
  assert.equal(config.upperLimitBytes, 67_108_864);
  assert.deepEqual(config.allowedHosts, ['squash.example', '*.box.example']);
  assert.equal(loadConfig({ ...data, SQUASH_PORT: 'off' }, cwd.path).listen.port, undefined);
  assert.equal(loadConfig({ SQUASH_DATA_DIR: '/x' }, cwd.path).dataDir, '/x');
});

const bucket = {
  SQUASH_S3_BUCKET: 'bucket',
  AWS_ACCESS_KEY_ID: 'id',
  AWS_SECRET_ACCESS_KEY: 'key',
} as const;

test('loadConfig() takes a bucket with its own key or that of AWS, and never half of each', async () => {
  await using cwd = await directory();
  const own = { SQUASH_S3_ACCESS_KEY_ID: 'own', SQUASH_S3_SECRET_ACCESS_KEY: 'k' };
  const { s3 } = loadConfig(
    {
      ...data,
      ...bucket,
      SQUASH_S3_ENDPOINT: 'http://minio.example:9000/',
      SQUASH_S3_PREFIX: '/team/a/',
    },
    cwd.path,
  );
  assert.deepEqual(
    { ...s3, key: s3?.key.reveal() },
    {
      bucket: 'bucket',
      endpoint: 'http://minio.example:9000',
      region: 'us-east-1',
      prefix: 'team/a/',
      keyId: 'id',
      key: 'key',
    },
  );
  const { s3: other } = loadConfig({ ...data, ...bucket, ...own }, cwd.path);
  assert.deepEqual([other?.keyId, other?.key.reveal()], ['own', 'k']);
  assert.equal(loadConfig({ ...data, AWS_ACCESS_KEY_ID: 'a b' }, cwd.path).s3, undefined);
});

test('loadConfig() refuses what is misspelt, malformed or of a part that does not exist', async () => {
  await using cwd = await directory();
  const table: readonly [Record<string, string>, RegExp][] = [
    [{ SQUASH_PROT: '1' }, /SQUASH_PROT in the environment is unknown: did you mean SQUASH_PORT\?/],
    [{ SQUASH_PORT: '65536' }, /SQUASH_PORT is "65536"/],
    [{ SQUASH_PORT: '0x50' }, /SQUASH_PORT is "0x50"/],
    [{ SQUASH_PORT: ' 80' }, /SQUASH_PORT is " 80"/],
    [{ SQUASH_MAX_SANDBOXES: '0' }, /from 1 to 10000/],
    [{ SQUASH_REQUIRE_LIMITS: 'ture' }, /write 1 or 0/],
    [{ SQUASH_LOG_LEVEL: 'loud' }, /choose one of debug, info, warn, error/],
    [{ SQUASH_HOST: 'a b' }, /neither an IP address nor a host name/],
    [{ SQUASH_ALLOWED_HOSTS: 'ok.example,*' }, /contains "\*"/],
    [{ SQUASH_HOST: '0.0.0.0' }, /there is no SQUASH_AUTH_TOKEN/],
    [{ SQUASH_HOST: '::' }, /there is no SQUASH_AUTH_TOKEN/],
    [{ SQUASH_HOST: 'squash.example' }, /there is no SQUASH_AUTH_TOKEN/],
    [{ SQUASH_PREVIEW_DOMAIN: '127.0.0.1' }, /which is no domain/],
    [{ SQUASH_PREVIEW_TLS_PORT: '443' }, /there is no SQUASH_PREVIEW_DOMAIN/],
    [{ SQUASH_AUTH_TOKEN: 'two words' }, /SQUASH_AUTH_TOKEN contains a space/],
    [{ SQUASH_BACKEND: 'docker' }, /choose one of chroot, vm, firecracker/],
    [{ SQUASH_S3_BUCKET: 'Big Bucket' }, /no name of a bucket/],
    [{ SQUASH_S3_BUCKET: 'bucket' }, /a part of its key is missing/],
    [{ ...bucket, SQUASH_S3_SECRET_ACCESS_KEY: 'b' }, /a part of its key is missing/],
    [{ ...bucket, AWS_ACCESS_KEY_ID: 'two words' }, /key for SQUASH_S3_BUCKET contains a space/],
    [{ ...bucket, SQUASH_S3_REGION: 'No Region' }, /which is no region/],
    [{ ...bucket, SQUASH_S3_PREFIX: 'a/../b' }, /SQUASH_S3_PREFIX/],
    [{ ...bucket, SQUASH_S3_PREFIX: 'a//b' }, /SQUASH_S3_PREFIX/],
    [{ SQUASH_S3_ENDPOINT: 'minio:9000' }, /SQUASH_S3_ENDPOINT is no address/],
    [{ SQUASH_S3_ENDPOINT: 'http://u:p@minio:9000' }, /SQUASH_S3_ENDPOINT is no address/],
    [{ SQUASH_EPHEMERAL: '1' }, /SQUASH_S3_BUCKET names none/],
    [{ SQUASH_EGRESS_ALLOW_CIDRS: '10.0.0.1/8' }, /write 10\.0\.0\.0\/8/],
    [{ SQUASH_EGRESS_RESOLVERS: 'dns.example' }, /write addresses/],
    [{ SQUASH_EGRESS_ALLOW_CIDRS: 'example.com' }, /write ranges/],
    [{ SQUASH_EGRESS_ALLOW_CIDRS: '10.0.0.0/8:80' }, /write ranges/],
    [{ TAILSCALE_AUTHKEY: 'tskey-1' }, /TAILSCALE_AUTHKEY needs Tailscale/],
    [{ SQUASH_DATA_DIR: '/other' }, /name two directories/],
  ];
  for (const [env, message] of table) {
    assert.throws(() => loadConfig({ ...data, ...env }, cwd.path), { code: 'config_invalid', message });
  }
});

test('loadConfig() tells all problems at once, those of .env too', async () => {
  await using cwd = await directory('SQUASH_PORTT=1\nSQUASH_PORT=x\n');
  assert.throws(
    () => loadConfig({ ...data, SQUASH_LOG_FORMAT: 'xml' }, cwd.path),
    (error: Error) => {
      for (const part of [/SQUASH_PORTT in \.env/, /SQUASH_PORT is "x"/, /SQUASH_LOG_FORMAT is "xml"/]) {
        assert.match(error.message, part);
      }
      return true;
    },
  );
});

test('no error and no explanation holds a secret', async () => {
  await using cwd = await directory();
  const secret = 'tskey-very-secret';
  const env = { ...data, SQUASH_AUTH_TOKEN: secret };
  assert.ok(!JSON.stringify(explainConfig(env, cwd.path)).includes(secret));
  assert.ok(!JSON.stringify(loadConfig(env, cwd.path)).includes(secret));
  for (const name of settings.filter(({ kind }) => kind.type === 'secret').map(({ name }) => name)) {
    try {
      loadConfig({ ...data, [name]: `${secret} x` }, cwd.path);
    } catch (error) {
      assert.ok(error instanceof AppError && !error.message.includes(secret), name);
    }
  }
});

test('pinnedEnvironment() leads to the same directories wherever it is read', async () => {
  await using cwd = await directory();
  const config = loadConfig({ SQUASH_DATA_DIR: 'here', SQUASH_RUN: 'there' }, cwd.path);
  const again = loadConfig({ SQUASH_DATA_DIR: 'here', ...pinnedEnvironment(config) }, '/');
  assert.deepEqual([again.dataDir, again.runDir], [config.dataDir, config.runDir]);
});

test('parseSetting() never throws, and a number it takes is in its range', () => {
  fc.assert(
    fc.property(
      fc.constantFrom<Setting>(...settings),
      fc.string({ unit: 'binary', maxLength: 300 }),
      (setting, text) => {
        const parsed = parseSetting(setting, text);
        if (!parsed.ok || setting.kind.type !== 'integer') return;
        assert.ok(Number(parsed.value) >= setting.kind.min && Number(parsed.value) <= setting.kind.max);
      },
    ),
  );
  fc.assert(
    fc.property(fc.integer({ min: -10, max: 20_000 }), (value) => {
      const [setting] = settings.filter(({ name }) => name === 'SQUASH_MAX_SANDBOXES');
      assert.ok(setting !== undefined);
      assert.equal(parseSetting(setting, String(value)).ok, value >= 1 && value <= 10_000);
    }),
  );
});

test('every setting’s default is a value that it takes', () => {
  for (const setting of settings) {
    if (setting.default !== '') assert.ok(parseSetting(setting, setting.default).ok, setting.name);
  }
});

test('isLoopback() knows loopback from the rest', () => {
  for (const host of ['127.0.0.1', '127.9.9.9', '::1', 'localhost', 'LOCALHOST'])
    assert.ok(isLoopback(host), host);
  for (const host of [
    '0.0.0.0',
    '::',
    '128.0.0.1',
    '127.0.0.1.evil.test',
    '127.evil.test',
    '::ffff:127.0.0.1',
  ]) {
    assert.ok(!isLoopback(host), host);
  }
});

test('editDistance() is a distance, and nearest() finds a name by itself', () => {
  const word = fc.string({ maxLength: 12 });
  fc.assert(
    fc.property(word, word, word, (a, b, c) => {
      assert.equal(editDistance(a, a), 0);
      assert.equal(editDistance(a, b), editDistance(b, a));
      assert.ok(editDistance(a, c) <= editDistance(a, b) + editDistance(b, c));
    }),
  );
  assert.equal(nearest('SQUASH_AUTHTOKEN', ['SQUASH_AUTH_TOKEN', 'SQUASH_PORT']), 'SQUASH_AUTH_TOKEN');
  assert.equal(meant('exce', ['exec', 'ls']), 'exec');
  assert.equal(meant('destroy', ['exec', 'ls']), undefined);
  assert.equal(meant('x', []), undefined);
});

const skip = process.geteuid?.() === 0 ? false : 'only root can give a file away';

test('loadConfig() refuses a .env of another user', { skip }, async () => {
  await using cwd = await directory('SQUASH_PORT=1');
  await chown(join(cwd.path, '.env'), 65_534, 65_534);
  assert.throws(() => loadConfig(data, cwd.path), {
    code: 'config_invalid',
    message: /belongs to uid 65534/,
  });
});

test('a token that can be guessed is said to be, without being said', () => {
  const [row] = weakToken({ authToken: new Secret('short-word') });
  assert.deepEqual([row?.state, row?.found], ['weaker', 'SQUASH_AUTH_TOKEN has 10 characters']);
  assert.doesNotMatch(JSON.stringify(row), /short-word/);
  for (const authToken of [undefined, new Secret('x'.repeat(16))])
    assert.deepEqual(weakToken({ authToken }), []);
});

test('loadConfig() refuses an API key as the daemon’s own token, without saying it', async () => {
  await using cwd = await directory('');
  const key = `sqk_${'0a'.repeat(20)}`;
  assert.throws(
    () => loadConfig({ ...data, SQUASH_AUTH_TOKEN: key }, cwd.path),
    (error: AppError) =>
      error.code === 'config_invalid' && /is an API key/.test(error.message) && !error.message.includes(key),
  );
});
