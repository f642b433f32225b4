/** `secret.*`: the secrets without their values. */
import type { SecretChange, SecretInfo } from '@squash/contract/secrets';
import type { secretOperations } from '@squash/contract/operations/secrets';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

/** The file behind it; `SecretsFileKeeper` is one. */
export interface Secrets {
  list(): readonly SecretInfo[];
  set(name: string, change: SecretChange): Promise<SecretInfo>;
  remove(name: string): Promise<void>;
}

export function secretHandlers(secrets: Secrets): HandlersOf<typeof secretOperations> {
  return {
    'secret.list': () => json(secrets.list()),
    'secret.set': async ({ params, body }) => json(await secrets.set(params.secret, body)),
    'secret.remove': async ({ params }) => {
      await secrets.remove(params.secret);
      return empty;
    },
  };
}
