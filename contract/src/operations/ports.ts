/** The operations on a sandbox's ports: what listens, who may see it, links, waiting, and bytes to it. */
import { z } from 'zod';
import { limits } from '../limits.ts';
import {
  portLinkBodySchema,
  portLinkSchema,
  portListSchema,
  portNumberSchema,
  portSchema,
  portSetBodySchema,
} from '../ports.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryInteger } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const portParams = sandboxParams.extend({ port: portNumberSchema });
const example = { params: { port: '3000' } };
const notReached = [
  'sandbox_not_found',
  'sandbox_paused',
  'host_full',
  'sandbox_not_ready',
  'sandbox_busy',
  'guest_failed',
] as const;

const portList = defineOperation({
  id: 'port.list',
  method: 'GET',
  path: '/v1/sandboxes/{id}/ports',
  dialect: 'native',
  summary: 'The ports that programs of a sandbox listen on',
  params: sandboxParams,
  answers: [{ status: 200, description: 'Ports, by number', schema: portListSchema }],
  errors: [...notReached, 'file_failed'],
  permission: 'exec',
});

const portSet = defineOperation({
  id: 'port.set',
  method: 'PUT',
  path: '/v1/sandboxes/{id}/ports/{port}',
  dialect: 'native',
  summary: 'Say who may see a port',
  description: 'Whether something listens there or not. A port that nobody has spoken of is `token`.',
  params: portParams,
  body: portSetBodySchema,
  answers: [{ status: 200, description: 'The port', schema: portSchema }],
  errors: ['sandbox_not_found', 'disk_full'],
  permission: 'manage',
  example: { ...example, body: { access: 'public' } },
});

const portUrl = defineOperation({
  id: 'port.url',
  method: 'POST',
  path: '/v1/sandboxes/{id}/ports/{port}/url',
  dialect: 'native',
  summary: 'Make a link with which anybody may see a port until it ends',
  description: 'It shows this port of this sandbox and nothing else. It can not be taken back one by one.',
  params: portParams,
  body: portLinkBodySchema,
  answers: [{ status: 200, description: 'The link', schema: portLinkSchema }],
  errors: ['sandbox_not_found'],
  permission: 'exec',
  example: { ...example, body: { expires_s: 7_200 } },
});

const portWait = defineOperation({
  id: 'port.wait',
  method: 'GET',
  path: '/v1/sandboxes/{id}/ports/{port}/wait',
  dialect: 'native',
  summary: 'Wait until a program listens on a port',
  params: portParams,
  query: z.strictObject({
    timeout_ms: queryInteger('timeout_ms', { min: 0, max: limits.portWaitMsMax }).describe(
      `how long (${limits.portWaitMsDefault} unless given); then the answer is \`port_unreachable\``,
    ),
  }),
  answers: [{ status: 200, description: 'It accepts connections', schema: portSchema }],
  errors: [...notReached, 'port_unreachable', 'connection_limit'],
  permission: 'exec',
  example: { ...example, query: { timeout_ms: '10000' } },
});

const portTcp = defineOperation({
  id: 'port.tcp',
  method: 'GET',
  path: '/v1/sandboxes/{id}/ports/{port}/tcp',
  dialect: 'native',
  summary: 'Bytes to and from a port over a WebSocket: one is one TCP connection',
  description:
    'Binary messages are bytes, in both directions. A text message `{"type":"eof"}` ends its sender’s side. ' +
    'The daemon says `{"type":"error","code":…,"message":…}` where the port can not be reached or the connection broke, and closes.',
  params: portParams,
  answers: [{ status: 101, description: 'Switching to the WebSocket protocol' }],
  errors: ['sandbox_not_found', 'upgrade_required', 'stream_limit'],
  permission: 'exec',
  webSocket: 'squash.tcp.v1',
  example,
});

export const portOperations = {
  'port.list': portList,
  'port.set': portSet,
  'port.url': portUrl,
  'port.wait': portWait,
  'port.tcp': portTcp,
} as const satisfies Operations;
