/** What of groups is stored, and what the store has to do. Whoever writes several rows holds one transaction. */
import type { Action, ActionRequest } from '@squash/contract/actions';
import type { ChatCreate, GroupCreate, Run } from '@squash/contract/groups';
import type { TierBody } from '@squash/contract/tiers';

export interface TierRow {
  readonly name: string;
  readonly body: TierBody;
}

export interface GroupRow {
  /** Never used again. */
  readonly key: number;
  readonly body: GroupCreate;
  /** Id of its folder; null: no run has had one yet. */
  readonly volume: string | null;
  readonly createdMs: number;
  readonly createdBy: string | null;
}

export interface ChatRow {
  readonly body: ChatCreate;
  /** Name of the volume that is its session, written before that is made; null: no run has had one yet. */
  readonly session: string | null;
  readonly createdMs: number;
}

export interface MessageRow {
  readonly number: number;
  readonly chat: string;
  readonly sender: string;
  readonly text: string;
  /** Of the chat system. */
  readonly id: string | null;
  readonly isStarting: boolean;
  readonly depth: number;
  /** Null: it waits. */
  readonly run: number | null;
  readonly atMs: number;
}

export interface OutRow {
  readonly number: number;
  readonly chat: string;
  readonly text: string;
  readonly by: string;
  readonly run: number;
  readonly action: string | null;
  readonly atMs: number;
}

export interface RunRow {
  readonly run: number;
  readonly group: string;
  readonly chat: string;
  readonly state: Run['state'];
  readonly attempt: number;
  /** Wall clock: it is not tried before. */
  readonly notBeforeMs: number;
  readonly reason: string | null;
  readonly exitCode: number | null;
  /** Until nothing of it is left, or the chat's next run has it. */
  readonly sandbox: string | null;
  /** An earlier run of the chat was in it. */
  readonly isWarm: boolean;
  /** Wall clock: so long it is kept for the chat's next run; null: it is not. */
  readonly warmUntilMs: number | null;
  /** Its command was started, or is about to be. */
  readonly hasBegun: boolean;
  /** An agent of it has asked for something that was done, or waits: it is not tried again. */
  readonly hasActed: boolean;
  /** Position in the command's output, up to which everything is told. */
  readonly position: number;
  readonly outputBytes: number;
  readonly isTruncated: boolean;
  readonly depth: number;
  /** It has its message and no other. */
  readonly isIsolated: boolean;
  readonly createdMs: number;
  readonly startedMs: number | null;
  readonly finishedMs: number | null;
}

export interface ActionRow {
  readonly number: number;
  readonly group: string;
  readonly run: number;
  readonly request: ActionRequest;
  readonly state: Action['state'];
  readonly rule: string;
  readonly reason: string | null;
  readonly askedMs: number;
  readonly decidedMs: number | null;
}

export interface ActionFilter {
  readonly state?: Action['state'] | undefined;
  readonly group?: string | undefined;
}

export interface GroupRows {
  /** All of it or nothing; on the disk soon. @throws disk_full */
  transaction<T>(body: () => T): T;

  tiers(): readonly TierRow[];
  putTier(row: TierRow): void;
  deleteTier(name: string): void;

  /** By name. */
  groups(): readonly GroupRow[];
  /** By name, of that one or of all: what agents look at as often as they may. */
  groupNames(group?: string): readonly Pick<GroupCreate, 'name' | 'tier'>[];
  group(name: string): GroupRow | undefined;
  putGroup(body: GroupCreate): void;
  insertGroup(row: Omit<GroupRow, 'key' | 'volume'>): void;
  setVolume(group: string, volume: string): void;
  /** With all that is its. */
  deleteGroup(name: string): void;

  /** By name. */
  chats(): readonly ChatRow[];
  /** By name, of that group or of all. */
  chatNames(group?: string): readonly Pick<ChatCreate, 'name' | 'group'>[];
  chat(name: string): ChatRow | undefined;
  putChat(body: ChatCreate): void;
  insertChat(row: Omit<ChatRow, 'session'>): void;
  setSession(chat: string, session: string | null): void;
  /** With all that was said in it. */
  deleteChat(name: string): void;

  /** The one that came with this id. */
  messageBy(chat: string, id: string): MessageRow | undefined;
  /** Its number. */
  insertMessage(row: Omit<MessageRow, 'number' | 'run'>): number;
  /** Oldest first. */
  waiting(chat: string): readonly MessageRow[];
  deleteMessage(number: number): void;
  giveTo(run: number, messages: readonly number[]): void;
  messagesOf(run: number): readonly MessageRow[];

  insertOut(row: Omit<OutRow, 'number'>): void;
  /** Oldest first. */
  out(chat: string, after: number, limit: number): readonly OutRow[];
  /** Number of the last of the chat; 0: nothing was said there. */
  lastOut(chat: string): number;

  /** Its number. */
  insertRun(row: Omit<RunRow, 'run'>): number;
  run(run: number): RunRow | undefined;
  putRun(row: RunRow): void;
  /** Newest first. */
  runsOf(group: string, limit: number): readonly RunRow[];
  /** Those that wait or run, and those of which a sandbox is left; oldest first. */
  openRuns(): readonly RunRow[];

  action(number: number): ActionRow | undefined;
  actionBy(group: string, id: string): ActionRow | undefined;
  /** Its number. */
  insertAction(row: Omit<ActionRow, 'number'>): number;
  putAction(row: ActionRow): void;
  /** Newest first. */
  actions(filter: ActionFilter, limit: number): readonly ActionRow[];
  countHeld(group: string): number;
  countOfRun(run: number): number;
}
