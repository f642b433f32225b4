/** What groups need of what is below them: sandboxes, as the daemon's engine makes them, and someone who keeps what was decided. */
import type { Duplex } from 'node:stream';
import type { Action, ActionRequest } from '@squash/contract/actions';
import type { AuditCaller } from '@squash/contract/audit';
import type { GroupMount } from '@squash/contract/group-mounts';
import type { GroupCreate } from '@squash/contract/groups';

/** What a run's sandbox is made from. */
export interface SandboxWish {
  readonly group: GroupCreate;
  readonly run: number;
  /** Of its command. */
  readonly timeoutS: number;
  /** It may be kept for the next run of the chat. */
  readonly mayRest: boolean;
  /** Destinations of its policy. */
  readonly allow: readonly string[];
  /** Id of the volume that is its folder. */
  readonly volume: string;
  /** Id of the volume that is its chat's session; null: it has a fresh one, which goes with it. */
  readonly session: string | null;
  /** The memory of all groups; null: its tier does not have it. */
  readonly global: { readonly volume: string; readonly mode: 'ro' | 'rw' } | null;
}

export interface VolumeWish {
  /** Where that can be held. */
  readonly sizeMb: number;
  /** Several sandboxes may have it for writing, and others read it meanwhile. */
  readonly isShared?: boolean;
}

/** Where a run's command is, and by which name. */
export interface CommandAt {
  readonly sandbox: string;
  /** In this sandbox no other run's. */
  readonly tag: string;
}

export interface RunCommand {
  readonly argv: readonly string[];
  /** Directories of the sandbox that are the agent's beside its volumes; made where they are not there. */
  readonly places: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Uint8Array;
  readonly timeoutMs: number;
  /** An earlier run's command was in the sandbox: its volumes are the agent's already. */
  readonly isWarm: boolean;
  /** What is kept of its output until it is read. */
  readonly outputBytesMax: number;
}

export interface Piece {
  /** Position behind it, in the output of both streams. */
  readonly seq: number;
  /** Undefined: bytes that are not kept any more. */
  readonly stream: 'stdout' | 'stderr' | undefined;
  readonly data: Buffer;
}

export interface CommandEnd {
  readonly exitCode: number;
  /** What ended it, where that was not the command itself. */
  readonly reason: string | null;
  readonly isTimedOut: boolean;
}

export type Offered =
  | { readonly type: 'offered' }
  | { readonly type: 'connection'; readonly take: () => Promise<Duplex> };

/** Ids of sandboxes are strings here: whoever makes them gives them. */
export interface RunSandboxes {
  newId(): string;
  has(id: string): boolean;
  /** Id of a volume of this name, which is made where there is none. */
  volume(name: string, wish?: VolumeWish): Promise<string>;
  /** Whether a run would get this directory of the host. @throws host_directory_refused */
  checkDirectory(mount: GroupMount): void;
  /**
   * By name or id, with all that is in it; nothing where there is none. Called in a transaction: with that it is gone. Its files go when
   * the answer is called, or when the next daemon starts. @throws volume_in_use
   */
  removal(volume: string): () => Promise<void>;
  /** Resolves when it takes commands. */
  make(id: string, wish: SandboxWish): Promise<void>;
  /**
   * Ends all that runs in it and takes from it all that is attached; its files stay. It is removed when nobody does in the seconds and
   * some more. False: it can't be told whether it would be made so again.
   */
  rest(id: string, seconds: number): Promise<boolean>;
  /** As `make`, of one that rests: all that it may have is asked for anew. @throws where it would be made otherwise now */
  wake(id: string, wish: SandboxWish): Promise<void>;
  /** Starts the command, unless that was done before. Its volumes for writing are the agent's then. */
  begin(at: CommandAt, command: RunCommand): Promise<void>;
  /** Until the command has ended, or the signal aborts. */
  output(at: CommandAt, after: number, signal: AbortSignal): AsyncIterable<Piece>;
  end(at: CommandAt): CommandEnd;
  /** Nothing where there is none. */
  remove(id: string): Promise<void>;
  /** Connections of its programs to `caller.squash.internal` at the port. */
  offer(id: string, port: number, signal: AbortSignal): AsyncIterable<Offered>;
}

/** What of others an agent wants to see; that its tier does not let it is a decision as well. */
export type Look = 'look.runs' | 'look.messages' | 'look.schedules';

/** One decision on what an agent asks for. Nothing in it was chosen by an agent but a group's name, which is letters and digits. */
export interface Decision {
  /** Its number; null: it is not kept, because it was refused before. */
  readonly action: number | null;
  readonly asked: ActionRequest['action'] | Look;
  readonly group: string;
  readonly run: number;
  /** The run's; null: it is gone. */
  readonly sandbox: string | null;
  /** `unseen`: a look. `withdrawn`: its group was removed while it was held. */
  readonly state: Action['state'] | 'refused' | 'unseen' | 'withdrawn';
  readonly rule: string;
  /** Null: the tier, when the agent asked. */
  readonly by: AuditCaller | null;
}

export interface Witness {
  /**
   * The last step of the decision's transaction: what is decided is told, in whatever moment the daemon dies. The audit may have a line
   * of one whose commit then failed, never none of one that holds. @throws disk_full
   */
  decided(decision: Decision): void;
}
