/** Ids that the daemon makes: lower case, so that they are names of hosts as they are, and nobody can guess one. */
import { randomBytes } from 'node:crypto';
import { type SandboxId, sandboxIdSchema } from '@squash/contract/ids';

const letters = 'abcdefghijklmnopqrstuvwxyz234567';

/** `sb` and 80 random bits. */
export function newSandboxId(): SandboxId {
  const text = [...randomBytes(16)].map((byte) => letters[byte % 32]).join('');
  return sandboxIdSchema.parse(`sb${text}`);
}
