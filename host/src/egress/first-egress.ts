/**
 * The egress process of a daemon that finds none: started before the daemon's own code is loaded, so that both load at once. Else
 * the first sandbox waits for it. It hears no relay before it is told every sandbox's rules, so it may be there before anything
 * else is known.
 *
 * A daemon that is there for a command, and ends when nobody needs it, starts it behind that: else both share the processors while
 * somebody waits. What such a command connects to before is held, and wants the process at once (`EgressSupervisor.want`).
 *
 * Where one may run it is the supervisor's to look at it first.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { errorText } from '@squash/base/bug';
import type { Log } from '@squash/base/log';
import { egressSockets } from '@squash/contract/egress-protocol';
import { limits } from '@squash/contract/limits';
import type { Config } from '../config/config.ts';
import type { LaunchClient } from '../launch/launch-client.ts';
import { endStarted, type StartedEgress, startEgress } from './egress-process.ts';

export interface FirstEgressOptions {
  readonly config: Config;
  /** What it answers as its version. */
  readonly build: string;
  readonly launcher: LaunchClient;
  readonly log: Log;
}

export class FirstEgress {
  #started: StartedEgress | undefined;
  #isPutOff = false;

  /** None was started: the first start is to wait until it is wanted. */
  get isPutOff(): boolean {
    return this.#isPutOff;
  }

  /** Never rejects: what stands in the way stands in the supervisor's way too, who says so and tries again. */
  static async start({ config, build, launcher, log }: FirstEgressOptions): Promise<FirstEgress> {
    const first = new FirstEgress();
    if (existsSync(join(config.runDir, egressSockets.api))) return first;
    if (isFirstCommandAwaited(config)) {
      first.#isPutOff = true;
      return first;
    }
    try {
      const started = await startEgress({ ...config, build });
      first.#started = started;
      void started.ended.then(() => (first.#started = undefined));
      await confineEgress(started.pid, { launcher, log });
    } catch (error) {
      log.warn('egress.first', { error: errorText(error) });
    }
    return first;
  }

  /** Whoever takes it ends it. */
  take(): StartedEgress | undefined {
    const started = this.#started;
    this.#started = undefined;
    return started;
  }

  async endOwn(): Promise<void> {
    const started = this.take();
    if (started !== undefined) await endStarted(started);
  }
}

/** Whoever starts a daemon that ends by itself has a command for it. */
function isFirstCommandAwaited({ idleExitMs }: Config): boolean {
  return idleExitMs > 0;
}

/** Under its memory limit. */
export async function confineEgress(
  pid: number,
  { launcher, log }: Pick<FirstEgressOptions, 'launcher' | 'log'>,
): Promise<void> {
  const group = { group: 'egress', pid, memoryBytesMax: limits.egressMemoryBytesMax } as const;
  const { warning } = await launcher.joinGroup(group);
  if (warning !== undefined) log.warn('egress.confine', { warning });
}
