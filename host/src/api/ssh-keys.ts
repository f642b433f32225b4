/** `ssh_key.*` and `ssh.*`: keys of SSH are an administrator's; the gateway asks about logins. */
import type { sshKeyOperations } from '@squash/contract/operations/ssh-keys';
import type { Engine } from '../engine/engine.ts';
import { anybody, type Caller, sees } from '../http/caller.ts';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { pageOf } from './page.ts';

export function sshKeyHandlers({ sshKeys }: Engine): HandlersOf<typeof sshKeyOperations> {
  return {
    'ssh_key.create': ({ body }) => json(sshKeys.create(body)),
    'ssh_key.list': ({ query }) => {
      const wanted = sshKeys.list().filter(({ owner }) => query.owner === undefined || owner === query.owner);
      return json(pageOf(wanted, ({ id }) => id, query));
    },
    'ssh_key.get': ({ params }) => json(sshKeys.get(params.key)),
    'ssh_key.remove': ({ params }) => {
      sshKeys.remove(params.key);
      return empty;
    },
    'ssh.offer': ({ body, caller }) => {
      sshKeys.offer(Buffer.from(body.key, 'base64'), asker(caller));
      return empty;
    },
    'ssh.login': ({ body, caller }) => {
      const shown = {
        signed: Buffer.from(body.signed, 'base64'),
        signature: Buffer.from(body.signature, 'base64'),
      };
      return json(sshKeys.login(shown, asker(caller)));
    },
  };
}

/** Beside the gateway, who is nobody, everyone hears of his own owner's keys alone. */
function asker(caller: Caller): (owner: string) => boolean {
  return (owner) => caller === anybody || sees(caller, owner);
}
