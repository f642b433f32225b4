/** The operations on keys of SSH, and those of its gateway. */
import { z } from 'zod';
import { ownerSchema } from '../keys.ts';
import {
  sshKeyBodySchema,
  sshKeyListSchema,
  sshKeySchema,
  sshLoginBodySchema,
  sshLoginSchema,
  sshOfferBodySchema,
} from '../ssh-keys.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape } from './query.ts';

/** Any text: an id that can't exist is one that does not. */
const params = z.strictObject({ key: z.string() });
/** Of RFC 8032's first example, by which the example of a login is signed. */
const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea';

const sshKeyCreate = defineOperation({
  id: 'ssh_key.create',
  method: 'POST',
  path: '/v1/ssh-keys',
  dialect: 'native',
  summary: 'Let a public key log in over SSH, into its owner’s sandboxes',
  description:
    'Ed25519, ECDSA (nistp256, nistp384) and RSA from 2,048 bits. It takes effect where the gateway runs (docs/ssh.md).',
  body: sshKeyBodySchema,
  answers: [{ status: 201, description: 'The key', schema: sshKeySchema }],
  errors: ['key_limit', 'ssh_key_exists', 'disk_full'],
  permission: 'admin',
  example: { body: { name: 'laptop', owner: 'team-a', public_key: publicKey } },
});

const sshKeyList = defineOperation({
  id: 'ssh_key.list',
  method: 'GET',
  path: '/v1/ssh-keys',
  dialect: 'native',
  summary: 'The keys of SSH, sorted by id',
  query: z.strictObject({ ...pageShape, owner: ownerSchema.optional().describe('only this owner’s') }),
  answers: [{ status: 200, description: 'Keys', schema: sshKeyListSchema }],
  errors: [],
  permission: 'admin',
});

const sshKeyGet = defineOperation({
  id: 'ssh_key.get',
  method: 'GET',
  path: '/v1/ssh-keys/{key}',
  dialect: 'native',
  summary: 'Look at one key of SSH',
  params,
  answers: [{ status: 200, description: 'The key', schema: sshKeySchema }],
  errors: ['key_not_found'],
  permission: 'admin',
});

const sshKeyRemove = defineOperation({
  id: 'ssh_key.remove',
  method: 'DELETE',
  path: '/v1/ssh-keys/{key}',
  dialect: 'native',
  summary: 'Remove a key of SSH: nobody logs in with it, and what it has open ends within two seconds',
  params,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['key_not_found', 'disk_full'],
  permission: 'admin',
});

const sshOffer = defineOperation({
  id: 'ssh.offer',
  method: 'POST',
  path: '/v1/ssh/offer',
  dialect: 'native',
  summary: 'Whether a signature by this key would be looked at; for the gateway of SSH',
  body: sshOfferBodySchema,
  answers: [{ status: 204, description: 'It would' }],
  errors: ['ssh_login_refused'],
  permission: 'read',
  example: { body: { key: publicKey.slice('ssh-ed25519 '.length) } },
});

const sshLogin = defineOperation({
  id: 'ssh.login',
  method: 'POST',
  path: '/v1/ssh/login',
  dialect: 'native',
  summary: 'Log in by what a client of SSH has signed; for the gateway of SSH',
  description:
    'A session is good for one login. The token has the scope of the key, sees its owner’s sandboxes, and is renewed by its use.',
  body: sshLoginBodySchema,
  answers: [{ status: 200, description: 'Who it is', schema: sshLoginSchema }],
  errors: ['ssh_login_refused', 'key_limit', 'disk_full'],
  permission: 'read',
  example: {
    body: {
      signed:
        'AAAAIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHMgAAAANkZXYAAAAOc3NoLWNvbm5lY3Rpb24AAAAJcHVibGlja2V5AQAAAAtzc2gtZWQyNTUxOQAAADMAAAALc3NoLWVkMjU1MTkAAAAg11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=',
      signature: 'yVNSsxNX3ynwi+69Me7H5AeQeiDkkFtdF76ACZ7D7KAr0Jm/u8ZdDcT3ENSVcKlXGq1/lUOzaxe3DGwOVGAQBA==',
    },
  },
});

export const sshKeyOperations = {
  'ssh_key.create': sshKeyCreate,
  'ssh_key.list': sshKeyList,
  'ssh_key.get': sshKeyGet,
  'ssh_key.remove': sshKeyRemove,
  'ssh.offer': sshOffer,
  'ssh.login': sshLogin,
} as const satisfies Operations;
