/**
 * A daemon with two sandboxes, `attacked` and `neighbour`, and things outside worth stealing or breaking.
 *
 * Limits are small, so that a bomb is over soon; the neighbour's limits are its own, so that it must not notice.
 */
import { randomBytes } from 'node:crypto';
import { limits } from '@squash/contract/limits';
import type { Answer } from '../support/daemon.ts';
import { TestDaemon } from '../support/daemon.ts';
import { isOnVms } from '../support/backend.ts';
import { repository } from '../support/base-layer.ts';
import { patience, waitFor } from '../support/wait.ts';
import type { AttemptOutput, Surroundings } from './attempt.ts';
import { freePort } from '../support/free-port.ts';
import { HostSide } from './host-side.ts';
import { type AttackTool, attackTool } from './tool.ts';

/** Of a guest's its kernel takes a part, and with less a thousand processes leave nothing to run them in. */
export const attackedMemoryMb = isOnVms ? 256 : 128;
export const upperMb = 64;

export interface UnderAttackOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly modules?: Readonly<Record<string, string>>;
}

export class UnderAttack implements AsyncDisposable {
  readonly daemon: TestDaemon;
  readonly host: HostSide;
  readonly tool: AttackTool;
  readonly around: Surroundings;
  readonly secrets: readonly string[];
  readonly #neighbourSecret: string;

  private constructor(parts: {
    readonly daemon: TestDaemon;
    readonly host: HostSide;
    readonly tool: AttackTool;
    readonly around: Surroundings;
    readonly secrets: readonly string[];
    readonly neighbourSecret: string;
  }) {
    this.daemon = parts.daemon;
    this.host = parts.host;
    this.tool = parts.tool;
    this.around = parts.around;
    this.secrets = parts.secrets;
    this.#neighbourSecret = parts.neighbourSecret;
  }

  static async start(options: UnderAttackOptions = {}): Promise<UnderAttack> {
    await using stack = new AsyncDisposableStack();
    const tool = await attackTool();
    const host = stack.use(await HostSide.start(tool.program));
    const word = (): string => randomBytes(8).toString('hex');
    const secrets = {
      token: `token-${word()}`,
      environment: `daemon-environment-${word()}`,
      neighbour: `neighbour-secret-${word()}`,
    };
    const daemon = stack.use(
      await TestDaemon.start({
        env: {
          SQUASH_AUTH_TOKEN: secrets.token,
          SOME_SECRET: secrets.environment,
          SQUASH_UPPER_LIMIT_MB: String(upperMb),
          ...options.env,
        },
        modules: { '050-attack': tool.module, ...options.modules },
      }),
    );
    const around: Surroundings = {
      secretFile: host.secretFile,
      dataDir: daemon.dataDir,
      repository,
      victimPid: host.victimPid,
      victimWord: host.victimWord,
      hostSocket: host.socket,
      hostPort: host.port,
      neighbourSocket: `neighbour-${word()}`,
      neighbourPort: await freePort(),
      neighbourWord: 'neighbour-',
      apiPort: daemon.port,
      memoryMb: attackedMemoryMb,
      upperMb,
      pidsMax: limits.sandboxPidsMax,
    };
    const all = [...Object.values(secrets), ...host.secrets];
    const parts = { daemon, host, tool, around, secrets: all, neighbourSecret: secrets.neighbour };
    const scene = new UnderAttack(parts);
    await scene.create('attacked');
    await scene.create('neighbour');
    await scene.#furnishNeighbour();
    scene.#owned = stack.move();
    return scene;
  }

  #owned = new AsyncDisposableStack();
  readonly #warnings = new Set<string>();

  /** Codes of what this host does not hold, as creating a sandbox said. */
  get warnings(): ReadonlySet<string> {
    return this.#warnings;
  }

  async create(id: string, layers: readonly string[] = ['000-base-test', '050-attack']): Promise<void> {
    const created: Answer['json'] = await this.daemon.call('POST', '/cgi-bin/api/sandboxes', {
      id,
      layers,
      cpu: 1,
      memory_mb: attackedMemoryMb,
    });
    for (const { code } of created.warnings) this.#warnings.add(String(code));
  }

  async destroy(id: string): Promise<void> {
    await this.daemon.call('DELETE', `/cgi-bin/api/sandboxes/${id}`);
  }

  /** Runs a shell script; any answer but 200 is an error of the test. */
  async exec(
    id: string,
    script: string,
    timeoutS = 60,
  ): Promise<AttemptOutput & { readonly reason: string }> {
    const answer: Answer['json'] = await this.daemon.call('POST', `/cgi-bin/api/sandboxes/${id}/exec`, {
      cmd: script,
      timeout: timeoutS * patience,
    });
    return {
      exitCode: Number(answer.exit_code),
      stdout: String(answer.stdout),
      stderr: String(answer.stderr),
      reason: String(answer.reason),
    };
  }

  /** The tool's path and an empty working directory, as attempts expect them. */
  prepared(script: string): string {
    return `export A=/attack/attack; rm -rf /work 2>/dev/null; mkdir -p /work/a && cd /work/a || exit 2\n${script}`;
  }

  /** @throws when the daemon, the neighbour or anything outside has suffered */
  async expectUnharmed(): Promise<void> {
    const health = await this.daemon.request('GET', '/cgi-bin/health');
    if (health.status !== 200) throw new Error(`the daemon answers ${String(health.status)}: ${health.text}`);
    const look = 'cat /root/neighbour-file /etc/os-release; kill -0 $(cat /root/server.pid) && echo alive';
    const neighbour = await this.exec('neighbour', look);
    const wanted = `${this.#neighbourSecret}\nID=squash-test\nalive\n`;
    if (neighbour.stdout !== wanted) {
      throw new Error(`the neighbour has changed: ${neighbour.stdout}${neighbour.stderr}`);
    }
    const harm = await this.host.harm();
    if (harm.length > 0) throw new Error(harm.join(', '));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }

  async #furnishNeighbour(): Promise<void> {
    const { neighbourSocket, neighbourPort } = this.around;
    const secret = this.#neighbourSecret;
    const files = ['/root', '/tmp', '/dev/shm'].map((folder) => `echo ${secret} >${folder}/neighbour-file`);
    await this.exec('neighbour', files.join('; '));
    await this.daemon.call('POST', '/cgi-bin/api/sandboxes/neighbour/exec-bg', {
      cmd: `echo $$ >/root/server.pid; exec /attack/attack serve ${neighbourSocket} ${String(neighbourPort)} ${secret}`,
      timeout: 3600,
    });
    await waitFor('the neighbour to serve', async () => {
      const probe = await this.exec(
        'neighbour',
        `/attack/attack connect-tcp 127.0.0.1 ${String(neighbourPort)}`,
      );
      return probe.exitCode === 66;
    });
  }
}
