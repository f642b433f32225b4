/** Which handler answers which operation. The type makes the table complete. */
import type { DaemonInfo } from '@squash/contract/daemon';
import type { HttpCounters } from '../http/counters.ts';
import type { Handlers } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';
import { daemonInfoHandler } from './daemon-info.ts';
import { type DecisionLog, egressDecisionsHandler } from './egress-decisions.ts';
import type { EgressStatistics } from './egress-metrics.ts';
import { healthHandler } from './health.ts';
import { jobGetHandler } from './job-get.ts';
import { jobKillHandler } from './job-kill.ts';
import { jobListHandler } from './job-list.ts';
import { jobLogsHandler } from './job-logs.ts';
import { jobStartHandler } from './job-start.ts';
import { metricsHandler } from './metrics.ts';
import { moduleImportHandler } from './module-import.ts';
import { moduleListHandler } from './module-list.ts';
import { moduleRemoveHandler } from './module-remove.ts';
import { openapiHandler } from './openapi.ts';
import {
  type EgressRules,
  policyGetHandler,
  policyLearnHandler,
  policyPresetsHandler,
  policySetHandler,
  policyTestHandler,
} from './policy.ts';
import { secretListHandler, secretRemoveHandler, secretSetHandler, type Secrets } from './secrets.ts';
import { sandboxActivateHandler } from './sandbox-activate.ts';
import { sandboxCreateHandler } from './sandbox-create.ts';
import { sandboxDestroyHandler } from './sandbox-destroy.ts';
import { sandboxExecHandler } from './sandbox-exec.ts';
import { sandboxGetHandler } from './sandbox-get.ts';
import { sandboxListHandler } from './sandbox-list.ts';
import { sandboxLogsHandler } from './sandbox-logs.ts';
import { sandboxRestoreHandler } from './sandbox-restore.ts';
import { sandboxSnapshotHandler } from './sandbox-snapshot.ts';

export interface HandlerOptions {
  readonly engine: Engine;
  readonly counters: HttpCounters;
  readonly temporaryDir: string;
  readonly info: () => DaemonInfo;
  readonly egress: EgressParts;
}

/** What the API needs of the egress side. */
export interface EgressParts {
  readonly rules: EgressRules;
  readonly log: DecisionLog & EgressStatistics;
  readonly secrets: Secrets;
}

export function handlers({ engine, counters, temporaryDir, info, egress }: HandlerOptions): Handlers {
  return {
    health: healthHandler(engine),
    'sandbox.list': sandboxListHandler(engine),
    'sandbox.create': sandboxCreateHandler(engine),
    'sandbox.get': sandboxGetHandler(engine),
    'sandbox.destroy': sandboxDestroyHandler(engine),
    'sandbox.exec': sandboxExecHandler(engine),
    'sandbox.activate': sandboxActivateHandler(engine),
    'sandbox.snapshot': sandboxSnapshotHandler(engine),
    'sandbox.restore': sandboxRestoreHandler(engine),
    'sandbox.logs': sandboxLogsHandler(engine),
    'job.start': jobStartHandler(engine),
    'job.list': jobListHandler(engine),
    'job.get': jobGetHandler(engine),
    'job.logs': jobLogsHandler(engine),
    'job.kill': jobKillHandler(engine),
    'module.list': moduleListHandler(engine),
    'module.import': moduleImportHandler(engine, { temporaryDir }),
    'module.remove': moduleRemoveHandler(engine),
    'daemon.info': daemonInfoHandler(info),
    'policy.get': policyGetHandler(engine, egress.rules),
    'policy.set': policySetHandler(engine, egress.rules),
    'policy.test': policyTestHandler(engine, egress.rules),
    'policy.learn': policyLearnHandler(engine, egress.log),
    'policy.presets': policyPresetsHandler(),
    'egress.decisions': egressDecisionsHandler(engine, egress.log),
    'secret.list': secretListHandler(egress.secrets),
    'secret.set': secretSetHandler(egress.secrets),
    'secret.remove': secretRemoveHandler(egress.secrets),
    metrics: metricsHandler(engine, counters, egress.log),
    openapi: openapiHandler(),
  };
}
