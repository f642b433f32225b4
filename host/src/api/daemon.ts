/**
 * What the daemon says of itself: `health` (the original's fields; Tailscale is a part that does not exist, so it is always
 * off), `daemon.info`, `metrics` and `openapi` (the committed description, read once).
 */
import { readFile } from 'node:fs/promises';
import type { DaemonInfo, Problem } from '@squash/contract/daemon';
import type { daemonOperations } from '@squash/contract/operations/daemon';
import type { Engine } from '../engine/engine.ts';
import type { Caller } from '../http/caller.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { type MetricSources, metricsText } from './metrics.ts';

/** What a problem says may name any owner's sandbox: others learn what kind it is. */
function told(caller: Caller, problems: readonly Problem[]): readonly Problem[] {
  if (caller.owner === null) return [...problems];
  return problems.map(({ code }) => ({ code, message: 'the operator is told what it is: squash doctor' }));
}

/** What does not change while the daemon runs. */
export type ConstantInfo = Omit<DaemonInfo, 'host' | 'problems' | 'room'>;

export interface DaemonParts extends MetricSources {
  /** Of engine and audit, now. */
  readonly problems: () => readonly Problem[];
  /** Secrets are masked by whoever made it. */
  readonly info: () => ConstantInfo;
  /** What the host offers, tried where that takes a moment. */
  readonly host: () => Promise<DaemonInfo['host']>;
}

const description = new URL('../../../contract/openapi.json', import.meta.url);
const metricsType = 'text/plain; version=0.0.4; charset=utf-8';

export function daemonHandlers(engine: Engine, parts: DaemonParts): HandlersOf<typeof daemonOperations> {
  let openapi: Promise<string> | undefined;
  return {
    health: async ({ caller }) => {
      const { sandboxes, modules, baseReady } = await engine.health();
      const info = parts.info();
      const problems = told(caller, parts.problems());
      return json({
        status: 'ok',
        backend: info.backend,
        tailscale: { status: 'off', ip: '' },
        sandboxes,
        modules,
        base_ready: baseReady,
        ...(problems.length > 0 && { problems }),
      });
    },
    'daemon.info': async ({ caller }) => {
      const info = { ...parts.info(), host: await parts.host() };
      // The configuration is the operator's.
      const config = caller.owner === null ? info.config : [];
      return json({ ...info, config, problems: told(caller, parts.problems()), room: engine.room() });
    },
    metrics: async () => ({ type: 'text', contentType: metricsType, text: await metricsText(engine, parts) }),
    openapi: async () => {
      openapi ??= readFile(description, 'utf8');
      return { type: 'text', contentType: 'application/json', text: await openapi };
    },
  };
}
