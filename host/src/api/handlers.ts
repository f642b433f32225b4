/** Which handler answers which operation, a line for each noun. The type makes the table complete. */
import { limits } from '@squash/contract/limits';
import type { Engine } from '../engine/engine.ts';
import type { HttpCounters } from '../http/counters.ts';
import { Places } from '../http/places.ts';
import type { Handlers } from '../http/router.ts';
import type { Tickets } from '../http/tickets.ts';
import type { SocketHandlers } from '../http/sockets.ts';
import { type AuditParts, auditHandlers } from './audit.ts';
import { approvalHandlers } from './approvals.ts';
import { contextHandlers } from './contexts.ts';
import { type ConstantInfo, daemonHandlers, type DaemonParts } from './daemon.ts';
import type { DecisionLog } from './decisions.ts';
import type { EgressStatistics } from './egress-metrics.ts';
import { eventHandlers } from './events.ts';
import { fileHandlers } from './files.ts';
import { keyHandlers } from './keys.ts';
import { scheduleHandlers } from './schedules.ts';
import { sshKeyHandlers } from './ssh-keys.ts';
import { groupHandlers, type Groups } from './groups.ts';
import { bucketHandlers } from './bucket.ts';
import { imageHandlers } from './images.ts';
import { moduleHandlers } from './modules.ts';
import { type AddressJudge, type EgressRules, networkHandlers } from './network.ts';
import { ownerHandlers } from './owners.ts';
import { offeringPort, takingConnection } from './callers.ts';
import { forwardingPort } from './port-tcp.ts';
import { type Links, portHandlers } from './ports.ts';
import { attachingProcess } from './process-attach.ts';
import { processHandlers } from './processes.ts';
import { sandboxHandlers } from './sandboxes.ts';
import { seedSandboxHandlers } from './seed-sandboxes.ts';
import { type StreamParts, streamingExec } from './exec-stream.ts';
import { secretHandlers, type Secrets } from './secrets.ts';
import { snapshotHandlers } from './snapshots.ts';
import { ticketHandlers } from './tickets.ts';
import { usageHandlers } from './usage.ts';
import { webhookHandlers, type WebhookParts } from './webhooks.ts';
import { changeHandlers } from './changes.ts';
import { pathHandlers } from './paths.ts';
import { volumeHandlers } from './volumes.ts';

export interface HandlerOptions {
  readonly engine: Engine;
  readonly counters: HttpCounters;
  readonly temporaryDir: string;
  readonly info: () => ConstantInfo;
  readonly host: DaemonParts['host'];
  readonly egress: EgressParts;
  readonly audit: AuditParts;
  readonly tickets: Tickets;
  readonly webhooks: WebhookParts;
  readonly groups: Groups;
  readonly links: Links;
}

/** What the API needs of the egress side. */
export interface EgressParts {
  readonly rules: EgressRules;
  readonly log: DecisionLog & EgressStatistics & AddressJudge;
  readonly secrets: Secrets;
}

export function handlers(options: HandlerOptions): Handlers {
  const { engine, counters, temporaryDir, info, egress, audit, webhooks, groups, tickets, links } = options;
  const uploads = {
    directory: temporaryDir,
    places: new Places('uploads are in progress', limits.uploadsMax),
  };
  const treeReads = new Places('comparisons and copies are in progress', limits.treeReadsMax);
  return {
    ...sandboxHandlers(engine, egress.rules),
    ...seedSandboxHandlers(engine, egress.rules),
    ...processHandlers(engine, counters),
    ...contextHandlers(engine, counters),
    ...fileHandlers(engine),
    ...portHandlers(engine, links),
    ...moduleHandlers(engine, uploads),
    ...imageHandlers(engine, uploads),
    ...snapshotHandlers(engine, { uploads, treeReads }),
    ...bucketHandlers(engine),
    ...volumeHandlers(engine, treeReads, groups),
    ...changeHandlers(engine, { treeReads }),
    ...pathHandlers(engine),
    ...networkHandlers(engine, egress),
    ...approvalHandlers(engine),
    ...secretHandlers(egress.secrets),
    ...ticketHandlers(tickets),
    ...keyHandlers(engine),
    ...sshKeyHandlers(engine),
    ...ownerHandlers(engine),
    ...auditHandlers(audit),
    ...daemonHandlers(engine, {
      counters,
      info,
      host: options.host,
      egress: egress.log,
      audit,
      problems: () => [...engine.problems(), ...audit.problems()],
    }),
    ...usageHandlers(engine),
    ...eventHandlers(engine),
    ...webhookHandlers(webhooks),
    ...groupHandlers(groups),
    ...scheduleHandlers(groups.schedules),
  };
}

export function socketHandlers(engine: Engine, parts: StreamParts): SocketHandlers {
  return {
    'sandbox.exec_stream': streamingExec(engine, parts),
    'process.attach': attachingProcess(engine, parts),
    'port.tcp': forwardingPort(engine, parts),
    'caller.offer': offeringPort(engine, parts),
    'caller.take': takingConnection(engine, parts),
  };
}
