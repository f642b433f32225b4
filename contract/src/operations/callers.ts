/**
 * The operations by which a caller lets programs of a sandbox connect to a port of his own machine, as far as its policy names it.
 *
 * The scope is `exec`: who has it runs what he likes as any program in the sandbox, so it gets nothing by him that it could not be given
 * by a command of his. What a program may reach is the policy's word, and to change that takes `manage`.
 */
import { callerConnectionSchema } from '../callers.ts';
import { portNumberSchema } from '../ports.ts';
import { defineOperation, type Operations } from './operation.ts';
import { sandboxParams } from './sandboxes.ts';

const params = sandboxParams.extend({ port: portNumberSchema });
const port = { port: '5432' };

const callerOffer = defineOperation({
  id: 'caller.offer',
  method: 'GET',
  path: '/v1/sandboxes/{id}/callers/{port}',
  dialect: 'native',
  summary: 'Offer a port of yours to a sandbox, for as long as the WebSocket stands',
  description:
    'Programs in the sandbox reach it as `caller.squash.internal:PORT`, where the policy names that. The daemon says `{"type":"offered"}`, then ' +
    '`{"type":"connection","connection":…}` for each connection: take it with `caller.take` within 10 seconds, or send `{"type":"refuse","connection":…}`. ' +
    'One client offers a port at a time. With the offer end its connections. `{"type":"error","code":…,"message":…}` says why the daemon closes: ' +
    '`port_offered`, `offer_limit`, `sandbox_not_ready`, `egress_unavailable`, `sandbox_not_found` when the sandbox is removed.',
  params,
  answers: [{ status: 101, description: 'Switching to the WebSocket protocol' }],
  errors: ['sandbox_not_found', 'upgrade_required', 'stream_limit'],
  permission: 'exec',
  webSocket: 'squash.caller.v1',
  example: { params: port },
});

const callerTake = defineOperation({
  id: 'caller.take',
  method: 'GET',
  path: '/v1/sandboxes/{id}/callers/{port}/{connection}',
  dialect: 'native',
  summary: 'Take a connection that a program in a sandbox has made to a port that you offer',
  description:
    'One WebSocket is one TCP connection, spoken as `port.tcp` is: binary messages are bytes, `{"type":"eof"}` ends its sender’s side. ' +
    'One that closes before both sides have ended is a reset to the program.',
  params: params.extend({ connection: callerConnectionSchema }),
  answers: [{ status: 101, description: 'Switching to the WebSocket protocol' }],
  errors: ['sandbox_not_found', 'connection_gone', 'upgrade_required', 'stream_limit'],
  permission: 'exec',
  webSocket: 'squash.tcp.v1',
  example: { params: { ...port, connection: '0123456789abcdef0123456789abcdef' } },
});

export const callerOperations = {
  'caller.offer': callerOffer,
  'caller.take': callerTake,
} as const satisfies Operations;
