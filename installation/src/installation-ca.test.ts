/** The authority and its leaves, judged by OpenSSL and Node. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Clock, systemClock, type WallMs } from '@squash/base/clock';
import { leafCertificate } from './certificate.ts';
import { type InstallationCa, loadInstallationCa } from './installation-ca.ts';

const dayMs = 86_400_000;

class Directory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'squash-ca-'));
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

function later(days: number): Clock {
  return { ...systemClock, wallMs: () => (systemClock.wallMs() + days * dayMs) as WallMs };
}

function openssl(words: readonly string[], input?: string): { status: number | null; text: string } {
  const done = spawnSync('openssl', [...words], { input, encoding: 'utf8' });
  return { status: done.status, text: `${done.stdout}${done.stderr}` };
}

function leafOf(ca: InstallationCa, host: string): string {
  const nowMs = systemClock.wallMs();
  return leafCertificate(ca, {
    host,
    publicKey: ca.publicKey,
    validity: { fromMs: nowMs - dayMs, untilMs: nowMs + dayMs },
  });
}

test('the authority is made once, for its owner alone, and is the same at the next start', async () => {
  using directory = new Directory();
  const path = join(directory.path, 'proxy-ca');
  const [one, two] = await Promise.all([
    loadInstallationCa(path, systemClock),
    loadInstallationCa(path, systemClock),
  ]);
  assert.ok(one.privateKey.equals(two.privateKey), 'two starts at once made two keys');
  assert.equal(one.name, two.name);
  for (const ca of [one, two])
    assert.ok(new X509Certificate(leafOf(ca, 'a.test')).checkIssued(new X509Certificate(one.certificate)));
  assert.equal(
    (await loadInstallationCa(path, systemClock)).certificate,
    readFileSync(join(path, 'ca.pem'), 'utf8'),
  );
  assert.deepEqual(readdirSync(path).toSorted(), ['ca.key', 'ca.pem']);
  for (const name of ['ca.key', 'ca.pem']) assert.equal(statSync(join(path, name)).mode & 0o777, 0o600);
  const { text } = openssl(['x509', '-noout', '-text'], one.certificate);
  assert.match(text, /CA:TRUE, pathlen:0/);
  assert.match(text, /Certificate Sign, CRL Sign/);
  assert.match(text, /prime256v1/);
});

test('an authority whose key others can read is refused', async () => {
  using directory = new Directory();
  await loadInstallationCa(directory.path, systemClock);
  chmodSync(join(directory.path, 'ca.key'), 0o640);
  await assert.rejects(loadInstallationCa(directory.path, systemClock), /0600/);
});

test('an authority near its end is issued again with the same key, and old and new leaves verify with both', async () => {
  using directory = new Directory();
  const old = await loadInstallationCa(directory.path, systemClock);
  const kept = await loadInstallationCa(directory.path, later(4 * 365));
  assert.equal(kept.certificate, old.certificate);
  const renewed = await loadInstallationCa(directory.path, later(5 * 365 - 100));
  assert.notEqual(renewed.certificate, old.certificate);
  assert.ok(renewed.privateKey.equals(old.privateKey));
  const oldLeaf = new X509Certificate(leafOf(old, 'a.test'));
  const newCa = new X509Certificate(renewed.certificate);
  assert.ok(oldLeaf.checkIssued(newCa) && oldLeaf.verify(newCa.publicKey));
  assert.ok(new X509Certificate(leafOf(renewed, 'a.test')).checkIssued(new X509Certificate(old.certificate)));
});

test('a torn certificate beside a good key is issued again', async () => {
  using directory = new Directory();
  const first = await loadInstallationCa(directory.path, systemClock);
  writeFileSync(join(directory.path, 'ca.pem'), '-----BEGIN CERT');
  const second = await loadInstallationCa(directory.path, systemClock);
  assert.ok(second.privateKey.equals(first.privateKey));
  assert.equal(new X509Certificate(second.certificate).ca, true);
});

test('leaves pass OpenSSL’s strict check for names, addresses and hosts too long for a common name', async () => {
  using directory = new Directory();
  const ca = await loadInstallationCa(directory.path, systemClock);
  const caPath = join(directory.path, 'ca.pem');
  const long = `${'a'.repeat(60)}.${'b'.repeat(60)}.example.com`;
  const cases = [
    ['api.example.com', '-verify_hostname'],
    ['xn--bcher-kva.example', '-verify_hostname'],
    [long, '-verify_hostname'],
    ['192.0.2.7', '-verify_ip'],
    ['2001:db8::1', '-verify_ip'],
    ['::1', '-verify_ip'],
  ] as const;
  for (const [host, option] of cases) {
    const leafPath = join(directory.path, 'leaf.pem');
    writeFileSync(leafPath, leafOf(ca, host));
    const words = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', caPath, option];
    const good = openssl([...words, host, leafPath]);
    assert.equal(good.status, 0, `${host}: ${good.text}`);
    const other = option === '-verify_ip' ? '192.0.2.8' : 'other.example.com';
    assert.notEqual(openssl([...words, other, leafPath]).status, 0, `${host} passed as ${other}`);
  }
});
