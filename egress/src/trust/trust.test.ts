/** The authority, its leaves and the trust stores, judged by OpenSSL, Node and Java. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect, createServer, rootCertificates } from 'node:tls';
import { type Clock, systemClock, type WallMs } from '@squash/host/base/clock';
import { leafCertificate } from './certificate.ts';
import { type InstallationCa, loadInstallationCa } from './installation-ca.ts';
import { LeafCache } from './leaf-cache.ts';
import { certificatesOf, javaTrustStore, trustBundle } from './trust-store.ts';

const dayMs = 86_400_000;
const hasKeytool = spawnSync('keytool', ['-help']).status === 0;

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

test('a real handshake verifies with the bundle and fails without it', async () => {
  using directory = new Directory();
  const ca = await loadInstallationCa(directory.path, systemClock);
  const leaves = new LeafCache(ca, systemClock);
  const server = createServer({
    SNICallback: (name, done) => done(null, leaves.contextFor(name)),
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    const good = connect({
      port,
      servername: 'api.test',
      ca: certificatesOf(trustBundle('', ca.certificate)),
    });
    await once(good, 'secureConnect');
    assert.equal(good.authorized, true);
    good.destroy();
    const bad = connect({ port, servername: 'api.test' });
    const [error] = await once(bad, 'error').catch((reason: unknown) => [reason]);
    assert.match(String((error as NodeJS.ErrnoException).code), /UNABLE_TO_VERIFY_LEAF|SELF_SIGNED/);
  } finally {
    server.close();
  }
});

test('leaves are reused, made again before they end or when the clock was set back, and bounded', async () => {
  using directory = new Directory();
  const ca = await loadInstallationCa(directory.path, systemClock);
  let days = 0;
  const clock: Clock = { ...systemClock, wallMs: () => later(days).wallMs() };
  const leaves = new LeafCache(ca, clock);
  const first = leaves.contextFor('a.test');
  assert.equal(leaves.contextFor('a.test'), first);
  days = 2.5;
  const second = leaves.contextFor('a.test');
  assert.notEqual(second, first);
  days = 0;
  assert.notEqual(leaves.contextFor('a.test'), second);
  for (let index = 0; index < 600; index += 1) leaves.contextFor(`${index}.test`);
  assert.equal(leaves.size, 512);
});

test('a bundle keeps what was there, falls back to public authorities, and drops what is no certificate', async () => {
  using directory = new Directory();
  const ca = await loadInstallationCa(directory.path, systemClock);
  const [one = '', two = ''] = rootCertificates;
  const text = trustBundle(`# comment\n${one}\r\nnoise\n${two}\n${one}\n`, ca.certificate);
  assert.deepEqual(certificatesOf(text), [one, two, ...certificatesOf(ca.certificate)]);
  assert.doesNotMatch(text, /noise|comment/);
  assert.equal(certificatesOf(trustBundle('', ca.certificate)).length, rootCertificates.length + 1);
  // Adding it twice changes nothing.
  assert.equal(trustBundle(text, ca.certificate), text);
});

test('Java’s keytool lists the trust store with its password and refuses another', {
  skip: hasKeytool ? false : 'keytool (openjdk-17-jre-headless) is missing',
}, async () => {
  using directory = new Directory();
  const ca = await loadInstallationCa(directory.path, systemClock);
  const broken = `-----BEGIN CERTIFICATE-----\n${randomBytes(48).toString('base64')}\n-----END CERTIFICATE-----`;
  const path = join(directory.path, 'cacerts');
  writeFileSync(path, javaTrustStore(`${trustBundle('', ca.certificate)}\n${broken}`, 1_700_000_000_000));
  const list = (password: string) =>
    spawnSync('keytool', ['-list', '-v', '-keystore', path, '-storepass', password], { encoding: 'utf8' });
  const good = list('changeit');
  assert.equal(good.status, 0, good.stdout);
  assert.match(good.stdout, new RegExp(`contains ${rootCertificates.length + 1} entries`));
  assert.match(good.stdout, new RegExp(ca.name));
  assert.match(good.stdout, /Entry type: trustedCertEntry/);
  assert.notEqual(list('changeme').status, 0);
});
