/**
 * Public keys of SSH and what is signed with them, as bytes that a stranger sent: parsed once, judged by `node:crypto`.
 *
 * Ed25519, ECDSA over nistp256 and nistp384, and RSA with SHA-2 of at least 2,048 bits. SHA-1, DSA, certificates and keys on tokens are no
 * keys here.
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { SshFields } from '@squash/contract/ssh-fields';

/** A key that a signature may be by. */
export interface SshPublicKey {
  readonly algorithm: 'ssh-ed25519' | 'ecdsa-sha2-nistp256' | 'ecdsa-sha2-nistp384' | 'ssh-rsa';
  readonly key: KeyObject;
}

/** What a client has signed, RFC 4252, section 7. */
export interface SignedRequest {
  readonly session: Buffer;
  readonly user: string;
  /** How it is signed: of RSA keys another word than the key's own. */
  readonly algorithm: string;
  readonly key: Buffer;
}

const requestType = 50;
const rsaBitsMin = 2_048;
const rsaBitsMax = 16_384;
const curves = {
  'ecdsa-sha2-nistp256': ['nistp256', 'P-256', 32],
  'ecdsa-sha2-nistp384': ['nistp384', 'P-384', 48],
} as const;

/** Undefined where the bytes are no key that counts here. */
export function parsePublicKey(blob: Buffer): SshPublicKey | undefined {
  const fields = new Fields(blob);
  const algorithm = fields.text();
  switch (algorithm) {
    case 'ssh-ed25519': {
      const x = fields.bytes();
      if (x?.length !== 32 || !fields.isAtEnd) return undefined;
      return imported(algorithm, { kty: 'OKP', crv: 'Ed25519', x: url(x) });
    }
    case 'ecdsa-sha2-nistp256':
    case 'ecdsa-sha2-nistp384': {
      const [name, crv, bytes] = curves[algorithm];
      const isOfCurve = fields.text() === name;
      const point = fields.bytes();
      if (!isOfCurve || point?.length !== 1 + 2 * bytes || point[0] !== 4 || !fields.isAtEnd)
        return undefined;
      const [x, y] = [point.subarray(1, 1 + bytes), point.subarray(1 + bytes)];
      return imported(algorithm, { kty: 'EC', crv, x: url(x), y: url(y) });
    }
    case 'ssh-rsa': {
      const [e, n] = [fields.number(), fields.number()];
      if (e === undefined || n === undefined || !fields.isAtEnd) return undefined;
      const bits = n.length * 8;
      if (bits < rsaBitsMin || bits > rsaBitsMax || e.length > 8) return undefined;
      return imported(algorithm, { kty: 'RSA', e: url(e), n: url(n) });
    }
    case undefined:
    default:
      return undefined;
  }
}

/** Undefined where it is not exactly that. */
export function parseSigned(signed: Buffer): SignedRequest | undefined {
  const fields = new Fields(signed);
  const session = fields.bytes();
  const type = fields.byte();
  const user = fields.text();
  const isOurs = fields.text() === 'ssh-connection' && fields.text() === 'publickey' && fields.byte() === 1;
  const algorithm = fields.text();
  const key = fields.bytes();
  if (session === undefined || user === undefined || algorithm === undefined || key === undefined)
    return undefined;
  // A session's id is a digest of its key exchange: SHA-256 to SHA-512.
  if (session.length < 32 || session.length > 64 || type !== requestType || !isOurs || !fields.isAtEnd)
    return undefined;
  return { session, user, algorithm, key };
}

/** @param signature the bare one for Ed25519 and RSA; ECDSA's in DER */
export function isSignedBy(
  { algorithm: own, key }: SshPublicKey,
  {
    algorithm,
    signed,
    signature,
  }: { readonly algorithm: string; readonly signed: Buffer; readonly signature: Buffer },
): boolean {
  const digest = digestOf(own, algorithm);
  if (digest === undefined) return false;
  try {
    return verify(digest, signed, key, signature);
  } catch {
    // OpenSSL says so where the bytes are no signature of the kind.
    return false;
  }
}

/** Null: the algorithm's own. Undefined: none that fits. */
function digestOf(own: SshPublicKey['algorithm'], algorithm: string): string | null | undefined {
  if (own === 'ssh-rsa') return { 'rsa-sha2-256': 'sha256', 'rsa-sha2-512': 'sha512' }[algorithm];
  if (own !== algorithm) return undefined;
  return own === 'ssh-ed25519' ? null : own === 'ecdsa-sha2-nistp256' ? 'sha256' : 'sha384';
}

function imported(
  algorithm: SshPublicKey['algorithm'],
  jwk: Readonly<Record<string, string>>,
): SshPublicKey | undefined {
  try {
    return { algorithm, key: createPublicKey({ key: jwk, format: 'jwk' }) };
  } catch {
    // A point that is not on its curve, or numbers that are no key.
    return undefined;
  }
}

const url = (bytes: Buffer): string => bytes.toString('base64url');

class Fields extends SshFields {
  text(): string | undefined {
    return this.bytes()?.toString('latin1');
  }

  /** A positive one, without the zero in front of it. */
  number(): Buffer | undefined {
    const value = this.bytes();
    if (value === undefined || value.length === 0 || (value[0] ?? 0) >= 0x80) return undefined;
    return value[0] === 0 ? value.subarray(1) : value;
  }
}
