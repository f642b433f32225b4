/** One daemon, as a program sees it: everything else is reached from here. */
import { describeAddress } from './address.ts';
import { Connection, type ConnectionOptions, type Signal, startMsMax } from './connection.ts';
import { type Command, commandOf, type ExecOptions, takesMsOf } from './commands.ts';
import { type ExecResult, execResult } from './exec-result.ts';
import { Approvals } from './approvals.ts';
import { dataOf, follow } from './follow.ts';
import { Groups } from './groups.ts';
import { Keys } from './keys.ts';
import { Bucket } from './bucket.ts';
import { Images } from './images.ts';
import { Modules } from './modules.ts';
import { Owners } from './owners.ts';
import { everyItem } from './pages.ts';
import type {
  DaemonInfo,
  Event,
  MountCheck,
  MountCheckAnswer,
  Operations,
  PolicyPreset,
  SandboxCreate,
  Ticket,
} from './records.gen.ts';
import { Sandboxes } from './sandboxes.ts';
import { Secrets } from './secrets.ts';
import { SshKeys } from './ssh-keys.ts';
import { Volumes } from './volumes.ts';
import { Webhooks } from './webhooks.ts';

export type SquashOptions = ConnectionOptions;
export type AuditFilter = Omit<Operations['audit.list']['query'], 'cursor'> & Signal;
export type AuditRecord = Operations['audit.list']['answer']['items'][number];
export type EventFilter = Omit<Operations['event.list']['query'], 'cursor' | 'follow' | 'limit'> & Signal;
export type SquashEvent = Event | { readonly type: 'gap'; readonly removed_before: number };

export interface RunOptions extends ExecOptions {
  /** The sandbox that it runs in. */
  readonly sandbox?: SandboxCreate;
}

export class Squash {
  readonly sandboxes: Sandboxes;
  readonly modules: Modules;
  readonly bucket: Bucket;
  readonly images: Images;
  readonly volumes: Volumes;
  readonly secrets: Secrets;
  readonly keys: Keys;
  readonly sshKeys: SshKeys;
  readonly owners: Owners;
  readonly approvals: Approvals;
  readonly webhooks: Webhooks;
  readonly groups: Groups;
  /** For what has no name here yet: calls an operation by its id. */
  readonly connection: Connection;

  constructor(options: SquashOptions = {}) {
    this.connection = new Connection(options);
    this.sandboxes = new Sandboxes(this.connection);
    this.modules = new Modules(this.connection);
    this.bucket = new Bucket(this.connection);
    this.images = new Images(this.connection);
    this.volumes = new Volumes(this.connection);
    this.secrets = new Secrets(this.connection);
    this.keys = new Keys(this.connection);
    this.sshKeys = new SshKeys(this.connection);
    this.owners = new Owners(this.connection);
    this.approvals = new Approvals(this.connection);
    this.webhooks = new Webhooks(this.connection);
    this.groups = new Groups(this.connection);
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

  /** `mount.check`: whether a sandbox would get a directory of the host, and what each rule says of it. @throws NotFound */
  async checkMount({ signal, ...body }: MountCheck & Signal): Promise<MountCheckAnswer> {
    return await this.connection.call('mount.check', { body, signal });
  }

  /** `audit.list`: who asked for what, newest first. */
  audit({ signal, ...query }: AuditFilter = {}): AsyncGenerator<AuditRecord, void, void> {
    return everyItem(this.connection, 'audit.list', { query, signal });
  }

  /**
   * `event.list`: what happens to sandboxes, as it happens, and none twice or lost where the connection breaks. It begins with what comes
   * next, or behind the event `after`; 0 is the oldest that is kept. A `gap` says that some are not kept any more. Without end.
   */
  async *events({ signal, after, ...query }: EventFilter = {}): AsyncGenerator<SquashEvent, void, void> {
    const asked = { ...query, follow: 'true' as const };
    const options = { query: asked, after: after?.toString(), signal, isLast: () => false };
    for await (const event of follow(this.connection, 'event.list', options)) {
      const record = dataOf(event);
      yield event.name === 'gap'
        ? { type: 'gap', ...(record as { readonly removed_before: number }) }
        : (record as Event);
    }
  }

  /** `policy.presets`: names that stand for lists of hosts. */
  async presets(options: Signal = {}): Promise<readonly PolicyPreset[]> {
    return await this.connection.call('policy.presets', options);
  }

  /** `ticket.create`: opens a WebSocket or a stream of events at this path once, for a page that can send no header. */
  async ticket(path: string, options: Signal = {}): Promise<Ticket> {
    return await this.connection.call('ticket.create', { body: { path }, ...options });
  }

  /** Ends idle connections; a program that has nothing else to do ends without it. */
  close(): void {
    this.connection.close();
  }
}
