/** Every operation of the API. An operation that is not here is not served. */
import { sandboxExec, sandboxExecStream, sandboxLogs } from './commands.ts';
import { daemonInfo, health, metrics, openapi } from './daemon.ts';
import { egressDecisions, policyGet, policyLearn, policyPresets, policySet, policyTest } from './egress.ts';
import { jobGet, jobKill, jobList, jobLogs, jobStart } from './jobs.ts';
import { sandboxActivate, sandboxRestore, sandboxSnapshot } from './layers.ts';
import { moduleImport, moduleList, moduleRemove } from './modules.ts';
import type { Operation } from './operation.ts';
import { secretList, secretRemove, secretSet } from './secrets.ts';
import { sandboxCreate, sandboxDestroy, sandboxGet, sandboxList } from './sandboxes.ts';

export const operations = {
  health,
  'sandbox.list': sandboxList,
  'sandbox.create': sandboxCreate,
  'sandbox.get': sandboxGet,
  'sandbox.destroy': sandboxDestroy,
  'sandbox.exec': sandboxExec,
  'sandbox.activate': sandboxActivate,
  'sandbox.snapshot': sandboxSnapshot,
  'sandbox.restore': sandboxRestore,
  'sandbox.logs': sandboxLogs,
  'job.start': jobStart,
  'job.list': jobList,
  'job.get': jobGet,
  'job.logs': jobLogs,
  'job.kill': jobKill,
  'module.list': moduleList,
  'sandbox.exec_stream': sandboxExecStream,
  'module.import': moduleImport,
  'module.remove': moduleRemove,
  'policy.get': policyGet,
  'policy.set': policySet,
  'policy.test': policyTest,
  'policy.learn': policyLearn,
  'policy.presets': policyPresets,
  'egress.decisions': egressDecisions,
  'secret.list': secretList,
  'secret.set': secretSet,
  'secret.remove': secretRemove,
  'daemon.info': daemonInfo,
  metrics,
  openapi,
} as const satisfies Readonly<Record<string, Operation>>;

export type OperationId = keyof typeof operations;
export type OperationOf<T extends OperationId> = (typeof operations)[T];

/** Errors that any operation may answer: they come from the gate and the parsing, before the handler. */
export const commonErrors = [
  'invalid_request',
  'invalid_json',
  'unauthorized',
  'origin_refused',
  'not_found',
  'method_not_allowed',
  'request_timeout',
  'body_too_large',
  'unsupported_media_type',
  'shutting_down',
  'internal',
] as const;

/**
 * Addresses of the original's last version that this Squash does not serve: each answers 501 with its sentence,
 * so that a client learns that the part is missing, not that it misspelt the address.
 */
export const notOffered: Readonly<Record<string, string>> = {
  '/cgi-bin/api/sandboxes/{id}/fork':
    'fork is not offered: snapshot the sandbox, import the snapshot\u2019s file as a module and create another sandbox on it',
  '/cgi-bin/api/sandboxes/{id}/diff':
    'diff is not offered: snapshots are squashfs files that can be compared',
  '/cgi-bin/api/sandboxes/{id}/task': 'task is not offered: run the agent by exec-bg',
  '/cgi-bin/api/sandboxes/{id}/gui': 'gui is not offered: sandboxes have no desktop',
  '/cgi-bin/api/sandboxes/{id}/novnc': 'novnc is not offered: sandboxes have no desktop',
  '/cgi-bin/api/sandboxes/{id}/wg': 'wg is not offered: sandboxes reach nothing by UDP',
  '/cgi-bin/api/gc': 'gc is not offered: what nothing refers to is removed by itself',
};
