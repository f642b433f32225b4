/** Signatures of Standard Webhooks: https://www.standardwebhooks.com */
import { createHmac, randomBytes } from 'node:crypto';

const prefix = 'whsec_';
const keyBytes = 32;

export function newSecret(): string {
  return `${prefix}${randomBytes(keyBytes).toString('base64')}`;
}

/** @param atMs of this try, wall clock */
export function signedHeaders(
  { id, body }: { readonly id: string; readonly body: string },
  secret: string,
  atMs: number,
): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(atMs / 1_000));
  const key = Buffer.from(secret.slice(prefix.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  };
}
