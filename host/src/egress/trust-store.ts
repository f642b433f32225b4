/**
 * What a sandbox trusts, as text and as a Java trust store: the certificates it would trust anyway, and the
 * installation's authority.
 *
 * What a newcomer would get wrong: `SSL_CERT_FILE` and its like *replace* what a program trusts, so the bundle holds
 * all of the public authorities too. Java's store is JKS: certificates only, readable by every Java there is, and its
 * integrity digest is keyed with the password everybody knows, `changeit`: it protects nothing and is not meant to.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { rootCertificates } from 'node:tls';

/** Where Debian, Alpine, Fedora and openSUSE keep their bundles, relative to a root directory. */
export const systemBundlePaths = [
  'etc/ssl/certs/ca-certificates.crt',
  'etc/pki/tls/certs/ca-bundle.crt',
  'etc/ssl/ca-bundle.pem',
  'etc/ssl/cert.pem',
] as const;

/** The trust store's password, the one Java's own has had since 1996. */
export const javaTrustStorePassword = 'changeit';

const certificatePattern = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** The PEM blocks of a text, in order, each once; what stands between them is left out. */
export function certificatesOf(text: string): string[] {
  return [...new Set(text.match(certificatePattern) ?? [])];
}

/**
 * One PEM text: the given bundle's certificates (Node's own list of public authorities where it holds none), then the authority.
 * `bundle` is data of an image: anything but PEM blocks is dropped.
 */
export function trustBundle(bundle: string, authority: string): string {
  const present = certificatesOf(bundle);
  const all = [...(present.length === 0 ? rootCertificates : present), ...certificatesOf(authority)];
  return `${[...new Set(all)].join('\n')}\n`;
}

/**
 * The same certificates as a Java trust store (JKS), password `changeit`. Blocks that are not certificates are left out.
 * `createdMs` is written into each entry.
 */
export function javaTrustStore(bundle: string, createdMs: number): Buffer {
  const entries = certificatesOf(bundle).flatMap((text) => {
    const der = derOf(text);
    return der === undefined ? [] : [der];
  });
  const head = Buffer.alloc(12);
  head.writeUInt32BE(0xfeed_feed, 0);
  head.writeUInt32BE(2, 4);
  head.writeUInt32BE(entries.length, 8);
  const body = Buffer.concat([head, ...entries.map((der, index) => jksEntry(der, index, createdMs))]);
  const digest = createHash('sha1')
    .update(Buffer.from(javaTrustStorePassword, 'utf16le').swap16())
    // Java's own constant: the password is whitened by it.
    .update('Mighty Aphrodite')
    .update(body)
    .digest();
  return Buffer.concat([body, digest]);
}

/** Tag 2 (trusted certificate), alias, time, type, bytes. */
function jksEntry(der: Buffer, index: number, createdMs: number): Buffer {
  const alias = Buffer.from(`squash-${index}`);
  const head = Buffer.alloc(6 + alias.length + 8);
  head.writeUInt32BE(2, 0);
  head.writeUInt16BE(alias.length, 4);
  alias.copy(head, 6);
  head.writeBigUInt64BE(BigInt(createdMs), 6 + alias.length);
  const type = Buffer.from('\0\u0005X.509', 'latin1');
  const size = Buffer.alloc(4);
  size.writeUInt32BE(der.length);
  return Buffer.concat([head, type, size, der]);
}

function derOf(text: string): Buffer | undefined {
  try {
    return new X509Certificate(text).raw;
  } catch {
    // One broken block in an image's bundle must not cost Java all the others.
    return undefined;
  }
}
