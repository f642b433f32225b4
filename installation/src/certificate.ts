/**
 * X.509 v3 certificates in the two shapes this installation needs: its own authority, and a server's leaf signed by it.
 *
 * What a newcomer would get wrong: clients differ in what they insist on. Python ≥ 3.13 and Go want key identifiers
 * and a critical `basicConstraints`, everyone ignores the common name, and an IP address has to be an `iPAddress`
 * name (a `dNSName` that looks like one is refused).
 */
import { createHash, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';
import {
  bitString,
  context,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  set,
  time,
  trueValue,
  utf8String,
} from './der.ts';

const ids = {
  commonName: '2.5.4.3',
  organization: '2.5.4.10',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
} as const;

/** RFC 5280's bound of a common name. A longer host stands in the alternative name alone. */
const commonNameMax = 64;

/** Milliseconds since 1970. */
export interface Validity {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** An authority that can sign: its common name, its P-256 key pair. */
export interface Signer {
  readonly name: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/** The authority's own certificate, PEM: it may sign servers and no further authority. */
export function authorityCertificate(signer: Signer, validity: Validity): string {
  return signed(signer, {
    subject: distinguishedName(signer.name),
    publicKey: signer.publicKey,
    validity,
    extensions: [
      // CA, path length 0: nothing below it can be an authority.
      critical(ids.basicConstraints, sequence(trueValue, integer(0))),
      // keyCertSign and cRLSign: bits 5 and 6.
      critical(ids.keyUsage, bitString(Buffer.from([0b0000_0110]), 1)),
      extension(ids.subjectKeyIdentifier, octetString(keyIdentifier(signer.publicKey))),
    ],
  });
}

/** A server's certificate for one host name (A-labels) or IP address, PEM. */
export function leafCertificate(
  signer: Signer,
  leaf: { readonly host: string; readonly publicKey: KeyObject; readonly validity: Validity },
): string {
  const hasName = leaf.host.length <= commonNameMax;
  const names = sequence(generalName(leaf.host));
  return signed(signer, {
    subject: hasName ? distinguishedName(leaf.host) : sequence(),
    publicKey: leaf.publicKey,
    validity: leaf.validity,
    extensions: [
      critical(ids.basicConstraints, sequence()),
      // digitalSignature: bit 0. All that ECDSA key exchange needs.
      critical(ids.keyUsage, bitString(Buffer.from([0b1000_0000]), 7)),
      extension(ids.extendedKeyUsage, sequence(objectIdentifier(ids.serverAuth))),
      // RFC 5280: critical where the subject is empty.
      hasName ? extension(ids.subjectAltName, names) : critical(ids.subjectAltName, names),
      extension(ids.subjectKeyIdentifier, octetString(keyIdentifier(leaf.publicKey))),
      extension(ids.authorityKeyIdentifier, sequence(context(0, keyIdentifier(signer.publicKey)))),
    ],
  });
}

interface Body {
  readonly subject: Buffer;
  readonly publicKey: KeyObject;
  readonly validity: Validity;
  readonly extensions: readonly Buffer[];
}

function signed(signer: Signer, body: Body): string {
  const algorithm = sequence(objectIdentifier(ids.ecdsaWithSha256));
  const serial = randomBytes(16);
  // Not negative and never 0; 126 random bits, so that no client has seen the number before.
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40;
  const toBeSigned = sequence(
    context(0, integer(2), true),
    integer(serial),
    algorithm,
    distinguishedName(signer.name),
    sequence(time(body.validity.fromMs), time(body.validity.untilMs)),
    body.subject,
    body.publicKey.export({ type: 'spki', format: 'der' }),
    context(3, sequence(...body.extensions), true),
  );
  const signature = sign('sha256', toBeSigned, { key: signer.privateKey, dsaEncoding: 'der' });
  return pem(sequence(toBeSigned, algorithm, bitString(signature)));
}

function distinguishedName(commonName: string): Buffer {
  return sequence(
    set(sequence(objectIdentifier(ids.organization), utf8String('Squash'))),
    set(sequence(objectIdentifier(ids.commonName), utf8String(commonName))),
  );
}

function generalName(host: string): Buffer {
  return isIP(host) === 0 ? context(2, Buffer.from(host, 'latin1')) : context(7, addressBytes(host));
}

function extension(id: string, value: Buffer): Buffer {
  return sequence(objectIdentifier(id), octetString(value));
}

function critical(id: string, value: Buffer): Buffer {
  return sequence(objectIdentifier(id), trueValue, octetString(value));
}

/** SHA-256 cut to 20 bytes over the key's bit string (RFC 7093, method 1). */
function keyIdentifier(key: KeyObject): Buffer {
  // The point is the last 65 bytes of a P-256 key's SPKI.
  const point = key.export({ type: 'spki', format: 'der' }).subarray(-65);
  return createHash('sha256').update(point).digest().subarray(0, 20);
}

/** 4 or 16 bytes in network order of a valid address. */
function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number));
  // The URL parser brings every form of an IPv6 address to one: lower case, no dotted tail, at most one `::`.
  const canonical = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [head = '', tail] = canonical.split('::');
  const words = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16));
  const before = words(head);
  const after = words(tail ?? '');
  const all = [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
  return Buffer.from(all.flatMap((word) => [word >> 8, word & 0xff]));
}

function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
