/** All tokens that let somebody in: of API keys, and of logins over SSH. */
import type { Engine } from '../engine/engine.ts';
import type { KeyRing } from '../http/gate.ts';

export function keyRing({ keys, sshKeys }: Engine): KeyRing & { readonly holds: (key: string) => boolean } {
  return {
    get count() {
      return keys.count + sshKeys.count;
    },
    find: (token) => keys.find(token) ?? sshKeys.find(token),
    holds: (key) => keys.holds(key) || sshKeys.holds(key),
  };
}
