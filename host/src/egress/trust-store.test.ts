/** What a sandbox trusts, as a bundle and as Java's store, which Java's own keytool reads. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { rootCertificates } from 'node:tls';
import { systemClock } from '@squash/base/clock';
import { loadInstallationCa } from '@squash/installation/installation-ca';
import { certificatesOf, javaTrustStore, trustBundle } from './trust-store.ts';

const hasKeytool = spawnSync('keytool', ['-help']).status === 0;

class Directory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'squash-trust-'));
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

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
