/** The host key of the SSH gateway: made at its first use, kept in the data directory, handed to the gateway as OpenSSH writes keys. */
import { createHash, createPrivateKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { isErrno } from '@squash/base/errno';
import { AppError } from '@squash/contract/errors';

export interface GatewayKey {
  readonly openSsh: string;
  readonly fingerprint: string;
}

/** @throws config_invalid where the file is no key */
export async function gatewayKey(path: string): Promise<GatewayKey> {
  const pem = readKey(path) ?? (await makeKey(path));
  try {
    const { d = '', x = '', crv } = createPrivateKey(pem).export({ format: 'jwk' });
    if (crv === 'Ed25519') return encode(Buffer.from(d, 'base64url'), Buffer.from(x, 'base64url'));
  } catch {
    // It is said below what it is not.
  }
  throw new AppError(
    'config_invalid',
    `"${path}" is no private key (Ed25519, PKCS #8): remove it, and another one is made`,
  );
}

function readKey(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}

async function makeKey(path: string): Promise<string> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  await writeFileAtomic(path, pem);
  return pem;
}

const kind = 'ssh-ed25519';

/** OpenSSH's PROTOCOL.key, without a passphrase. */
function encode(seed: Buffer, point: Buffer): GatewayKey {
  const blob = Buffer.concat([text(kind), text(point)]);
  const check = randomBytes(4);
  const secret = Buffer.concat([check, check, blob, text(Buffer.concat([seed, point])), text('squash')]);
  const padding = Buffer.from(Array.from({ length: (8 - (secret.length % 8)) % 8 }, (_, at) => at + 1));
  const one = Buffer.from([0, 0, 0, 1]);
  const whole = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    text('none'),
    text('none'),
    text(''),
    one,
    text(blob),
    text(Buffer.concat([secret, padding])),
  ]);
  const lines = whole.toString('base64').match(/.{1,70}/g) ?? [];
  const digest = createHash('sha256').update(blob).digest('base64').replace(/=+$/, '');
  const openSsh = `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines.join('\n')}\n-----END OPENSSH PRIVATE KEY-----\n`;
  return { openSsh, fingerprint: `SHA256:${digest}` };
}

function text(value: Uint8Array | string): Buffer {
  const bytes = Buffer.from(value);
  const length = Buffer.allocUnsafe(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
