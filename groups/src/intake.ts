/** Messages on their way in: stored, and a run asked for, in one transaction, which the caller holds. */
import { groupLimits } from '@squash/contract/group-limits';
import type { MessageBody, MessageTaken } from '@squash/contract/groups';
import { full, type Registry } from './registry.ts';
import type { GroupRows, MessageRow, RunRow } from './rows.ts';
import { type Triggered, triggered } from './trigger.ts';

export interface Incoming extends MessageBody {
  readonly chat: string;
  /** How many runs led to it. */
  readonly depth: number;
}

export class Intake {
  readonly #rows: GroupRows;
  readonly #registry: Registry;

  constructor(rows: GroupRows, registry: Registry) {
    this.#rows = rows;
    this.#registry = registry;
  }

  /** What a chat system brings. @throws chat_not_found, group_limit */
  take(incoming: Incoming, nowMs: number): MessageTaken {
    const { body } = this.#registry.chat(incoming.chat);
    const known = incoming.id === undefined ? undefined : this.#rows.messageBy(incoming.chat, incoming.id);
    if (known !== undefined) return this.#again(known);
    return this.put(incoming, triggered(body, incoming), nowMs);
  }

  /** What an agent or a schedule brings: its run has all that waits in the chat. @throws group_limit */
  putStarting(incoming: Incoming, nowMs: number): number | null {
    return this.put(incoming, { verdict: 'starts', reason: 'it starts by itself' }, nowMs).run;
  }

  /** Its run has it and nothing else. @throws group_limit */
  putAlone({ chat, sender, text, depth }: Incoming, nowMs: number): number {
    const run = this.#queue(chat, { nowMs, isIsolated: true });
    const row = { chat, sender, text, isStarting: true, depth, id: null, atMs: nowMs };
    this.#rows.giveTo(run, [this.#rows.insertMessage(row)]);
    return run;
  }

  /** @throws group_limit */
  put(
    { chat, sender, text, id, depth }: Incoming,
    { verdict, reason }: Triggered,
    nowMs: number,
  ): MessageTaken {
    if (verdict === 'dropped') return { verdict, reason, message: null, run: null };
    const isStarting = verdict === 'starts';
    // What may be refused comes first: then nothing is written.
    this.#makeRoom(chat, isStarting);
    const run = isStarting ? this.startFor(chat, nowMs) : null;
    const message = this.#rows.insertMessage({
      chat,
      sender,
      text,
      isStarting,
      depth,
      id: id ?? null,
      atMs: nowMs,
    });
    return { verdict, reason, message, run };
  }

  /** The run that waits for its turn in the chat: one is enough for all messages. @throws group_limit */
  startFor(chat: string, nowMs: number): number {
    return this.#open(chat)?.run ?? this.#queue(chat, { nowMs, isIsolated: false });
  }

  /** One that is tried again, or is alone with its prompt, has its messages already. */
  #open(chat: string): RunRow | undefined {
    return this.#rows
      .openRuns()
      .find(
        (run) => run.chat === chat && run.state === 'queued' && run.startedMs === null && !run.isIsolated,
      );
  }

  #queue(
    chat: string,
    { nowMs, isIsolated }: { readonly nowMs: number; readonly isIsolated: boolean },
  ): number {
    const { group } = this.#registry.chat(chat).body;
    const waiting = this.#rows.openRuns().filter((run) => run.group === group && run.state === 'queued');
    if (waiting.length >= groupLimits.queuedRunsMax)
      throw full(`waiting runs of group "${group}"`, waiting.length);
    return this.#rows.insertRun({
      group,
      chat,
      state: 'queued',
      attempt: 1,
      notBeforeMs: nowMs,
      reason: null,
      exitCode: null,
      sandbox: null,
      isWarm: false,
      warmUntilMs: null,
      hasBegun: false,
      hasActed: false,
      position: 0,
      outputBytes: 0,
      isTruncated: false,
      isIsolated,
      depth: 0,
      createdMs: nowMs,
      startedMs: null,
      finishedMs: null,
    });
  }

  /** Those that are only read along make room for later ones; one that starts a run is never lost. */
  #makeRoom(chat: string, isStarting: boolean): void {
    const waiting = this.#rows.waiting(chat).filter((message) => message.isStarting === isStarting);
    if (isStarting && waiting.length >= groupLimits.waitingMax)
      throw full(`messages waiting in chat "${chat}"`, waiting.length);
    const over = isStarting ? 0 : Math.max(0, waiting.length + 1 - groupLimits.contextMax);
    for (const { number } of waiting.slice(0, over)) this.#rows.deleteMessage(number);
  }

  #again({ chat, isStarting, number, run }: MessageRow): MessageTaken {
    const reason = 'it came before, with this id';
    if (!isStarting) return { verdict: 'context', reason, message: number, run };
    return { verdict: 'starts', reason, message: number, run: run ?? this.#open(chat)?.run ?? null };
  }
}
