/** One daemon, as a program sees it: everything else is reached from here. */
import { describeAddress } from './address.ts';
import { Connection, type ConnectionOptions, type Signal, startMsMax } from './connection.ts';
import { type Command, commandOf, type ExecOptions, takesMsOf } from './commands.ts';
import { type ExecResult, execResult } from './exec-result.ts';
import { Sandboxes } from './sandboxes.ts';
import type { DaemonInfo, SandboxCreate } from './records.gen.ts';

export type SquashOptions = ConnectionOptions;

export interface RunOptions extends ExecOptions {
  /** The sandbox that it runs in. */
  readonly sandbox?: SandboxCreate;
}

export class Squash {
  readonly sandboxes: Sandboxes;
  /** For what has no name here yet: calls an operation by its id. */
  readonly connection: Connection;

  constructor(options: SquashOptions = {}) {
    this.connection = new Connection(options);
    this.sandboxes = new Sandboxes(this.connection);
  }

  /** Where the daemon is asked. */
  get url(): string {
    return describeAddress(this.connection.address);
  }

  /** `daemon.info`: version, host, room and problems of the daemon. */
  async info(options: Signal = {}): Promise<DaemonInfo> {
    return await this.connection.call('daemon.info', options);
  }

  /**
   * `sandbox.run`: runs one command in a sandbox of its own, of which nothing is left. A string is a shell line, a list is words that no
   * shell sees. A command that fails is a result.
   */
  async run(command: Command, { sandbox, signal, ...options }: RunOptions = {}): Promise<ExecResult> {
    const exec = { ...commandOf(command), ...options };
    const body = { exec, ...(sandbox !== undefined && { sandbox }) };
    const takesMs = takesMsOf(options) + startMsMax;
    const { result } = await this.connection.call('sandbox.run', { body, signal, takesMs });
    return execResult(result);
  }

  /** Ends idle connections; a program that has nothing else to do ends without it. */
  close(): void {
    this.connection.close();
  }
}
