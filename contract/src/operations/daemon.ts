/** The operations about the daemon itself. */
import { z } from 'zod';
import { healthSchema, infoSchema } from '../daemon.ts';
import { defineOperation, type Operations } from './operation.ts';

const health = defineOperation({
  id: 'health',
  method: 'GET',
  path: '/cgi-bin/health',
  dialect: 'seed',
  summary: 'Whether the daemon answers; needs no token and takes any method',
  answers: [{ status: 200, description: 'It does', schema: healthSchema }],
  errors: [],
  permission: 'none',
});

const daemonInfo = defineOperation({
  id: 'daemon.info',
  method: 'GET',
  path: '/v1/info',
  dialect: 'native',
  summary: 'Version, places, host and configuration of the daemon, without secrets',
  answers: [{ status: 200, description: 'The daemon', schema: infoSchema }],
  errors: [],
  permission: 'read',
});

const metrics = defineOperation({
  id: 'metrics',
  method: 'GET',
  path: '/metrics',
  dialect: 'native',
  summary: 'Counters and gauges in Prometheus’ text format',
  answers: [{ status: 200, description: 'Metrics', contentType: 'text/plain; version=0.0.4; charset=utf-8' }],
  errors: [],
  permission: 'admin',
});

const openapi = defineOperation({
  id: 'openapi',
  method: 'GET',
  path: '/openapi.json',
  dialect: 'native',
  summary: 'This description',
  answers: [{ status: 200, description: 'OpenAPI 3.1', schema: z.looseObject({ openapi: z.string() }) }],
  errors: [],
  permission: 'read',
});

export const daemonOperations = {
  health,
  'daemon.info': daemonInfo,
  metrics,
  openapi,
} as const satisfies Operations;
