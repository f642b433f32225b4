/** `secret.*`: the secrets without their values. */
import type { SecretChange, SecretInfo } from '@squash/contract/secrets';
import type { secretList, secretRemove, secretSet } from '@squash/contract/operations/secrets';
import { empty, json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';

/** The file behind it; `SecretsFileKeeper` is one. */
export interface Secrets {
  list(): readonly SecretInfo[];
  set(name: string, change: SecretChange): Promise<SecretInfo>;
  remove(name: string): Promise<void>;
}

export function secretListHandler(secrets: Secrets): Handler<typeof secretList> {
  return () => json(secrets.list());
}

export function secretSetHandler(secrets: Secrets): Handler<typeof secretSet> {
  return async ({ params, body }) => json(await secrets.set(params.secret, body));
}

export function secretRemoveHandler(secrets: Secrets): Handler<typeof secretRemove> {
  return async ({ params }) => {
    await secrets.remove(params.secret);
    return empty;
  };
}
