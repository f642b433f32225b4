/** The daemon's hold on `secrets.json`: what commands see, what the API changes, and what an operator may do meanwhile. */
import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { keptLog } from '../../../tests/support/kept-log.ts';
import { secretsFileSchema } from '@squash/contract/secrets';
import { SecretsFileKeeper } from './secrets-keeper.ts';

async function place(text?: string) {
  const directory = await mkdtemp(join(tmpdir(), 'squash-secrets-'));
  const path = join(directory, 'secrets.json');
  if (text !== undefined) await writeFile(path, text, { mode: 0o600 });
  const { log, lines } = keptLog('info');
  return {
    path,
    lines,
    keeper: () => new SecretsFileKeeper(directory, log),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  };
}

const value = 'real-value-0123';
const seed = JSON.stringify({
  secrets: { A_KEY: { placeholder: 'placeholder-a', value, allowed_hosts: ['a.example'] } },
});

test('a secret is made, changed in part, listed without its value, and removed', async () => {
  await using at = await place();
  const keeper = at.keeper();
  assert.deepEqual(keeper.list(), []);
  const made = await keeper.set('A_KEY', { value, allowed_hosts: ['a.example'] });
  assert.match(made.placeholder, /^squash-/);
  assert.equal((await stat(at.path)).mode & 0o777, 0o600);
  const changed = await keeper.set('A_KEY', { surfaces: ['body'] });
  assert.deepEqual(changed, { ...made, surfaces: ['body'] });
  assert.ok((await readFile(at.path, 'utf8')).includes(value));
  assert.ok(!JSON.stringify(keeper.list()).includes(value));
  assert.deepEqual(keeper.placeholders('all'), { A_KEY: made.placeholder });
  assert.deepEqual(keeper.placeholders(['B_KEY']), {});
  await keeper.remove('A_KEY');
  assert.deepEqual(keeper.placeholders('all'), {});
  await assert.rejects(keeper.remove('A_KEY'), { code: 'secret_not_found' });
});

test('a credential that is refreshed is listed with its endpoint alone, and a value takes its place', async () => {
  await using at = await place(seed);
  const keeper = at.keeper();
  const oauth = {
    token_url: 'https://login.example/token',
    client_id: 'client',
    refresh_token: 'refresh-token-0123',
    access_token: 'sk-ant-oat01-access-token',
  };
  const made = await keeper.set('TOKEN', { oauth, allowed_hosts: ['b.example'] });
  assert.match(made.placeholder, /^sk-ant-oat01-/);
  assert.equal(made.token_url, oauth.token_url);
  assert.ok(!/client|refresh|access/.test(JSON.stringify(keeper.list())));
  await assert.rejects(keeper.set('TOKEN', { oauth, value }), { code: 'invalid_request', message: /either/ });
  await keeper.set('TOKEN', { value });
  assert.ok(!(await readFile(at.path, 'utf8')).includes('refresh-token'));
  const { secrets } = JSON.parse(seed) as { secrets: object };
  const urls = ['http://127.0.0.1:8/t', 'http://login.example/t', 'https://a:b@login.example/t', 'file:///t'];
  const taken = urls.map((url) =>
    secretsFileSchema.safeParse({
      secrets: {
        ...secrets,
        B: {
          placeholder: 'placeholder-b',
          allowed_hosts: ['b.example'],
          oauth: { ...oauth, token_url: url },
        },
      },
    }),
  );
  assert.deepEqual(
    taken.map(({ success }) => success),
    [true, false, false, false],
  );
});

test('edits that come together all count, and a refused one changes nothing', async () => {
  await using at = await place(seed);
  const keeper = at.keeper();
  const names = ['B', 'C', 'D', 'E'];
  await Promise.all(
    names.map((name) => keeper.set(name, { value: `${value}${name}`, allowed_hosts: ['b.example'] })),
  );
  assert.deepEqual(
    keeper.list().map(({ name }) => name),
    ['A_KEY', ...names],
  );
  const before = await readFile(at.path, 'utf8');
  await assert.rejects(keeper.set('F', { value }), { code: 'invalid_request', message: /allowed_hosts/ });
  await assert.rejects(keeper.set('F', { allowed_hosts: ['f.example'] }), { message: /value/ });
  const taken = { value, allowed_hosts: ['f.example'], placeholder: 'placeholder-a' };
  await assert.rejects(keeper.set('F', taken), (error: Error) => !error.message.includes(value));
  assert.equal(await readFile(at.path, 'utf8'), before);
});

test('an operator’s edit is seen at the next question; a bad one keeps what was and is told', async () => {
  await using at = await place(seed);
  const keeper = at.keeper();
  await writeFile(at.path, seed.replace('placeholder-a', 'placeholder-b'));
  assert.deepEqual(keeper.placeholders('all'), { A_KEY: 'placeholder-b' });
  await writeFile(at.path, `${seed}}`);
  assert.deepEqual(keeper.placeholders('all'), { A_KEY: 'placeholder-b' });
  assert.ok(at.lines.some((line) => line.includes('secrets.refused')));
  assert.throws(() => keeper.list(), { code: 'secrets_invalid' });
  await assert.rejects(keeper.set('B', { value, allowed_hosts: ['b.example'] }), { code: 'secrets_invalid' });
  assert.equal(await readFile(at.path, 'utf8'), `${seed}}`);
  await writeFile(at.path, seed);
  assert.equal(keeper.list().length, 1);
  assert.ok(!at.lines.join('').includes(value));
});

test('a file that others can read, or that is no secrets file, refuses the start', async () => {
  await using at = await place(seed);
  await chmod(at.path, 0o644);
  assert.throws(at.keeper, { code: 'config_invalid', message: /chmod 600/ });
  await chmod(at.path, 0o600);
  await writeFile(at.path, '{"secrets":{"A":{"value":"1"}}}');
  assert.throws(at.keeper, { code: 'config_invalid' });
});
